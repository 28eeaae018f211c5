"""Many floats are sorted as integers of the same order: what is written, and what stays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import apply, evaluated, text
from tracer import ops
from tracer.ir import Builder, Graph, ShapeDtype, as_dtype
from tracer.lowering import compile_graph, to_device, to_host
from tracer.optimizer.legalize.sorts import integer_sorts_pass
from tracer.optimizer.model.costs import counted_scratch, packing_bytes
from tracer.optimizer.passes import PassManager
from tracer.target import DEFAULT_TARGET, Kernels, planned_for

ON_MESH = replace(DEFAULT_TARGET, kernels=Kernels().without_numpy())
"""Where XLA sorts all."""
PASS = integer_sorts_pass(ON_MESH, by_numpy=False)
LEAST = ON_MESH.kernels.integer_sorts
SPECIAL = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0]
FLOATS = ["float16", "bfloat16", "float32", "float64"]


def sort(shape: tuple[int, ...], dtype: Any, count: int = 1, keys: int = 1) -> Graph:
    with Builder() as builder:
        operands = [builder.input(ShapeDtype(shape, dtype)) for _ in range(count)]
        last = len(shape) - 1
        return builder.finish(ops.sort(*operands, dimension=last, num_keys=keys, is_stable=True))


def numbers(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    x = np.random.default_rng(0).standard_normal(shape)
    x[:, : len(SPECIAL)] = SPECIAL
    return np.random.default_rng(1).permuted(x, axis=1).astype(as_dtype(dtype))


def test_bits_of_negative_numbers_are_flipped_and_nan_is_the_largest() -> None:
    after, log = apply(PASS, sort((2, 4096), "float32"))
    assert log.applied == ["sort of float32[2,4096]"]
    assert text(after) == (
        """
graph(%0: float32[2,4096]) {
  %1: int32[2,4096] = bitcast_convert(%0) {dtype=int32}
  %2: bool[2,4096] = compare(%0, %0) {direction='NE'}
  %3: int32[] = constant() {value=int32[] 2147483647}
  %4: int32[2,4096] = broadcast_in_dim(%3) {shape=(2, 4096), dimensions=()}
  %5: int32[] = constant() {value=int32[] 0}
  %6: int32[2,4096] = broadcast_in_dim(%5) {shape=(2, 4096), dimensions=()}
  %7: bool[2,4096] = compare(%1, %6) {direction='LT'}
  %8: int32[] = constant() {value=int32[] 2147483647}
  %9: int32[2,4096] = broadcast_in_dim(%8) {shape=(2, 4096), dimensions=()}
  %10: int32[2,4096] = xor(%1, %9)
  %11: int32[2,4096] = select(%7, %10, %1)
  %12: int32[2,4096] = select(%2, %4, %11)
  %13: int32[2,4096] = sort(%12) {dimension=1, num_keys=1, is_stable=False}
  %14: int32[] = constant() {value=int32[] 0}
  %15: int32[2,4096] = broadcast_in_dim(%14) {shape=(2, 4096), dimensions=()}
  %16: bool[2,4096] = compare(%13, %15) {direction='LT'}
  %17: int32[] = constant() {value=int32[] 2147483647}
  %18: int32[2,4096] = broadcast_in_dim(%17) {shape=(2, 4096), dimensions=()}
  %19: int32[2,4096] = xor(%13, %18)
  %20: int32[2,4096] = select(%16, %19, %13)
  %21: float32[2,4096] = bitcast_convert(%20) {dtype=float32}
  return %21
}""".strip()
    )


@pytest.mark.parametrize(
    "graph",
    [
        sort((3, 5), "float32"),
        sort((4095,), "float64"),
        sort((4, 1250), "int32"),
        sort((5000,), "complex64"),
        sort((4095,), "float32", 2),
        sort((5000,), "int64", 2),
        sort((5000,), "float32", 2, 2),
    ],
    ids=str,
)
def test_few_other_dtypes_and_several_keys_stay(graph: Graph) -> None:
    assert apply(PASS, graph)[0] is graph


@pytest.mark.parametrize("dtype", FLOATS)
def test_values_are_numpy_s(dtype: str) -> None:
    x = numbers((2, 4096), dtype)
    before = sort(x.shape, x.dtype)
    after, log = apply(PASS, before)
    assert log.applied
    (found,), (wanted,) = evaluated(after, x), evaluated(before, x)
    np.testing.assert_array_equal(found.astype("f8"), wanted.astype("f8"))


NARROW = ["float16", "bfloat16", "float32", "bool", "int8", "uint8", "int32", "uint32"]


def keys(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Return keys of which many are equal: of floats also NaN and zeros of both signs."""
    if as_dtype(dtype).kind in "fV":
        return np.random.default_rng(2).choice(numbers((1, 40), dtype)[0], shape)
    words = np.random.default_rng(2).integers(0, 2**32, 40, dtype=np.uint32)
    return np.random.default_rng(3).choice(words, shape).astype(dtype)


def with_others(shape: tuple[int, ...], dtype: str, axis: int, *, is_stable: bool) -> Graph:
    with Builder() as builder:
        x, y = (builder.input(ShapeDtype(shape, d)) for d in (dtype, "float64"))
        places = ops.iota(shape=shape, dtype=np.dtype(np.int64), dimension=axis)
        params = {"dimension": axis, "num_keys": 1, "is_stable": is_stable}
        return builder.finish(ops.sort(x, y, places, **params))


@pytest.mark.xla
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", NARROW)
def test_arrays_that_go_along_keep_the_order_of_equal_keys(dtype: str, axis: int) -> None:
    x = keys((70, 90), dtype)
    y = np.random.default_rng(4).standard_normal(x.shape)
    before = with_others(x.shape, dtype, axis, is_stable=True)
    after, log = apply(PASS, before)
    assert len(log.applied) == text(after).count("gather(") == 1
    wanted = evaluated(before, x, y)
    compiled = compile_graph(after)(*map(to_device, (x, y)))
    for found in (evaluated(after, x, y), [to_host(array) for array in compiled]):
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one.astype("f8"), other.astype("f8"))
            if one.dtype.kind != "b":
                np.testing.assert_array_equal(
                    np.signbit(one.astype("f8"))[one == one],
                    np.signbit(other.astype("f8"))[one == one],
                )


@pytest.mark.xla
def test_argsort_has_no_gather_and_one_operand() -> None:
    plain = tracer.compile(tnp.argsort, passes="-sort-as-integers")
    graph = plain.graph(ShapeDtype((2, 4096), np.float32))
    after, log = apply(PASS, graph)
    assert log.applied == ["sort of float32[2,4096], int64[2,4096]"]
    (one,) = [node for node in after.nodes if node.op is ops.sort]
    assert len(one.operands) == 1
    assert "gather" not in text(after)


@pytest.mark.parametrize(
    ("shape", "dtype", "merged"),
    [((3, 4096), "int32", False), ((4, 4096), "int32", True), ((1 << 21,), "float64", False)]
    + [((5, 1 << 21), "float32", True)],
)
def test_a_sort_is_merged_where_half_a_line_is_little(
    shape: tuple[int, ...], dtype: str, merged: bool
) -> None:
    graph = sort(shape, dtype)
    assert f"is_stable={merged}" in text(apply(PASS, graph)[0])
    half_a_line = shape[-1] // 2 * np.dtype(dtype).itemsize
    with planned_for(ON_MESH):
        assert packing_bytes(graph.nodes[0]) == (half_a_line if merged else 0)


@pytest.mark.xla
@pytest.mark.parametrize("columns", [int(LEAST) // 8, int(LEAST)])
@pytest.mark.parametrize("dtype", FLOATS)
def test_compiled_it_sorts_as_numpy_does(dtype: str, columns: int) -> None:
    x = numbers((2, columns), dtype)
    graph = apply(PASS, sort(x.shape, x.dtype))[0]
    found = to_host(compile_graph(graph)(to_device(x))[0]).astype(np.float64)
    np.testing.assert_array_equal(found, np.sort(x.astype(np.float64), axis=1))


def sorted_in_a_loop(x: Any) -> Any:
    return tracer.fori_loop(0, 3, lambda _, c: tnp.sort(tnp.sin(-c)) + 1, x)


@pytest.mark.xla
def test_bodies_are_written_too_and_the_name_switches_it_off() -> None:
    x = np.random.default_rng(0).standard_normal(5000)
    as_integers = tracer.compile(sorted_in_a_loop, passes="-sort-by-numpy")
    plain = tracer.compile(sorted_in_a_loop, passes="-sort-by-numpy, -sort-as-integers")
    names = [{row.name for row in function.plan(x).passes} for function in (as_integers, plain)]
    assert names[0] - names[1] == {"sort as integers"}
    manager = PassManager()
    assert "sort(%" in str(manager.run(plain.graph(x), (PASS,)))
    (row,) = manager.rows
    # The cost of a sort of many floats has the copy already.
    assert row.peak_bytes_before == row.peak_bytes_after
    assert ["bitcast_convert" in f.stablehlo(x) for f in (as_integers, plain)] == [True, False]
    np.testing.assert_array_equal(np.asarray(as_integers(x)), np.asarray(plain(x)))


def test_from_how_many_on_and_the_bytes_of_the_copy_are_the_target_s() -> None:
    graph = sort((100,), "float64")
    few = replace(ON_MESH, kernels=replace(ON_MESH.kernels, integer_sorts=100))
    assert apply(PASS, graph)[0] is graph
    assert "int64" in text(apply(integer_sorts_pass(few, by_numpy=False), graph)[0])
    found = []
    for target in (ON_MESH, few):
        with planned_for(target):
            found.append(counted_scratch(graph.nodes[0]))
    assert found == [0, 800]
