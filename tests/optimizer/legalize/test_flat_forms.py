"""Adjacent reduced axes become one where elements are read in order, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import apply, evaluated, text
from tracer.array.trace import trace
from tracer.ir import Graph, ShapeDtype, parse_graph
from tracer.optimizer.legalize.reductions import staged_reductions_pass
from tracer.target import DEFAULT_TARGET

PASS = staged_reductions_pass(DEFAULT_TARGET)
SHAPE = (400, 60, 10)


def traced(function: Callable[..., Any], shape: tuple[int, ...] = SHAPE) -> Graph:
    return trace(function, [ShapeDtype(shape, "float32")] * 2).graph


def two_of(x: Any, first: Callable[[Any], Any], second: Callable[[Any], Any]) -> Any:
    return first(x), second(x)


def is_flat(function: Callable[..., Any], size: str = "float32[240000]") -> bool:
    return size in text(apply(PASS, traced(function))[0])


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x.sum(),
        lambda x, y: (abs(x - y) * 2).max(),
        lambda x, y: x.reshape(600, 400).max(),
        lambda x, y: two_of(x - y, lambda e: abs(e).sum(), lambda e: (e**2).max()),
        lambda x, y: two_of(x * 2, lambda e: e, lambda e: e.sum()),
    ],
)
def test_elements_in_order_are_one_row(function: Callable[..., Any]) -> None:
    assert is_flat(function)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: (x - x[:, :1]).sum(),
        lambda x, y: (x - tnp.arange(10.0)).sum(),
        lambda x, y: (x * tnp.arange(10)).max(),
        lambda x, y: x.transpose(1, 0, 2).sum(),
        lambda x, y: x[::-1].sum(),
        lambda x, y: x[:, 1:].max(),
        lambda x, y: two_of(abs(x - y), lambda e: e.sum(), lambda e: e.max(0)),
        lambda x, y: two_of(tnp.exp(x), lambda e: e.sum(), lambda e: e[:, 1:] * 2),
        lambda x, y: x.max((0, 2)),
    ],
)
def test_others_stay_as_they_are(function: Callable[..., Any]) -> None:
    assert not is_flat(function)


@pytest.mark.parametrize(
    "function", [lambda x, y: (tnp.flip(x, 0) * y).sum(), lambda x, y: (x.T * y).sum()]
)
def test_other_places_of_one_shape_stay_as_they_are(function: Callable[..., Any]) -> None:
    assert "float32[250000]" not in text(apply(PASS, traced(function, (500, 500)))[0])


@pytest.mark.parametrize(
    "operation",
    [
        "slice(%0) {start=(0, 0), limit=(400, 600), strides=(1, 1)}",
        "concatenate(%0) {dimension=1}",
        "reverse(%0) {dimensions=(1,)}",
    ],
)
def test_parameters_that_name_places_stay_true(operation: str) -> None:
    graph = parse_graph(
        f"""
graph(%0: float32[400,600]) {{
  %1: float32[400,600] = {operation}
  %2: float32[] = reduce_add(%1) {{axes=(0, 1)}}
  return %2
}}"""
    )
    assert "float32[240000]" not in text(apply(PASS, graph)[0])


def test_axes_that_stay_are_apart() -> None:
    graph = apply(PASS, traced(lambda x, y: x.max((1, 2))))[0]
    assert "float32[400,600] = reshape" in text(graph)
    graph = apply(PASS, traced(lambda x, y: x.max((0, 1))))[0]
    assert "float32[24000,10] = reshape" in text(graph)


def test_what_is_spread_along_merged_axes_is_spread_along_their_row() -> None:
    program = lambda x, y: ((x - x.mean((1, 2), keepdims=True)) * y[:, 0, 0][:, None, None]).sum(
        (1, 2)
    )
    assert text(apply(PASS, traced(program))[0]).count("float32[400,600] = broadcast_in_dim") == 2


OPERANDS: list[Callable[[Any, Any], Any]] = [
    lambda x, y: x,
    lambda x, y: x * x - y,
    lambda x, y: tnp.exp(x) + 3,
    lambda x, y: tnp.where(x > y, x, -y),
    lambda x, y: x - x[..., :1],
    lambda x, y: x.reshape(-1).reshape(x.shape) * y,
    lambda x, y: tnp.swapaxes(tnp.swapaxes(x, 0, 1), 0, 1) + 1,
    lambda x, y: (x - y) * tnp.arange(x.shape[-1]),
    lambda x, y: x[None][0],
    lambda x, y: x - x.mean(-1, keepdims=True),
    lambda x, y: x - x.mean(0, keepdims=True) * y,
    lambda x, y: x * y[..., :1] + y.sum(),
    lambda x, y: tnp.flip(x, 0) * y,
    lambda x, y: (tnp.swapaxes(x, 0, 1) if x.shape[0] == x.shape[1] else x) * y,
]
SHAPES = [
    (90, 90, 12),
    (70, 40, 31),
    (1, 300, 200),
    (33, 1, 999),
    (4, 0, 5),
    (2, 3, 64, 128),
    (50_000, 7),
]


@given(
    first=st.sampled_from(OPERANDS),
    second=st.sampled_from(OPERANDS),
    shape=st.sampled_from(SHAPES),
    axes=st.sets(st.sampled_from(range(4))),
    reduction=st.sampled_from(["sum", "max", "min"]),
    is_stored=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_values_stay(
    first: Any, second: Any, shape: Any, axes: set[int], reduction: str, is_stored: bool
) -> None:
    where = tuple(sorted(axis for axis in axes if axis < len(shape))) or tuple(range(len(shape)))
    if 0 in shape and reduction != "sum":
        return

    def program(x: Any, y: Any) -> Any:
        one, other = first(x, y), second(x, y)
        found = getattr(one, reduction)(where), getattr(other * one, reduction)(where)
        return (*found, one) if is_stored else found

    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape, np.float32) for _ in range(2)]
    before = traced(program, shape)
    after = apply(PASS, before)[0]
    for got, wanted in zip(evaluated(after, *arrays), evaluated(before, *arrays), strict=True):
        # Sums of up to 400,000 terms in another order, and extremes of what has such means.
        room = 2e-2 if reduction == "sum" else 1e-6
        np.testing.assert_allclose(
            got, wanted, rtol=2e-3 if reduction == "sum" else 1e-5, atol=room
        )


@pytest.mark.xla
@pytest.mark.parametrize("shape", [(20_000, 10), (3000, 31), (400, 60, 10)])
def test_compiled_values_are_those_of_numpy(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(shape, np.float32) for _ in range(2))

    def program(x: Any, y: Any) -> Any:
        error = x - y
        return error.max(), (error**2).mean(), abs(error).sum(-1), x.max(-1), x.min()

    wide = program(x.astype("f8"), y.astype("f8"))
    for got, wanted in zip(tracer.compile(program)(x, y), wide, strict=True):
        np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-5)
