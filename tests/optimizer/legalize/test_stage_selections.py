"""The k largest in stages and rounds: what is written, and the same whatever ties, NaN, sizes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import apply, evaluated, legal, ops_of, text
from tracer import lowering, ops
from tracer.ir import Builder, Graph, ShapeDtype
from tracer.optimizer.legalize.selections import staged_selections_pass
from tracer.optimizer.model.costs import counted_scratch, run_cost
from tracer.optimizer.passes import PassManager
from tracer.target import DEFAULT_TARGET

PASS = staged_selections_pass(DEFAULT_TARGET)
DTYPES = ["float32", "float64", "float16", ml_dtypes.bfloat16, "int32", "int8", "uint64"]
# Whole blocks; a rest, leading axes; one row; stages within the stages.
SHAPES = [((3, 4096), 10), ((2, 2, 1777), 3), ((6007,), 1), ((2, 40_000), 50)]


def graph(shape: tuple[int, ...], dtype: Any, k: int, *, squared: bool = False) -> Graph:
    with Builder() as builder:
        x = builder.input(ShapeDtype(shape, dtype))
        return builder.finish(list(ops.top_k(ops.multiply(x, x) if squared else x, k=k)))


def numbers(shape: tuple[int, ...], dtype: Any, kind: str) -> Any:
    rng = np.random.default_rng(0)
    if kind == "few values":
        return rng.integers(0, 3, shape).astype(dtype)
    if np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, endpoint=True, dtype=dtype)
    x = rng.standard_normal(shape)
    if kind == "not finite":
        for value in (np.nan, -np.nan, np.inf, -np.inf):
            x[rng.random(shape) < 0.002] = value
    elif kind == "zeros and the lowest":
        x[:] = -np.inf
        x[..., 5::7], x[..., 9::14] = -0.0, 0.0
    return x.astype(dtype)


def scratch_of(graph: Graph) -> int:
    return counted_scratch(graph.outputs[0].node)


def compiled(graph: Graph, x: Any) -> list[Any]:
    made = lowering.compile_graph(legal(graph))
    return [lowering.to_host(b) for b in made(lowering.to_device(x))]


def test_short_rows_go_in_rounds_over_integers_that_are_stored_once() -> None:
    after, log = apply(PASS, graph((300, 20), "int32", 2))
    assert log.applied == ["2 largest of int32[300,20]"]
    assert text(after) == (
        """
graph(%0: int32[300,20]) {
  %1: int64[300,20] = iota() {shape=(300, 20), dtype=int64, dimension=1}
  %2: int64[300,20] = convert(%0) {dtype=int64}
  %3: int64[] = constant() {value=int64[] 32}
  %4: int64[300,20] = broadcast_in_dim(%3) {shape=(300, 20), dimensions=()}
  %5: int64[300,20] = shift_left(%2, %4)
  %6: int64[] = constant() {value=int64[] 2147483647}
  %7: int64[300,20] = broadcast_in_dim(%6) {shape=(300, 20), dimensions=()}
  %8: int64[300,20] = subtract(%7, %1)
  %9: int64[300,20] = or(%5, %8)
  %10: int64[300,20] = optimization_barrier(%9)
  %11: int64[300] = reduce_maximum(%10) {axes=(1,)}
  %12: int64[300,1] = reshape(%11) {shape=(300, 1)}
  %13: int64[300,20] = broadcast_in_dim(%11) {shape=(300, 20), dimensions=(0,)}
  %14: int64[] = constant() {value=int64[] -9223372036854775808}
  %15: int64[300,20] = broadcast_in_dim(%14) {shape=(300, 20), dimensions=()}
  %16: bool[300,20] = compare(%10, %13) {direction='LT'}
  %17: int64[300,20] = select(%16, %10, %15)
  %18: int64[300] = reduce_maximum(%17) {axes=(1,)}
  %19: int64[300,1] = reshape(%18) {shape=(300, 1)}
  %20: int64[300,2] = concatenate(%12, %19) {dimension=1}
  %21: int64[] = constant() {value=int64[] 32}
  %22: int64[300,2] = broadcast_in_dim(%21) {shape=(300, 2), dimensions=()}
  %23: int64[300,2] = shift_right_arithmetic(%20, %22)
  %24: int32[300,2] = convert(%23) {dtype=int32}
  %25: int64[] = constant() {value=int64[] 2147483647}
  %26: int64[300,2] = broadcast_in_dim(%25) {shape=(300, 2), dimensions=()}
  %27: int64[300,2] = and(%20, %26)
  %28: int32[300,2] = convert(%27) {dtype=int32}
  %29: int32[] = constant() {value=int32[] 2147483647}
  %30: int32[300,2] = broadcast_in_dim(%29) {shape=(300, 2), dimensions=()}
  %31: int32[300,2] = subtract(%30, %28)
  return %24, %31
}""".strip()
    )


@pytest.mark.parametrize(("k", "loops"), [(16, 0), (17, 1)])
def test_many_rounds_are_a_loop_of_one(k: int, loops: int) -> None:
    after, _ = apply(PASS, graph((300, 90), "float32", k))
    assert ops_of(after).count("scan") == loops
    maxima = [node for node in after.nodes if node.op is ops.reduce_maximum]
    assert len(maxima) == (1 if loops else k)


def test_long_rows_go_in_blocks_whose_maxima_choose() -> None:
    after, log = apply(PASS, graph((2, 4099), "int64", 2))
    assert log.applied == ["2 largest of int64[2,4099]"]
    assert (
        text(after)
        == (
            """
graph(%0: int64[2,4099]) {
  %1: int64[2,4080] = slice(%0) {start=(0, 0), limit=(2, 4080), strides=(1, 1)}
  %2: int64[2,19] = slice(%0) {start=(0, 4080), limit=(2, 4099), strides=(1, 1)}
  %3: int64[2,85,48] = reshape(%1) {shape=(2, 85, 48)}
  %4: int64[2,85] = reduce_maximum(%3) {axes=(2,)}
  %5: int64[2,2], %6: int32[2,2] = top_k(%4) {k=2}
  %7: int32[2,2] = sort(%6) {dimension=1, num_keys=1, is_stable=False}
  %8: int64[2,2,48] = gather(%3, %7) {offset_dims=(2,), collapsed_slice_dims=(1,), """
            """start_index_map=(1,), index_vector_dim=2, slice_sizes=(1, 1, 48), """
            """operand_batching_dims=(0,), start_indices_batching_dims=(0,)}
  %9: int64[2,96] = reshape(%8) {shape=(2, 96)}
  %10: int64[2,115] = concatenate(%9, %2) {dimension=1}
  %11: int32[] = constant() {value=int32[] 85}
  %12: int32[2,1] = broadcast_in_dim(%11) {shape=(2, 1), dimensions=()}
  %13: int32[2,3] = concatenate(%7, %12) {dimension=1}
  %14: int64[2,2], %15: int32[2,2] = top_k(%10) {k=2}
  %16: int32[] = constant() {value=int32[] 48}
  %17: int32[2,2] = broadcast_in_dim(%16) {shape=(2, 2), dimensions=()}
  %18: int32[2,2] = divide(%15, %17)
  %19: int32[2,2] = gather(%13, %18) {offset_dims=(), collapsed_slice_dims=(1,), """
            """start_index_map=(1,), index_vector_dim=2, slice_sizes=(1, 1), """
            """operand_batching_dims=(0,), start_indices_batching_dims=(0,)}
  %20: int32[2,2] = multiply(%19, %17)
  %21: int32[2,2] = remainder(%15, %17)
  %22: int32[2,2] = add(%20, %21)
  return %14, %22
}"""
        ).strip()
    )


def test_blocks_are_not_put_in_order_where_words_hold_the_places() -> None:
    """Rounds over what blocks left: 10 over their maxima, 10 over their elements, no more."""
    after, _ = apply(PASS, graph((300, 4099), "float32", 10))
    maxima = [node for node in after.nodes if node.op is ops.reduce_maximum]
    assert len(maxima) == 1 + 10 + 10
    assert ops.sort not in ops_of(after)


@pytest.mark.parametrize(
    "program",
    [
        graph((1, 100), "float32", 10),
        graph((300, 37), "float64", 10),
        graph((2, 5000), "float32", 0),
        graph((2, 5000), "float32", 5000),
        graph((0, 5000), "float32", 10),
    ],
    ids=str,
)
def test_few_rows_wide_elements_and_large_k_stay(program: Graph) -> None:
    assert apply(PASS, program)[0] is program


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize(
    ("shape", "k"), [((2, 1777), 3), ((300, 37), 5), ((300, 37), 20), ((2, 70, 65), 40)]
)
def test_the_oracle_finds_the_same(shape: tuple[int, ...], k: int, dtype: Any) -> None:
    before = graph(shape, dtype, k)
    after, _ = apply(PASS, before)
    for kind in ("any", "few values", "not finite", "zeros and the lowest"):
        x = numbers(shape, dtype, kind)
        for found, wanted in zip(evaluated(after, x), evaluated(before, x), strict=True):
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found.astype("f8"), wanted.astype("f8"))


def best_in_a_loop(x: Any) -> Any:
    def step(_: Any, c: Any) -> Any:
        values, places = tnp.top_k(tnp.sin(x + c[:, None]), 3)
        return values.sum(1) + places[:, 0].astype("float32")

    return tracer.fori_loop(0, 3, step, x[:, 0])


@pytest.mark.xla
@pytest.mark.parametrize("shape", [(3, 6000), (1000, 30)])
def test_bodies_are_written_too_and_the_name_switches_it_off(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    staged, plain = (
        tracer.compile(best_in_a_loop, split="never", passes=passes)
        for passes in (None, "-stage-selections")
    )
    names = [{row.name for row in function.plan(x).passes} for function in (staged, plain)]
    assert names[0] - names[1] == {"stage selections"}
    manager = PassManager()
    before = plain.graph(x)
    after = manager.run(before, (PASS,))
    assert "reduce_maximum" in ops_of(after)
    assert "reduce_maximum" not in ops_of(before)
    (row,) = manager.rows
    # The cost of a selection has the bytes of the stages already.
    assert row.peak_bytes_before == row.peak_bytes_after
    np.testing.assert_allclose(np.asarray(staged(x)), np.asarray(plain(x)), rtol=1e-5)


@pytest.mark.xla
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize(("shape", "k"), SHAPES)
def test_long_rows_give_what_one_stage_gives(shape: tuple[int, ...], k: int, dtype: Any) -> None:
    program = graph(shape, dtype, k)
    for kind in ("any", "few values", "not finite", "zeros and the lowest"):
        x = numbers(shape, dtype, kind)
        wanted = ops.top_k.evaluate(x, k=k)
        values, indices = compiled(program, x)
        np.testing.assert_array_equal(indices, wanted[1], err_msg=kind)
        np.testing.assert_array_equal(values.astype("f8"), wanted[0].astype("f8"))


@pytest.mark.xla
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize(
    ("shape", "k"), [((300, 37), 10), ((40, 200), 100), ((500, 20), 20), ((3, 70, 65), 2)]
)
def test_many_short_rows_give_what_the_kernel_gives(
    shape: tuple[int, ...], k: int, dtype: Any
) -> None:
    """One after the other, but for elements that do not fit an integer beside their places."""
    program = graph(shape, dtype, k)
    made = lowering.compile_graph(legal(program))
    is_narrow = np.dtype(dtype).itemsize <= 4
    assert ("TopK" in made.hlo() or " sort(" in made.hlo()) != is_narrow
    assert (scratch_of(program) > 0) == is_narrow
    for kind in ("any", "few values", "not finite", "zeros and the lowest"):
        x = numbers(shape, dtype, kind)
        wanted = ops.top_k.evaluate(x, k=k)
        values, indices = (lowering.to_host(b) for b in made(lowering.to_device(x)))
        np.testing.assert_array_equal(indices, wanted[1], err_msg=kind)
        np.testing.assert_array_equal(values.astype("f8"), wanted[0].astype("f8"))
    if is_narrow:
        assert 0.6 * scratch_of(program) <= made.memory.temporary_bytes <= scratch_of(program)


@pytest.mark.xla
def test_few_short_rows_and_large_k_are_left_to_the_kernel() -> None:
    """Each round is a kernel, and reads the row again."""
    for shape, k in (((1, 100), 10), ((1000, 5000), 100), ((1000, 300), 200)):
        assert "TopK" in lowering.compile_graph(legal(graph(shape, "float32", k))).hlo()


def test_what_one_core_does_alone_is_priced() -> None:
    """XLA's kernel does; rounds are reductions, which all cores share."""

    def steps(n: int, k: int) -> int:
        return run_cost(graph((1000, n), "float32", k).outputs[0].node).steps

    assert steps(100, 10) < 100_000
    assert steps(2000, 100) > 20 * steps(100, 10)
    assert steps(4000, 100) < 2 * steps(2000, 100)


@pytest.mark.xla
def test_all_of_the_best_in_one_block_and_in_the_rest() -> None:
    x = np.zeros((2, 4099), np.float32)
    x[0, 33:43] = np.arange(10)
    x[1, -3:] = (1, 2, 1)
    _, indices = compiled(graph(x.shape, "float32", 10), x)
    assert indices[0].tolist() == [*range(42, 33, -1), 0]
    assert indices[1].tolist() == [4097, 4096, 4098, *range(7)]


@pytest.mark.xla
@pytest.mark.parametrize("squared", [False, True])
def test_no_row_is_stored_again(squared: bool) -> None:
    """One stage copies the array, or stores the squares; two keep the maxima and candidates."""
    program = graph((100, 100_000), "float32", 10, squared=squared)
    scratch = scratch_of(program)
    memory = lowering.compile_graph(legal(program)).memory
    assert memory.temporary_bytes + memory.scratch_bytes <= scratch < 2_000_000


@pytest.mark.xla
@pytest.mark.parametrize(("n", "k"), [(100, 10), (1000, 200), (5000, 0), (5000, 5000)])
def test_short_rows_and_large_k_go_in_one_stage(n: int, k: int) -> None:
    program = graph((2, n), "float32", k)
    assert scratch_of(program) == 0
    x = numbers((2, n), "float32", "any")
    np.testing.assert_array_equal(compiled(program, x)[1], ops.top_k.evaluate(x, k=k)[1])
