"""Scans that are differentiated in segments, and the limits that this keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer.array.trace import trace
from tracer.autodiff import segment_scans
from tracer.errors import MemoryLimitError
from tracer.ir import Graph, Node
from tracer.ops.scan_segments import segment_size


def loss_of(length: int, *, reverse: bool, with_slices: bool) -> Any:
    def loss(w: Any, start: Any, xs: Any) -> Any:
        def step(state: Any, x: Any) -> Any:
            drive = 0.1 if x is None else x
            state = tnp.tanh(state @ w + drive)
            return state, state.sum() * 0.5

        slices = xs[:length] if with_slices else None
        last, results = tracer.scan(step, start, slices, length=length, reverse=reverse)
        return (last**2).sum() + (results**2).sum()

    return loss


@pytest.mark.xla
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("with_slices", [False, True])
@pytest.mark.parametrize("length", [36, 37])
def test_segments_change_no_gradient(
    rng: np.random.Generator, length: int, with_slices: bool, reverse: bool
) -> None:
    arguments = rng.standard_normal((5, 5)), rng.standard_normal(5), rng.standard_normal((37, 5))
    loss = loss_of(length, reverse=reverse, with_slices=with_slices)
    gradient = tracer.value_and_grad(loss, argnums=(0, 1, 2))
    with segment_scans():
        graph = trace(gradient, arguments).graph
        found = tracer.tree.leaves(gradient(*arguments))
        tracer.check_grads(loss, arguments, order=2)
    assert max(node.types[1].shape[0] for node in graph.nodes if node.name == "scan") < length
    for one, other in zip(found, tracer.tree.leaves(gradient(*arguments)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def test_segments_have_the_source_of_their_scan() -> None:
    loss = loss_of(36, reverse=False, with_slices=True)
    with segment_scans():
        graph = trace(tracer.grad(loss), (np.ones((5, 5)), np.ones(5), np.ones((36, 5)))).graph
    loops = [node for node in every_node(graph) if node.name in ("scan", "checkpoint")]
    assert len(loops) > 3
    assert {node.source.function for node in loops if node.source is not None} == {"loss"}


@pytest.mark.xla
def test_a_refusal_names_the_lines_of_a_loop_in_segments() -> None:
    def loss(start: Any) -> Any:
        # A step that mixes the elements: others are cut along them.
        last, _ = tracer.scan(lambda u, _: (tnp.sin(u) * u[::-1], None), start, None, length=400)
        return last.sum()

    gradient = tracer.compile(tracer.value_and_grad(loss), memory_limit="2MB")
    with pytest.raises(MemoryLimitError) as caught:
        gradient.plan(tracer.ShapeDtype((10_000,), "float64"))
    assert caught.value.where is not None
    assert caught.value.where.function == "loss"
    places = [line for line in caught.value.alive if "test_segments.py" in line]
    assert places
    assert not [line for line in places if "in test_a_refusal" in line]


def every_node(graph: Graph) -> list[Node]:
    inside = [body for node in graph.nodes for body in node.body_graphs]
    return [*graph.nodes, *(node for body in inside for node in every_node(body))]


def test_segment_sizes() -> None:
    assert segment_size(2000, 80, 80) == 40
    assert segment_size(2003, 80, 80) == 45  # a prime
    assert segment_size(2000, 80, 320) == 20
    assert segment_size(2000, 80, 0) is None
    assert segment_size(4, 80, 80) is None
    assert segment_size(2000, 8000, 8) is None


def physics(k: Any, start: Any) -> Any:
    def step(x: Any, _: Any) -> Any:
        return x + 0.01 * tnp.sin(k * x), None

    return (tracer.scan(step, start, None, length=2000)[0] ** 2).sum()


def physics_gradient(k: float, x: np.ndarray) -> np.ndarray:
    states = [x]
    for _ in range(2000):
        states.append(states[-1] + 0.01 * np.sin(k * states[-1]))
    g = 2 * states[-1]
    for x in states[-2::-1]:
        g = g * (1 + 0.01 * k * np.cos(k * x))
    return g


@pytest.mark.xla
def test_a_limit_below_the_stacked_residuals_is_kept() -> None:
    start = np.linspace(-2.0, 2.0, 10_000)
    gradient = tracer.grad(physics, argnums=1)
    assert tracer.compile(gradient).plan(1.3, start).compiled_bytes > 160_000_000
    limited = tracer.compile(gradient, memory_limit="16MB")
    plan = limited.plan(1.3, start)
    assert plan.compiled_bytes <= 16_000_000
    assert plan.minimum_bytes <= plan.compiled_bytes
    np.testing.assert_allclose(limited(1.3, start), physics_gradient(1.3, start), rtol=1e-9)


@pytest.mark.xla
def test_a_limit_below_the_segments_is_kept_where_steps_do_not_mix_elements() -> None:
    start = np.linspace(-2.0, 2.0, 10_000)
    limited = tracer.compile(tracer.grad(physics, argnums=1), memory_limit="1MB")
    assert limited.plan(1.3, start).compiled_bytes <= 1_000_000
    np.testing.assert_allclose(limited(1.3, start), physics_gradient(1.3, start), rtol=1e-9)


@pytest.mark.xla
def test_a_limit_below_the_segments_is_refused() -> None:
    def mixed(k: Any, start: Any) -> Any:
        def step(x: Any, _: Any) -> Any:
            return x + 0.01 * tnp.sin(k * x[::-1]), None

        return (tracer.scan(step, start, None, length=2000)[0] ** 2).sum()

    gradient = tracer.grad(mixed, argnums=1)
    limited = tracer.compile(gradient, memory_limit="1MB")
    with pytest.raises(MemoryLimitError) as caught:
        limited.plan(1.3, np.zeros(10_000))
    minimum = caught.value.minimum_bytes
    assert 1_000_000 < minimum < 16_000_000
    assert tracer.compile(gradient, memory_limit=minimum).plan(1.3, np.zeros(10_000))
    easy = tracer.compile(gradient, memory_limit="1GB").plan(1.3, np.zeros(10_000))
    assert easy.compiled_bytes > 160_000_000
    assert easy.minimum_bytes == minimum
