"""Long reductions in stages: what is written, that it computes the same, and where it is not."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import apply, evaluated, ops_of, text
from tracer import ops
from tracer.ir import Builder, Graph, Op, ShapeDtype, parse_graph
from tracer.optimizer.legalize.reductions import staged_reductions_pass
from tracer.optimizer.model.liveness import peak_bytes
from tracer.optimizer.passes import PassManager
from tracer.optimizer.pipeline import Context, PlannerOptions, Stage, entries_in
from tracer.target import ACCELERATORS, DEFAULT_TARGET

PASS = staged_reductions_pass(DEFAULT_TARGET)
REDUCTIONS = [ops.reduce_add, ops.reduce_multiply, ops.reduce_maximum, ops.reduce_minimum]
AWKWARD = [0, 1, 2, 3, 9, 12, 31, 64, 65, 96, 127, 128, 131, 2048, 2053, 4099]
"""Empty, single, prime, with good divisors and without, just below and above the thresholds."""


def reduction(op: Op, shape: tuple[int, ...], dtype: Any, axes: tuple[int, ...]) -> Graph:
    with Builder() as builder:
        return builder.finish([op(builder.input(ShapeDtype(shape, dtype)), axes=axes)])


def staged(op: Op, shape: tuple[int, ...], dtype: Any, axes: tuple[int, ...]) -> str:
    return text(apply(PASS, reduction(op, shape, dtype, axes))[0])


def test_a_sum_over_rows_begins_with_another_zero_in_every_stage() -> None:
    assert staged(ops.reduce_add, (4096, 48), "float32", (0,)) == (
        """
graph(%0: float32[4096,48]) {
  %1: float32[128,32,48] = reshape(%0) {shape=(128, 32, 48)}
  %2: float32[128,48] = reduce_add(%1) {axes=(1,)}
  %3: float32[128,48] = optimization_barrier(%2)
  %4: float32[4,32,48] = reshape(%3) {shape=(4, 32, 48)}
  %5: float32[4,48] = reduce_partial_sums(%4) {axes=(1,)}
  %6: float32[4,48] = optimization_barrier(%5)
  %7: float32[48] = reduce_add(%6) {axes=(0,)}
  return %7
}""".strip()
    )


def test_leading_axes_without_a_divisor_are_padded_with_what_changes_nothing() -> None:
    assert staged(ops.reduce_maximum, (131, 5), "float32", (0,)) == (
        """
graph(%0: float32[131,5]) {
  %1: float32[] = constant() {value=float32[] -inf}
  %2: float32[160,5] = pad(%0, %1) {low=(0, 0), high=(29, 0), interior=(0, 0)}
  %3: float32[8,20,5] = reshape(%2) {shape=(8, 20, 5)}
  %4: float32[8,5] = reduce_maximum(%3) {axes=(1,)}
  %5: float32[8,5] = optimization_barrier(%4)
  %6: float32[5] = reduce_maximum(%5) {axes=(0,)}
  return %6
}""".strip()
    )


def test_a_long_row_without_a_divisor_is_reduced_in_two_parts() -> None:
    assert staged(ops.reduce_multiply, (3, 2053), "float64", (1,)) == (
        """
graph(%0: float64[3,2053]) {
  %1: float64[3,2048] = slice(%0) {start=(0, 0), limit=(3, 2048), strides=(1, 1)}
  %2: float64[3,8,256] = reshape(%1) {shape=(3, 8, 256)}
  %3: float64[3,8] = reduce_multiply(%2) {axes=(2,)}
  %4: float64[3,8] = optimization_barrier(%3)
  %5: float64[3] = reduce_multiply(%4) {axes=(1,)}
  %6: float64[3,1] = reshape(%5) {shape=(3, 1)}
  %7: float64[3,5] = slice(%0) {start=(0, 2048), limit=(3, 2053), strides=(1, 1)}
  %8: float64[3] = reduce_multiply(%7) {axes=(1,)}
  %9: float64[3,1] = reshape(%8) {shape=(3, 1)}
  %10: float64[3,2] = concatenate(%6, %9) {dimension=1}
  %11: float64[3] = reduce_multiply(%10) {axes=(1,)}
  return %11
}""".strip()
    )


def test_narrow_floats_are_added_in_float32() -> None:
    assert staged(ops.reduce_add, (96, 5), "bfloat16", (0,)) == (
        """
graph(%0: bfloat16[96,5]) {
  %1: float32[96,5] = convert(%0) {dtype=float32}
  %2: float32[4,24,5] = reshape(%1) {shape=(4, 24, 5)}
  %3: float32[4,5] = reduce_add(%2) {axes=(1,)}
  %4: float32[4,5] = optimization_barrier(%3)
  %5: float32[5] = reduce_partial_sums(%4) {axes=(0,)}
  %6: bfloat16[5] = convert(%5) {dtype=bfloat16}
  return %6
}""".strip()
    )


COSTLY = """
graph(%0: float32[3001,7]) {{
  %1: float32[3001,7] = exponential(%0) {{}}
  %2: float32[] = {}(%1) {{axes=(0, 1)}}
  return %2
}}"""


def test_what_no_block_cuts_is_added_in_twice_the_bits() -> None:
    """Exponentials are not padded, nor cut in two: they would be computed under a condition."""
    after, _ = apply(PASS, parse_graph(COSTLY.format("reduce_add")))
    assert text(after) == (
        """
graph(%0: float32[3001,7]) {
  %1: float32[21007] = reshape(%0) {shape=(21007,)}
  %2: float32[21007] = optimization_barrier(%1)
  %3: float32[21007] = exponential(%2)
  %4: float64[21007] = convert(%3) {dtype=float64}
  %5: float64[] = reduce_add(%4) {axes=(0,)}
  %6: float32[] = convert(%5) {dtype=float32}
  return %6
}""".strip()
    )
    largest = parse_graph(COSTLY.format("reduce_maximum"))
    assert apply(PASS, largest)[0] is largest


def test_a_short_row_is_lengthened_and_reduced_in_lanes() -> None:
    assert staged(ops.reduce_maximum, (3000, 31), "float32", (1,)) == (
        """
graph(%0: float32[3000,31]) {
  %1: float32[] = constant() {value=float32[] -inf}
  %2: float32[3000,32] = pad(%0, %1) {low=(0, 0), high=(0, 1), interior=(0, 0)}
  %3: float32[3000,4,8] = reshape(%2) {shape=(3000, 4, 8)}
  %4: float32[3000,8] = reduce_maximum(%3) {axes=(1,)}
  %5: float32[3000,8] = optimization_barrier(%4)
  %6: float32[3000] = reduce_maximum(%5) {axes=(1,)}
  return %6
}""".strip()
    )


def test_a_short_row_is_added_as_slices_in_one_kernel() -> None:
    assert staged(ops.reduce_add, (3000, 20), "float64", (1,)) == (
        """
graph(%0: float64[3000,20]) {
  %1: float64[3000,5] = slice(%0) {start=(0, 0), limit=(3000, 5), strides=(1, 1)}
  %2: float64[3000,5] = slice(%0) {start=(0, 5), limit=(3000, 10), strides=(1, 1)}
  %3: float64[3000,5] = slice(%0) {start=(0, 10), limit=(3000, 15), strides=(1, 1)}
  %4: float64[3000,5] = slice(%0) {start=(0, 15), limit=(3000, 20), strides=(1, 1)}
  %5: float64[3000,5] = add(%1, %2)
  %6: float64[3000,5] = add(%3, %4)
  %7: float64[3000,5] = add(%5, %6)
  %8: float64[3000] = reduce_add(%7) {axes=(1,)}
  return %8
}""".strip()
    )


def test_what_the_last_slice_shares_is_added_once() -> None:
    written = staged(ops.reduce_add, (3000, 31), "float64", (1,))
    assert "slice(%0) {start=(0, 27), limit=(3000, 31)" in written
    assert "compare" in written
    assert "optimization_barrier" not in written
    largest = staged(ops.reduce_maximum, (3000, 31), "float64", (1,))
    assert "slice(%0) {start=(0, 27), limit=(3000, 31)" in largest
    assert "compare" not in largest


SPECIAL = [-0.0, 0.0, np.nan, -np.nan, np.inf, -np.inf, 5e-324, -1e-45, 1.5, -1.5]


@pytest.mark.xla
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_of_short_rows_keep_nan_and_signs_of_zero(name: str, dtype: str) -> None:
    """They are those of integers: NaNs of either sign come first, and zeros are told apart."""
    op = {"max": ops.reduce_maximum, "min": ops.reduce_minimum}[name]
    rng = np.random.default_rng(0)
    for length in (16, 23, 64):
        x = rng.choice(np.array(SPECIAL, dtype), (300_000, length))
        x[::3] = np.where(np.isnan(x[::3]), 1, x[::3])
        x[:300] = np.repeat(np.array(SPECIAL, dtype), 30)[:, None]
        before = reduction(op, x.shape, dtype, (1,))
        after = apply(PASS, before)[0]
        assert "bitcast_convert" in text(after)
        (got,) = evaluated(after, x)
        expected = getattr(np, name)(x, axis=1)
        np.testing.assert_array_equal(got, expected)
        is_zero = expected == 0
        best = np.signbit if name == "min" else lambda x: ~np.signbit(x)
        among = (x == 0) & best(x)
        np.testing.assert_array_equal(best(got[is_zero]), among.any(1)[is_zero])
        compiled = np.asarray(tracer.compile(lambda x: getattr(x, name)(1))(x))
        assert compiled.tobytes() == got.tobytes()


SHORT = [10, 11, 12, 13, 16, 17, 29, 31, 33, 47, 63, 64, 65, 89, 96]


@pytest.mark.parametrize("op", [*REDUCTIONS, ops.reduce_and, ops.reduce_or])
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "bool"])
def test_every_length_of_short_rows(op: Op, dtype: str) -> None:
    if dtype == "bool" and op in (ops.reduce_add, ops.reduce_multiply):
        return
    for length in SHORT:
        before = reduction(op, (4000, length), dtype, (1,))
        after, log = apply(PASS, before)
        x = np.random.default_rng(length).integers(0, 2 if dtype == "bool" else 99, (4000, length))
        (got,), (wanted,) = (evaluated(graph, x.astype(dtype)) for graph in (after, before))
        np.testing.assert_array_equal(got, wanted)
        assert log.applied or not 16 <= length <= 65


WITHOUT_STORING = {
    "stored": lambda x: x.sum(1),
    "a variance": lambda x: x.var(1),
    "a softmax": lambda x: tracer.nn.softmax(x, axis=1),
    "padded": lambda x: tnp.pad(x, ((0, 0), (1, 2))).sum(1),
    "joined": lambda x: tnp.concatenate([x, x * 2], 1)[:, : x.shape[1]].sum(1),
    "largest": lambda x: x.max(1),
    "range": lambda x: x.max(1) - x.min(1),
    "two": lambda x: (x.sum(1), (x * x).sum(1)),
}


@pytest.mark.xla
@pytest.mark.parametrize("name", WITHOUT_STORING)
@pytest.mark.parametrize("length", [13, 31, 64])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_compiler_stores_no_more_than_is_counted(name: str, length: int, dtype: str) -> None:
    """What it reads in slices it would store, if it moves elements or a second kernel reads it."""
    x = ShapeDtype((300_000, length), dtype)
    plan = tracer.compile(WITHOUT_STORING[name], split="never").plan(x)
    assert plan.compiled_bytes <= 1.01 * plan.peak_bytes


@pytest.mark.parametrize("shape", [(3000, 9), (100, 64), (3000, 97)])
def test_rows_that_are_vectors_already_and_few_are_one_stage(shape: tuple[int, int]) -> None:
    graph = reduction(ops.reduce_maximum, shape, "float32", (1,))
    assert apply(PASS, graph)[0] is graph


def test_what_takes_much_to_compute_is_a_vector_already() -> None:
    graph = parse_graph(
        """
graph(%0: float32[3000,64]) {
  %1: float32[3000,64] = exponential(%0) {}
  %2: float32[3000] = reduce_add(%1) {axes=(1,)}
  return %2
}"""
    )
    assert apply(PASS, graph)[0] is graph


@st.composite
def cases(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Draw a shape of up to a million elements, and axes of it; none and all are among them."""
    shape: tuple[int, ...] = ()
    for size in draw(st.lists(st.sampled_from(AWKWARD), min_size=1, max_size=4)):
        shape += (size if math.prod(shape) * size <= 1 << 20 else 3,)
    axes = draw(st.sets(st.sampled_from(range(len(shape)))))
    return shape, tuple(sorted(axes))


@given(case=cases(), op=st.sampled_from([*REDUCTIONS, ops.reduce_and, ops.reduce_or]))
@settings(max_examples=100)
def test_integers_are_the_same(case: tuple[tuple[int, ...], tuple[int, ...]], op: Op) -> None:
    shape, axes = case
    before = reduction(op, shape, "int32", axes)
    after, log = apply(PASS, before)
    assert (after is before) == (not log.applied)
    x = np.random.default_rng(0).integers(-99, 99, shape).astype(np.int32)
    np.testing.assert_array_equal(evaluated(after, x)[0], evaluated(before, x)[0])


WIDE = {"f4": "f8", "f8": "f8", "c8": "c16"}


@given(case=cases(), op=st.sampled_from(REDUCTIONS), dtype=st.sampled_from(list(WIDE)))
@settings(max_examples=60)
def test_floats_are_the_same_up_to_the_order(
    case: tuple[tuple[int, ...], tuple[int, ...]], op: Op, dtype: str
) -> None:
    shape, axes = case
    if dtype == "c8" and op not in (ops.reduce_add, ops.reduce_multiply):
        return
    before, exact = (reduction(op, shape, d, axes) for d in (dtype, WIDE[dtype]))
    x = (1 + np.random.default_rng(0).random(shape) / 1000).astype(dtype)
    (got,), (wanted,) = (
        evaluated(apply(PASS, before)[0], x),
        evaluated(exact, x.astype(WIDE[dtype])),
    )
    np.testing.assert_allclose(got, wanted, rtol=1e-3 if op is ops.reduce_multiply else 2e-5)


@pytest.mark.parametrize("op", [ops.reduce_add, ops.reduce_maximum])
@pytest.mark.parametrize("number", [-0.0, np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("shape", [(600, 700), (131, 70), (3, 4099)])
def test_what_is_not_finite_and_signs_of_zero_stay(
    op: Op, number: float, shape: tuple[int, int]
) -> None:
    x = np.full(shape, number, np.float32)
    for axes in ((0,), (1,), (0, 1)):
        before = reduction(op, shape, "float32", axes)
        got, wanted = evaluated(apply(PASS, before)[0], x)[0], evaluated(before, x)[0]
        assert got.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_floats_come_back_as_they_were(dtype: Any) -> None:
    before = reduction(ops.reduce_add, (4099, 2), dtype, (0,))
    (total,) = evaluated(apply(PASS, before)[0], np.ones((4099, 2), dtype))
    assert total.dtype == dtype
    np.testing.assert_array_equal(total.astype("f8"), np.float64(dtype(4099)))


def long_sums(x: Any) -> Any:
    return tracer.fori_loop(0, 3, lambda _, c: tnp.exp(x - c).sum(0), tnp.zeros(7)), x.max(0)


@pytest.mark.xla
def test_bodies_are_staged_too() -> None:
    graph = tracer.compile(long_sums, passes="-stage-reductions").graph(np.ones((4096, 7)))
    manager = PassManager()
    after = manager.run(graph, (PASS,))
    assert ops_of(graph).count("reduce_partial_sums") == 0
    assert ops_of(after).count("reduce_partial_sums") == 1
    assert "reduce_partial_sums" not in {node.name for node in after.nodes}
    (row,) = manager.rows
    # The cost of a long reduction has the partial results already.
    assert row.peak_bytes_before == row.peak_bytes_after == peak_bytes(graph)


@pytest.mark.xla
def test_the_plan_names_the_pass_and_its_name_switches_it_off() -> None:
    x = np.full((4096, 7), 0.1)
    staged, plain = tracer.compile(long_sums), tracer.compile(long_sums, passes="-stage-reductions")
    rows = [{row.name for row in function.plan(x).passes} for function in (staged, plain)]
    assert rows[0] - rows[1] == {"stage reductions"}
    assert "  stage reductions  " in str(staged.plan(x))
    assert "reduce_partial_sums" in str(staged.graph(x))
    assert (
        plain.stablehlo(x).count("stablehlo.reduce")
        == 2
        < staged.stablehlo(x).count("stablehlo.reduce")
    )
    assert staged.plan(x).peak_bytes == plain.plan(x).peak_bytes
    for got, wanted in zip(staged(x), plain(x), strict=True):
        np.testing.assert_allclose(np.asarray(got), np.asarray(wanted), rtol=1e-12)


@pytest.mark.xla
def test_each_operation_by_itself_is_staged() -> None:
    """One chain of ten million float32 would be off by a percent."""
    x = np.full(10_000_019, 0.1, np.float32)
    assert abs(float(tnp.sum(tnp.asarray(x))) / x.sum(dtype="f8") - 1) < 1e-5


@pytest.mark.parametrize("platform", ACCELERATORS)
def test_devices_that_cut_reductions_themselves_have_no_such_rows(platform: str) -> None:
    for machine in ACCELERATORS[platform].values():
        rows = entries_in(Stage.TARGET, Context(PlannerOptions(machine=machine)))
        # Values, and sorts by a comparison that is plain, are every device's.
        assert [row.option for row in rows] == [
            "round-products",
            "keep-operation-order",
            "store-updates",
            "sort-as-integers",
        ]


def test_blocks_are_the_target_s() -> None:
    rules = DEFAULT_TARGET.reductions
    assert rules is not None
    small = replace(rules, leading=replace(rules.leading, smallest=2, best=4, worthwhile=8))
    item = staged_reductions_pass(replace(DEFAULT_TARGET, reductions=small))
    graph = reduction(ops.reduce_add, (16, 3), "float32", (0,))
    assert apply(PASS, graph)[0] is graph
    assert "float32[4,4,3]" in text(apply(item, graph)[0])


@pytest.mark.xla
def test_rows_are_cut_not_their_columns_where_lanes_are_stored() -> None:
    """Slices of a few columns read every line of the caches in each trip."""
    plan = tracer.compile(lambda x: x.any(1)).plan(ShapeDtype((16_000_000, 16), np.bool_))
    assert "axis of 16000000 of bool[" in str(plan)
