"""top_k of long rows goes in two stages: the same elements, whatever the ties, NaN and sizes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tracer import lowering, ops
from tracer.ir import Builder, Graph, ShapeDtype
from tracer.optimizer.model.costs import counted_scratch, run_cost

pytestmark = pytest.mark.xla
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
    return [lowering.to_host(b) for b in lowering.compile_graph(graph)(lowering.to_device(x))]


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


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize(
    ("shape", "k"), [((300, 37), 10), ((40, 200), 100), ((500, 20), 20), ((3, 70, 65), 2)]
)
def test_many_short_rows_give_what_the_kernel_gives(
    shape: tuple[int, ...], k: int, dtype: Any
) -> None:
    """One after the other, but for elements that do not fit an integer beside their places."""
    program = graph(shape, dtype, k)
    made = lowering.compile_graph(program)
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


def test_few_short_rows_and_large_k_are_left_to_the_kernel() -> None:
    """Each round is a kernel, and reads the row again."""
    for shape, k in (((1, 100), 10), ((1000, 5000), 100), ((1000, 300), 200)):
        assert "TopK" in lowering.compile_graph(graph(shape, "float32", k)).hlo()


def test_what_one_core_does_alone_is_priced() -> None:
    """XLA's kernel does; rounds are reductions, which all cores share."""

    def steps(n: int, k: int) -> int:
        return run_cost(graph((1000, n), "float32", k).outputs[0].node).steps

    assert steps(100, 10) < 100_000
    assert steps(2000, 100) > 20 * steps(100, 10)
    assert steps(4000, 100) < 2 * steps(2000, 100)


def test_all_of_the_best_in_one_block_and_in_the_rest() -> None:
    x = np.zeros((2, 4099), np.float32)
    x[0, 33:43] = np.arange(10)
    x[1, -3:] = (1, 2, 1)
    _, indices = compiled(graph(x.shape, "float32", 10), x)
    assert indices[0].tolist() == [*range(42, 33, -1), 0]
    assert indices[1].tolist() == [4097, 4096, 4098, *range(7)]


@pytest.mark.parametrize("squared", [False, True])
def test_no_row_is_stored_again(squared: bool) -> None:
    """One stage copies the array, or stores the squares; two keep the maxima and candidates."""
    program = graph((100, 100_000), "float32", 10, squared=squared)
    scratch = scratch_of(program)
    memory = lowering.compile_graph(program).memory
    assert memory.temporary_bytes + memory.scratch_bytes <= scratch < 2_000_000


@pytest.mark.parametrize(("n", "k"), [(100, 10), (1000, 200), (5000, 0), (5000, 5000)])
def test_short_rows_and_large_k_go_in_one_stage(n: int, k: int) -> None:
    program = graph((2, n), "float32", k)
    assert scratch_of(program) == 0
    x = numbers((2, n), "float32", "any")
    np.testing.assert_array_equal(compiled(program, x)[1], ops.top_k.evaluate(x, k=k)[1])
