"""Places of extremes as reductions of integers: what is written, and that it finds the same."""

from __future__ import annotations

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
from tracer.ir import Builder, Graph, ShapeDtype
from tracer.optimizer.legalize.extremes import packed_extremes_pass
from tracer.optimizer.legalize.reductions import staged_reductions_pass
from tracer.optimizer.passes import PassManager
from tracer.target import DEFAULT_TARGET

PASS = packed_extremes_pass(DEFAULT_TARGET)
NARROW = ["float32", "float16", ml_dtypes.bfloat16, "bool", "int8", "uint16", "int32", "uint32"]


def places(op: Any, shape: tuple[int, ...], dtype: Any, axis: int, places: str = "int32") -> Graph:
    with Builder() as builder:
        x = builder.input(ShapeDtype(shape, dtype))
        return builder.finish([op(x, axis=axis, index_dtype=np.dtype(places))])


def best_of(shape: tuple[int, ...], dtype: Any, k: int) -> Graph:
    with Builder() as builder:
        return builder.finish(list(ops.top_k(builder.input(ShapeDtype(shape, dtype)), k=k)))


def test_integers_hold_value_and_place_and_go_in_stages() -> None:
    after, log = apply(PASS, places(ops.argmax, (2, 4096), "int32", 1))
    assert log.applied == ["argmax of int32[2,4096]"]
    assert text(after) == (
        """
graph(%0: int32[2,4096]) {
  %1: int64[2,4096] = iota() {shape=(2, 4096), dtype=int64, dimension=1}
  %2: int64[2,4096] = convert(%0) {dtype=int64}
  %3: int64[] = constant() {value=int64[] 32}
  %4: int64[2,4096] = broadcast_in_dim(%3) {shape=(2, 4096), dimensions=()}
  %5: int64[2,4096] = shift_left(%2, %4)
  %6: int64[] = constant() {value=int64[] 2147483647}
  %7: int64[2,4096] = broadcast_in_dim(%6) {shape=(2, 4096), dimensions=()}
  %8: int64[2,4096] = subtract(%7, %1)
  %9: int64[2,4096] = or(%5, %8)
  %10: int64[2,16,256] = reshape(%9) {shape=(2, 16, 256)}
  %11: int64[2,16] = reduce_maximum(%10) {axes=(2,)}
  %12: int64[2,16] = optimization_barrier(%11)
  %13: int64[2] = reduce_maximum(%12) {axes=(1,)}
  %14: int64[] = constant() {value=int64[] 2147483647}
  %15: int64[2] = broadcast_in_dim(%14) {shape=(2,), dimensions=()}
  %16: int64[2] = and(%13, %15)
  %17: int32[2] = convert(%16) {dtype=int32}
  %18: int32[] = constant() {value=int32[] 2147483647}
  %19: int32[2] = broadcast_in_dim(%18) {shape=(2,), dimensions=()}
  %20: int32[2] = subtract(%19, %17)
  return %20
}""".strip()
    )


def test_wider_elements_are_pairs_with_their_places_in_stages() -> None:
    after, log = apply(PASS, places(ops.argmin, (131, 5), "float64", 0))
    assert log.applied == ["argmin of float64[131,5]"]
    assert text(after) == (
        """
graph(%0: float64[131,5]) {
  %1: float64[] = constant() {value=float64[] inf}
  %2: float64[160,5] = pad(%0, %1) {low=(0, 0), high=(29, 0), interior=(0, 0)}
  %3: int32[160,5] = iota() {shape=(160, 5), dtype=int32, dimension=0}
  %4: float64[8,20,5] = reshape(%2) {shape=(8, 20, 5)}
  %5: int32[8,20,5] = reshape(%3) {shape=(8, 20, 5)}
  %6: float64[8,5], %7: int32[8,5] = reduce_extreme(%4, %5) {axes=(1,), largest=False}
  %8: float64[8,5], %9: int32[8,5] = optimization_barrier(%6, %7)
  %10: float64[5], %11: int32[5] = reduce_extreme(%8, %9) {axes=(0,), largest=False}
  return %11
}""".strip()
    )


@pytest.mark.parametrize(
    "graph",
    [
        places(ops.argmax, (3, 5), "float64", 1),
        places(ops.argmin, (3, 5), "uint64", 0),
        best_of((3, 5), "int64", 1),
        best_of((3, 5), "float32", 2),
    ],
    ids=str,
)
def test_short_rows_of_what_does_not_fit_one_integer_stay(graph: Graph) -> None:
    assert apply(PASS, graph)[0] is graph


@st.composite
def arrays(draw: st.DrawFn) -> Any:
    """Draw an array of few different elements, with NaN, infinities and zeros of both signs."""
    shape = draw(st.lists(st.sampled_from([1, 2, 3, 31, 65, 131]), min_size=1, max_size=3))
    shape = shape if np.prod(shape) < 1 << 16 else shape[:2]
    dtype = np.dtype(draw(st.sampled_from(NARROW)))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    special = [-0.0, 0.0, 1.0]
    if dtype.kind in "fV":
        special += draw(st.sampled_from([[np.nan, -np.nan, np.inf], [-np.inf, 1e-3, -1.0]]))
    elif dtype.kind in "iu":
        limits = np.iinfo(dtype)
        special += [limits.min, limits.max]
    return np.array(special).astype(dtype)[rng.integers(0, len(special), shape)]


@given(x=arrays(), axis=st.integers(0, 2), dtype=st.sampled_from(["int32", "int64", "uint8"]))
@settings(max_examples=150, deadline=None)
def test_the_first_of_the_best_is_found(x: Any, axis: int, dtype: str) -> None:
    axis %= x.ndim
    for op in (ops.argmax, ops.argmin):
        before = places(op, x.shape, x.dtype, axis, dtype)
        after, log = apply(PASS, before)
        assert log.applied
        np.testing.assert_array_equal(evaluated(after, x)[0], evaluated(before, x)[0])
    if x.dtype == np.bool_:  # `top_k` takes none
        return
    before = best_of(x.shape, x.dtype, 1)
    for got, wanted in zip(evaluated(apply(PASS, before)[0], x), evaluated(before, x), strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got.astype("f8"), wanted.astype("f8"))


def test_its_reductions_are_not_cut_again() -> None:
    """It comes behind the pass that stages reductions, which would leave it as it is, too."""
    graph, _ = apply(PASS, places(ops.argmin, (4096, 3), "float32", 0))
    assert apply(staged_reductions_pass(DEFAULT_TARGET), graph)[0] is graph


def places_in_a_loop(x: Any) -> Any:
    def step(_: Any, c: Any) -> Any:
        return tnp.argmax(x * tnp.cos(c)[:, None], axis=1).astype("float32") + c

    return tracer.fori_loop(0, 3, step, x[:, 0])


WIDE = ["float64", "int64", "uint64"]


@given(
    shape=st.sampled_from([(131, 3), (3, 2053), (4096,), (2, 65, 3), (3, 5003)]),
    axis=st.integers(0, 2),
    dtype=st.sampled_from(WIDE),
    seed=st.integers(0, 99),
    masked=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_the_first_of_the_best_of_wider_elements_is_found(
    shape: tuple[int, ...], axis: int, dtype: str, seed: int, masked: bool
) -> None:
    axis %= len(shape)
    rng = np.random.default_rng(seed)
    special: list[Any] = [0, 1]
    if dtype == "float64":
        special += [-0.0, *([-np.inf] if masked else [np.nan, np.inf, -1.0])]
    else:
        special += [np.iinfo(dtype).min, np.iinfo(dtype).max]
    x = np.array(special, dtype)[rng.integers(0, len(special), shape)]
    for op in (ops.argmax, ops.argmin):
        before = places(op, shape, dtype, axis)
        after, _ = apply(PASS, before)
        np.testing.assert_array_equal(evaluated(after, x)[0], evaluated(before, x)[0])


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("op", [ops.argmax, ops.argmin])
def test_of_nothing_but_the_identity_the_first_is_found(op: Any, dtype: str) -> None:
    """What stages are padded with has places behind all others."""
    limits = np.finfo(dtype) if dtype == "float64" else np.iinfo(dtype)
    worst = limits.min if op is ops.argmax else limits.max
    x = np.full((131, 5), np.copysign(np.inf, worst) if dtype == "float64" else worst, dtype)
    x[:5, 1] = 7
    before = places(op, x.shape, dtype, 0)
    after, log = apply(PASS, before)
    assert log.applied
    np.testing.assert_array_equal(evaluated(after, x)[0], evaluated(before, x)[0])


@pytest.mark.xla
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bodies_are_written_too_and_the_name_switches_it_off(dtype: Any) -> None:
    x = np.random.default_rng(0).random((50, 4096)).astype(dtype)
    packed = tracer.compile(places_in_a_loop, split="never")
    plain = tracer.compile(places_in_a_loop, split="never", passes="-pack-extremes")
    names = [{row.name for row in function.plan(x).passes} for function in (packed, plain)]
    assert names[0] - names[1] == {"pack extremes"}
    graph = plain.graph(x)
    after = PassManager().run(graph, (PASS,))
    assert "argmax" in str(graph)
    assert "argmax" not in str(after)
    assert "argmax" not in ops_of(after)
    assert packed.plan(x).peak_bytes == plain.plan(x).peak_bytes
    np.testing.assert_array_equal(np.asarray(packed(x)), np.asarray(plain(x)))
