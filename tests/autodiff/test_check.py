"""The checker itself: it must catch wrong derivatives."""

from __future__ import annotations

import numpy as np
import pytest

from tests.autodiff.graphs import build, point
from tracer import ops
from tracer.autodiff import check_graph
from tracer.errors import ArgumentError, GradientCheckError
from tracer.ir import Value

SCALAR = ((), "float64")
VECTOR = ((3,), "float64")


def wrong_first(x: Value) -> Value:
    return ops.custom_vjp_call(
        x,
        body=build(lambda x: [ops.sine(x)], VECTOR),
        forward=build(lambda x: [ops.sine(x), x], VECTOR),
        backward=build(lambda x, g: [ops.multiply(g, ops.sine(x))], VECTOR, VECTOR),
        differentiable=1,
    )[0]


def wrong_second(x: Value) -> Value:
    return ops.custom_vjp_call(
        x,
        body=build(lambda x: [ops.sine(x)], VECTOR),
        forward=build(lambda x: [ops.sine(x), ops.stop_gradient(x)], VECTOR),
        backward=build(lambda x, g: [ops.multiply(g, ops.cosine(x))], VECTOR, VECTOR),
        differentiable=1,
    )[0]


@pytest.mark.parametrize("mode", ["rev", "fwd"])
def test_catches_a_wrong_gradient(mode: str) -> None:
    graph = build(wrong_first, VECTOR)
    with pytest.raises(GradientCheckError, match="order 1") as caught:
        check_graph(graph, point(graph), order=1, modes=(mode,))
    assert isinstance(caught.value, AssertionError)


def test_catches_a_wrong_second_derivative() -> None:
    graph = build(wrong_second, VECTOR)
    check_graph(graph, point(graph), order=1)
    with pytest.raises(GradientCheckError, match="order 2"):
        check_graph(graph, point(graph), order=2)


def test_tolerances_are_taken() -> None:
    graph = build(wrong_first, VECTOR)
    check_graph(graph, point(graph), order=1, atol=100)


@pytest.mark.parametrize(("order", "modes"), [(0, ("rev",)), (1, ("backward",)), (1, ())])
def test_refuses_arguments_that_check_nothing(order: int, modes: tuple[str, ...]) -> None:
    graph = build(ops.sine, SCALAR)
    with pytest.raises(ArgumentError):
        check_graph(graph, [np.array(1.0)], order=order, modes=modes)
