"""Convolutions in the library's layout: what is written, that it computes the same, what stays."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import apply, evaluated, ops_of, text
from tracer import ops
from tracer.array.trace import trace
from tracer.ir import Builder, Graph, ShapeDtype
from tracer.optimizer.legalize.convolutions import convolution_layouts_pass
from tracer.optimizer.passes import PassManager
from tracer.target import DEFAULT_TARGET

PASS = convolution_layouts_pass(DEFAULT_TARGET)
FIRST = {"lhs_axes": (0, 1, 2), "rhs_axes": (0, 1, 2), "result_axes": (0, 1, 2)}
LAST = {"lhs_axes": (0, 2, 1), "rhs_axes": (2, 1, 0), "result_axes": (0, 2, 1)}
MIXED = {"lhs_axes": (2, 0, 1), "rhs_axes": (1, 2, 0), "result_axes": (1, 2, 0)}
PLANE = {"lhs_axes": (0, 1, 2, 3), "rhs_axes": (0, 1, 2, 3), "result_axes": (0, 1, 2, 3)}


def convolved(lhs: tuple[int, ...], rhs: tuple[int, ...], dtype: Any, **changed: Any) -> Graph:
    ones = (1,) * (len(lhs) - 2)
    params = {
        "window_strides": ones,
        "padding": ((1, 1),) * len(ones),
        "lhs_dilation": ones,
        "rhs_dilation": ones,
        "feature_group_count": 1,
        "batch_group_count": 1,
    }
    with Builder() as builder:
        operands = [builder.input(ShapeDtype(shape, dtype)) for shape in (lhs, rhs)]
        return builder.finish([ops.convolution(*operands, **params | changed)])


def test_features_go_last() -> None:
    graph = convolved((2, 3, 7), (4, 3, 3), "float16", **FIRST)
    after, log = apply(PASS, graph)
    assert log.applied == ["convolution to float16[2,4,7]"]
    assert (
        text(after)
        == (
            """
graph(%0: float16[2,3,7], %1: float16[4,3,3]) {
  %2: float32[2,3,7] = convert(%0) {dtype=float32}
  %3: float32[4,3,3] = convert(%1) {dtype=float32}
  %4: float32[2,7,3] = transpose(%2) {permutation=(0, 2, 1)}
  %5: float32[3,3,4] = transpose(%3) {permutation=(2, 1, 0)}
  %6: float32[2,7,4] = convolution(%4, %5) {lhs_axes=(0, 2, 1), rhs_axes=(2, 1, 0), """
            """result_axes=(0, 2, 1), window_strides=(1,), padding=((1, 1),), lhs_dilation=(1,), """
            """rhs_dilation=(1,), feature_group_count=1, batch_group_count=1}
  %7: float32[2,4,7] = transpose(%6) {permutation=(0, 2, 1)}
  %8: float16[2,4,7] = convert(%7) {dtype=float16}
  return %8
}"""
        ).strip()
    )


@pytest.mark.parametrize(
    ("kernel", "convolutions", "taps"),
    [
        ((4, 3, 3, 3), 4, 9),  # One, two, two and four taps, each in a convolution.
        ((4, 3, 7, 7), 1, 64),  # One convolution, of which 15 of 64 taps are zero.
        ((4, 3, 2, 2), 1, 4),
        ((4, 3, 1, 1), 1, 1),  # Three of four phases are zeros.
    ],
)
def test_zeros_between_elements_are_not_multiplied(
    kernel: tuple[int, ...], convolutions: int, taps: int
) -> None:
    graph = convolved((2, 3, 8, 8), kernel, "float32", **PLANE, lhs_dilation=(2, 2))
    nodes = [node for node in apply(PASS, graph)[0].nodes if node.op is ops.convolution]
    assert len(nodes) == convolutions
    assert all(node.params["lhs_dilation"] == (1, 1) for node in nodes)
    assert sum(node.operand_types[1].size for node in nodes) == taps * 4 * 3


def test_zeros_are_written_out_where_windows_leap() -> None:
    changed = FIRST | {"lhs_dilation": (2,), "window_strides": (2,)}
    after, _ = apply(PASS, convolved((2, 3, 7), (4, 3, 3), "float32", **changed))
    (node,) = [node for node in after.nodes if node.op is ops.pad]
    assert node.params["interior"] == (0, 1, 0)


def test_kernels_of_groups_of_few_features_are_mirrored() -> None:
    graph = convolved((2, 6, 7), (6, 1, 3), "float32", **FIRST, feature_group_count=6)
    after, log = apply(PASS, graph)
    assert log.applied == ["convolution to float32[2,6,7]: mirrored"]
    assert (
        text(after)
        == (
            """
graph(%0: float32[2,6,7], %1: float32[6,1,3]) {
  %2: float32[6,1,3] = reverse(%1) {dimensions=(2,)}
  %3: float32[2,6,7] = convolution(%0, %2) {lhs_axes=(0, 1, 2), rhs_axes=(0, 1, 2), """
            """result_axes=(0, 1, 2), window_strides=(1,), padding=((1, 1),), lhs_dilation=(1,), """
            """rhs_dilation=(1,), feature_group_count=6, batch_group_count=1, window_reversal=True}
  return %3
}"""
        ).strip()
    )
    assert apply(PASS, after)[0] is after


@pytest.mark.parametrize(
    "graph",
    [
        convolved((2, 3, 7), (4, 3, 3), "float64", **FIRST),
        convolved((2, 3, 7), (4, 3, 3), "int32", **FIRST),
        convolved((2, 3, 7), (4, 3, 3), "complex64", **FIRST),
        convolved((2, 7, 3), (3, 3, 4), "float32", **LAST),
        convolved((2, 7, 3), (3, 3, 4), "bfloat16", **LAST),
    ],
    ids=str,
)
def test_what_the_library_does_not_take_or_takes_as_it_is_stays(graph: Graph) -> None:
    assert apply(PASS, graph)[0] is graph


CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 7), (4, 3, 3), FIRST),
    ((3, 6, 2), (2, 4, 3), MIXED),
    ((2, 6, 8, 5), (4, 6, 3, 2), PLANE | {"window_strides": (2, 1), "rhs_dilation": (1, 2)}),
    ((2, 6, 4, 5), (4, 6, 3, 3), PLANE | {"lhs_dilation": (2, 3)}),
    ((2, 6, 4, 5), (4, 6, 3, 3), PLANE | {"lhs_dilation": (2, 3), "window_strides": (2, 1)}),
    ((2, 16, 4), (8, 8, 3), FIRST | {"feature_group_count": 2, "lhs_dilation": (20,)}),
    ((2, 16, 8), (8, 8, 3), FIRST | {"feature_group_count": 2}),
    ((2, 16, 8), (16, 2, 3), FIRST | {"feature_group_count": 8, "window_strides": (2,)}),
    ((4, 3, 8), (6, 3, 3), FIRST | {"batch_group_count": 2}),
    ((2, 3), (4, 3), {"lhs_axes": (0, 1), "rhs_axes": (0, 1), "result_axes": (1, 0)}),
    ((0, 3, 5), (4, 3, 3), FIRST),
]


@pytest.mark.parametrize(("lhs", "rhs", "params"), CASES)
@pytest.mark.parametrize("dtype", ["float32", "float16", ml_dtypes.bfloat16])
def test_it_computes_the_same(
    lhs: tuple[int, ...], rhs: tuple[int, ...], params: dict[str, Any], dtype: Any
) -> None:
    """Small integers: every sum is exact."""
    rng = np.random.default_rng(0)
    x, kernel = (rng.integers(-3, 4, shape).astype(dtype) for shape in (lhs, rhs))
    before = convolved(lhs, rhs, dtype, **params)
    after, log = apply(PASS, before)
    assert log.applied
    (found,), (wanted,) = evaluated(after, x, kernel), evaluated(before, x, kernel)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found.astype("f8"), wanted.astype("f8"))


@pytest.mark.parametrize("seed", range(40))
def test_random_dilated_convolutions(seed: int) -> None:
    """Any order of axes, sizes of 0 and 1, padding that cuts off, groups; sums are exact."""
    rng = np.random.default_rng(seed)
    spatial = int(rng.integers(1, 4))
    of_features, of_batch = [(1, 1), (1, 1), (2, 1), (1, 2)][seed % 4]

    def drawn(low: int, high: int) -> tuple[int, ...]:
        return tuple(int(n) for n in rng.integers(low, high, spatial))

    def in_order(axes: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sizes[i] for i in np.argsort(axes))

    lhs_axes, rhs_axes, result_axes = (
        tuple(int(axis) for axis in rng.permutation(spatial + 2)) for _ in range(3)
    )
    inputs = 8 if of_features > 1 else int(rng.integers(1, 4))
    outputs = of_features * of_batch * int(rng.integers(1, 4))
    lhs = in_order(lhs_axes, (2 * of_batch, of_features * inputs, *drawn(seed % 5 > 0, 6)))
    rhs = in_order(rhs_axes, (outputs, inputs, *drawn(1, 6)))
    changed = {
        "lhs_axes": lhs_axes, "rhs_axes": rhs_axes, "result_axes": result_axes,
        "lhs_dilation": drawn(1, 6), "feature_group_count": of_features,
        "batch_group_count": of_batch,
        "padding": tuple(zip(drawn(-1, 6), drawn(4, 8), strict=True)),
    }  # fmt: skip
    before = convolved(lhs, rhs, "float32", **changed)
    after, _ = apply(PASS, before)
    x, kernel = (rng.integers(-3, 4, shape).astype("float32") for shape in (lhs, rhs))
    (found,), (wanted,) = evaluated(after, x, kernel), evaluated(before, x, kernel)
    np.testing.assert_array_equal(found, wanted)


def smoothed(x: Any, kernel: Any) -> Any:
    def step(_: Any, c: Any) -> Any:
        return tnp.tanh(tracer.nn.conv_general_dilated(c, kernel, (1,), "SAME"))

    return tracer.fori_loop(0, 3, step, x)


@pytest.mark.xla
def test_bodies_are_written_too() -> None:
    rng = np.random.default_rng(0)
    x, kernel = (rng.standard_normal(shape, np.float32) for shape in ((2, 3, 20), (3, 3, 3)))
    laid = tracer.compile(smoothed)
    assert "lay out convolutions" in {row.name for row in laid.plan(x, kernel).passes}
    graph = trace(smoothed, (ShapeDtype(x.shape, x.dtype), ShapeDtype(kernel.shape, x.dtype))).graph
    manager = PassManager()
    after = manager.run(graph, (PASS,))
    assert ops_of(after).count("transpose") == 3
    (row,) = manager.rows
    # The cost of a convolution has the copies already.
    assert row.peak_bytes_before == row.peak_bytes_after
    (wanted,) = evaluated(graph, x, kernel)
    np.testing.assert_allclose(np.asarray(laid(x, kernel)), wanted, rtol=1e-5, atol=1e-6)
