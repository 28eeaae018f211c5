"""Gradients of extremes that one cut does not serve: same values, nothing of matrix size stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import apply as apply_pass
from tests.optimizer.graphs import of, traced
from tests.sampling import in_turn
from tracer import ops
from tracer.ir import Graph, interpret, verify
from tracer.optimizer.loops.extremes import separate_extremes_pass
from tracer.optimizer.loops.split import SplitSettings, driver, split_graph
from tracer.optimizer.passes import PassLog
from tracer.optimizer.rewrite.simplify import COMMON_SUBEXPRESSIONS

Array = np.ndarray[Any, Any]
Function = Callable[[Any, Any], Any]
SETTINGS = SplitSettings(1 << 10, 1, 1, trust_fusion=False)


def distances(x: Any, y: Any) -> Any:
    return ((x[:, None] - y[None]) ** 2).sum(-1)


def chamfer(x: Any, y: Any) -> Any:
    d = distances(x, y)
    return d.min(1).mean() + d.min(0).mean()


def both_ways_at_most(x: Any, y: Any) -> Any:
    d = distances(x, y)
    return tnp.maximum(d.min(1).max(), d.min(0).max())


def products(x: Any, y: Any) -> Any:
    d = tnp.maximum(x @ y.T, 0)
    return (d.max(1) ** 2).sum() * tnp.sqrt(1 + d.max(0)).sum() + d.min()


def with_smooth(x: Any, y: Any) -> Any:
    d = distances(x, y)
    return tnp.exp(-d).sum() + d.min(1).max() + d.max(0).sum()


def transposed(x: Any, y: Any) -> Any:
    d = distances(x, y)
    return d.min(1).mean() + d.T[:, None].min((1, 2)).mean() + d.T[None].max((0, 1)).max()


def normalised(x: Any, y: Any) -> Any:
    d = distances(x, y)
    return tnp.exp(-d / (1 + d.max())).sum()


def read_twice(x: Any, y: Any) -> Any:
    d = distances(x, y)
    return d.min(1).sum() + tnp.sqrt(1 + d.min(1).max()) + d.min(0).sum()


def scaled(x: Any, y: Any) -> Any:
    """The gradient waits for a mean that the weights do not wait for."""
    d = distances(x, y)
    scaled = d / d.mean()
    return scaled.min(1).sum() + scaled.min(0).sum() + scaled.max(1).sum()


LOSSES: dict[str, Function] = {
    "read twice": read_twice,
    "hausdorff": lambda x, y: distances(x, y).min(1).max(),
    "hausdorff, both ways": both_ways_at_most,
    "chamfer": chamfer,
    "largest": lambda x, y: distances(x, y).max(),
    "spread": lambda x, y: distances(x, y).max() - tnp.sqrt(1 + distances(x, y)).min(),
    "normalised": normalised,
    "products": products,
    "with a smooth term": with_smooth,
    "transposed": transposed,
    "one operand twice": lambda x, y: (lambda d: d.max(1).sum() + d.max())(distances(x, x)),
    "largest of smallest": lambda x, y: distances(x, y).max(0).min(),
}


COMPILED: dict[str, Function] = {"scaled": scaled}
"""Those of which the graph, as it is traced, stores what is a broadcast in a compiled program."""


def points(kind: str, n: int, m: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(n, 2)), rng.normal(size=(m, 2))
    if kind == "ties":
        x, y = np.round(x), np.round(y)
    elif kind == "nan":
        x[n // 2, 1] = np.nan
    return x, y


def separated(graph: Graph) -> Graph:
    graph, _ = apply_pass(COMMON_SUBEXPRESSIONS, graph)
    return apply_pass(separate_extremes_pass(SETTINGS), graph)[0]


def split(graph: Graph, size: int, monkeypatch: pytest.MonkeyPatch) -> Graph:
    """Split a graph into slices of a given size; nothing as large as a matrix stays stored."""

    def choose(subject: Any, region: Any, *_: Any) -> int:
        return max(1, min(size, region.length // 2))

    monkeypatch.setattr(driver, "choose_chunk", choose)
    result, _ = split_graph(separated(graph), SETTINGS, PassLog())
    verify(result)
    return result


def stored_elements(graph: Graph) -> int:
    return max(type.size for node in graph.nodes for type in node.types)


@pytest.mark.parametrize("kind", ["plain", "ties", "nan"])
@pytest.mark.parametrize("name", LOSSES)
def test_slices_give_the_gradient_of_the_whole(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = points(kind, 37, 53)
    graph = traced(tracer.value_and_grad(LOSSES[name], argnums=(0, 1)), *of(x, y))
    for size in (1, 5):
        result = split(graph, size, monkeypatch)
        assert stored_elements(result) < 37 * 53
        for got, want in zip(interpret(result, [x, y]), interpret(graph, [x, y]), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("shape", [(1, 900), (900, 1), (2, 701), (701, 3), (31, 31)])
@pytest.mark.parametrize("name", ["hausdorff", "chamfer", "largest"])
def test_short_and_prime_axes(
    name: str, shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = points("ties", *shape)
    graph = traced(tracer.value_and_grad(LOSSES[name], argnums=(0, 1)), *of(x, y))
    result = split(graph, 4, monkeypatch)
    for got, want in zip(interpret(result, [x, y]), interpret(graph, [x, y]), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-13)


ROUNDED: dict[str, tuple[Callable[[Any], Any], float]] = {
    "weight waits for the extreme": (lambda d: d.min(1).max(), 1),
    "both axes": (lambda d: d.min(1).sum() + d.min(0).sum(), 37 + 53),
    "all axes": (lambda d: d.max(), 1),
    "all axes, more than once": (lambda d: d.max() + 2 * d.min(), 3),
}


@pytest.mark.parametrize("kind", ["plain", "ties"])
@pytest.mark.parametrize("name", ROUNDED)
def test_weights_add_up_however_slices_round(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slice that is computed again differs in its last digits here, each time."""
    x, y = points(kind, 37, 53)
    loss, total = ROUNDED[name]
    shifted = lambda s, x, y: loss(tnp.tanh(distances(x, y)) + s)
    s = np.array(0.5)
    graph = traced(tracer.grad(shifted), *of(s, x, y))
    result = split(graph, 5, monkeypatch)
    assert stored_elements(result) < 37 * 53
    rng, exact = np.random.default_rng(5), ops.tanh.evaluate

    def rounded(values: Array) -> Array:
        return exact(values) * (1 + 1e-9 * rng.integers(-1, 2, values.shape))

    object.__setattr__(ops.tanh, "evaluate", rounded)
    try:
        (got,) = interpret(result, [s, x, y])
    finally:
        object.__setattr__(ops.tanh, "evaluate", exact)
    np.testing.assert_allclose(got, total, rtol=1e-12)


def shifted_gradient(x: Any, y: Any) -> Any:
    """Take away by a sum what the gradient selects: summed apart it would cancel."""
    gradient = tracer.grad(lambda d: d.max(1).sum() + d.max(0).sum())
    return ((gradient(distances(x, y)) + 1.0) * distances(x, y)).sum()


def curved_gradient(x: Any, y: Any) -> Any:
    gradient = tracer.grad(lambda d: d.max(1).sum() + d.max(0).sum())
    return tnp.exp(gradient(distances(x, y))).sum()


def written_by_hand(x: Any, y: Any) -> Any:
    """A test with another reader: its copies might contradict each other."""
    d = distances(x, y)
    reached = d == d.min(1).max()
    return tnp.where(reached, 1 / reached.sum(), 0.0).sum(0)


@pytest.mark.parametrize("function", [shifted_gradient, curved_gradient, written_by_hand])
def test_what_does_not_come_apart_is_left_alone(function: Function) -> None:
    graph = traced(function, *of(*points("plain", 37, 53)))
    graph, _ = apply_pass(COMMON_SUBEXPRESSIONS, graph)
    result, _ = apply_pass(separate_extremes_pass(SETTINGS), graph)
    assert result is graph


@pytest.mark.parametrize("loss", [lambda d: d.min(1).sum(), lambda d: (d.min(1) ** 2).sum()])
def test_one_cut_that_serves_is_left_alone(loss: Callable[[Any], Any]) -> None:
    function = tracer.grad(lambda x, y: loss(distances(x, y)))
    graph = traced(function, *of(*points("plain", 37, 53)))
    graph, _ = apply_pass(COMMON_SUBEXPRESSIONS, graph)
    result, _ = apply_pass(separate_extremes_pass(SETTINGS), graph)
    assert result is graph


@pytest.mark.parametrize("shape", [(0, 900), (900, 0)])
def test_no_points_at_all(shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = points("plain", *shape)

    def loss(x: Any, y: Any) -> Any:
        d = distances(x, y)
        return (
            d.min(1, initial=9.0).sum() + d.max((0, 1), initial=0.0) + d.min(0, initial=1.0).sum()
        )

    graph = traced(tracer.value_and_grad(loss, argnums=(0, 1)), *of(x, y))
    result = split(graph, 4, monkeypatch)
    for got, want in zip(interpret(result, [x, y]), interpret(graph, [x, y]), strict=True):
        np.testing.assert_array_equal(got, want)


def compiled(loss: Function, limit: int, *arrays: Array) -> tuple[Any, Any]:
    """Return value and gradient under a limit that XLA's count keeps, and of the whole."""
    function = tracer.value_and_grad(loss, argnums=(0, 1))
    limited = tracer.compile(function, memory_limit=limit)
    result = limited(*arrays)
    plan = limited.plan(*arrays)
    assert plan.compiled_bytes is not None
    assert plan.compiled_bytes <= limit
    return result, tracer.compile(function, split="never")(*arrays)


@pytest.mark.xla
@pytest.mark.parametrize(
    ("name", "kind"),
    in_turn(["hausdorff", "chamfer", "largest", "products", *COMPILED], ["plain", "ties", "nan"]),
)
def test_compiled_within_a_fraction_of_the_matrix(name: str, kind: str) -> None:
    x, y = (array.astype("float32") for array in points(kind, 601, 709))
    got, want = compiled((LOSSES | COMPILED)[name], 601 * 709 * 4 * 2 // 5, x, y)
    np.testing.assert_allclose(np.asarray(got[0]), np.asarray(want[0]), rtol=1e-6)
    for ours, theirs in zip(got[1], want[1], strict=True):
        scale = np.nanmax(np.abs(np.asarray(theirs)), initial=1e-30)
        np.testing.assert_allclose(
            np.asarray(ours), np.asarray(theirs), rtol=1e-4, atol=1e-5 * scale
        )


@pytest.mark.xla
def test_steps_of_a_loop() -> None:
    x, y = (array.astype("float32") for array in points("plain", 601, 709))

    def steps(x: Any, y: Any) -> Any:
        return tracer.fori_loop(0, 3, lambda _, x: x - 0.1 * tracer.grad(read_twice)(x, y), x)

    limited = tracer.compile(steps, memory_limit=601 * 709 * 4 * 3 // 5)
    whole = tracer.compile(steps, split="never")
    np.testing.assert_allclose(np.asarray(limited(x, y)), np.asarray(whole(x, y)), atol=1e-5)


@pytest.mark.xla
def test_chamfer_against_numpy_and_differences() -> None:
    x, y = points("plain", 503, 409)
    d = ((x[:, None] - y[None]) ** 2).sum(-1)
    limited = tracer.compile(
        tracer.value_and_grad(chamfer, argnums=(0, 1)), memory_limit=503 * 409 * 8 // 3
    )
    value, (by_x, by_y) = limited(x, y)
    np.testing.assert_allclose(float(value), d.min(1).mean() + d.min(0).mean(), rtol=1e-12)
    near_y, near_x = y[d.argmin(1)], x[d.argmin(0)]
    want = 2 * (x - near_y) / 503
    np.add.at(want, d.argmin(0), 2 * (near_x - y) / 409)
    np.testing.assert_allclose(np.asarray(by_x), want, rtol=1e-9, atol=1e-14)
    step = np.zeros_like(y)
    step[17, 1] = 1e-6
    slope = (float(limited(x, y + step)[0]) - float(limited(x, y - step)[0])) / 2e-6
    np.testing.assert_allclose(float(by_y[17, 1]), slope, rtol=1e-4, atol=1e-9)
