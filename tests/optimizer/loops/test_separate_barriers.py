"""Gradients of checkpointed functions run in slices, also where operands differ in shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import apply as apply_pass
from tests.optimizer.graphs import of, traced
from tracer import ops
from tracer.ir import Graph, Node, interpret, verify
from tracer.optimizer.loops.separate_barriers import separate_barriers_pass
from tracer.optimizer.loops.split import SplitSettings

Array = np.ndarray[Any, Any]
SETTINGS = SplitSettings(1 << 10, 1, 1, trust_fusion=False)
RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((2, 500, 4))
W = RNG.standard_normal((4, 500))


def layer(x: Any, w: Any, v: Any) -> Any:
    """Take a layer of which only the operands are kept."""
    return ((tracer.checkpoint(lambda x, w: tnp.tanh(x @ w))(x, w) @ v) ** 2).sum()


def kernel(x: Any, y: Any, v: Any) -> Any:
    def k(x: Any, y: Any) -> Any:
        return tnp.exp(-((x[:, None] - y) ** 2).sum(-1))

    return (tracer.checkpoint(k)(x, y.T) @ v).sum()


def twice(x: Any, w: Any, v: Any) -> Any:
    """Give a value twice, viewed between, and checkpoint what is checkpointed."""

    def inner(z: Any, again: Any, row: Any) -> Any:
        return tnp.sin(z) * again[0] + tracer.checkpoint(tnp.tanh)(z) + row

    z = x @ w
    return (tracer.checkpoint(inner)(z, z[None], z[-1:].sum(0)) @ v).sum()


def pair(x: Any, w: Any, v: Any) -> Any:
    """Put arrays of two shapes behind one barrier by hand."""
    z, x = tracer.lax.optimization_barrier((x @ w, x))
    return (tnp.exp(-(z**2)) @ v).sum() + (x**2).sum()


def barriers(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if node.op is ops.optimization_barrier]


FUNCTIONS = [layer, kernel, twice, pair]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("sizes", [(60, 4, 70), (1, 4, 300), (300, 1, 2), (0, 3, 400)])
def test_values_before_and_after(function: Callable[..., Any], sizes: tuple[int, ...]) -> None:
    n, d, m = sizes
    arguments = [RNG.standard_normal(shape) for shape in ((n, d), (d, m), (m, 2))]
    graph = traced(tracer.grad(function, argnums=(0, 1, 2)), *of(*arguments))
    result, _ = apply_pass(separate_barriers_pass(SETTINGS), graph)
    verify(result)
    for one, other in zip(interpret(result, arguments), interpret(graph, arguments), strict=True):
        np.testing.assert_array_equal(one, other)
    for node in barriers(result):
        large = max(type.nbytes for type in node.types) > SETTINGS.threshold_bytes
        assert not large or len({type.shape for type in node.types}) == 1


def test_small_barriers_and_those_of_one_shape_stay() -> None:
    def f(x: Any) -> Any:
        small, _ = tracer.lax.optimization_barrier((x[0], x[:2]))
        one, other = tracer.lax.optimization_barrier((x + 1, x * 2))
        return one + other + small

    graph = traced(f, ((50, 5), "float64"))
    result, log = apply_pass(separate_barriers_pass(SETTINGS), graph)
    assert not log.applied
    assert len(barriers(result)) == 2


@pytest.mark.xla
@pytest.mark.parametrize("function", FUNCTIONS)
def test_gradients_within_a_limit(function: Callable[..., Any]) -> None:
    """A matrix takes 2 MB."""
    arguments = X, W, Y
    gradient = tracer.grad(function, argnums=(0, 1, 2))
    limited = tracer.compile(gradient, memory_limit="400kB")
    for one, other in zip(limited(*arguments), gradient(*arguments), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)
    assert limited.plan(*arguments).compiled_bytes <= 400_000


@pytest.mark.xla
def test_second_derivatives_within_a_limit() -> None:
    def along(x: Any, w: Any, v: Any) -> Any:
        return (tracer.grad(layer)(x, w, v) ** 2).sum()

    gradient = tracer.grad(along)
    limited = tracer.compile(gradient, memory_limit="800kB")
    np.testing.assert_allclose(limited(X, W, Y), gradient(X, W, Y), rtol=1e-9, atol=1e-9)


@pytest.mark.xla
def test_without_a_limit_less_is_alive_than_without_a_checkpoint() -> None:
    """What a barrier is for: it holds the second run back."""

    def deep(x: Any, w: Any, *, wrap: Any) -> Any:
        for _ in range(6):
            x = wrap(lambda x: tnp.tanh(tnp.sin(tnp.tanh(x @ w)) @ w))(x)
        return (x**2).sum()

    def taken(wrap: Any) -> int:
        gradient = tracer.grad(lambda x, w: deep(x, w, wrap=wrap))
        plan = tracer.compile(gradient, split="never").plan(*RNG.standard_normal((2, 300, 300)))
        return int(plan.compiled_bytes)

    assert taken(tracer.checkpoint) < 0.8 * taken(lambda f: f)
