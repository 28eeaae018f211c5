"""The gradient cut in two, and the push-forward made of it."""

from __future__ import annotations

import numpy as np

from tests.autodiff.graphs import build, matmul, names, point, total
from tracer import ops
from tracer.autodiff import PullBack, jvp_graph, pull_back, push_forward, vjp_graph
from tracer.ir import Graph, Value, interpret, verify

MATRIX = ((3, 3), "float64")
VECTOR = ((3,), "float64")


def run_halves(graph: Graph, halves: PullBack, arrays: list, seeds: list) -> list:
    results = interpret(halves.forward, arrays)
    kept = [arrays[i] for i in halves.inputs] + results[len(graph.outputs) :]
    return interpret(halves.backward, [*kept, *seeds])


def layer(x: Value, w: Value) -> Value:
    return ops.tanh(matmul(x, w))


def test_halves_give_what_the_whole_gives() -> None:
    graph = build(lambda x, w: total(layer(layer(x, w), w)), MATRIX, MATRIX)
    arrays = point(graph)
    halves = pull_back(graph, [0, 1])
    verify(halves.forward)
    verify(halves.backward)
    seeds = [np.array(1.5)]
    found = run_halves(graph, halves, arrays, seeds)
    for one, other in zip(found, interpret(vjp_graph(graph, [0, 1]), arrays + seeds), strict=True):
        np.testing.assert_allclose(one, other)


def test_the_backward_half_does_not_repeat_products() -> None:
    graph = build(lambda x, w: layer(layer(x, w), w), MATRIX, MATRIX)
    halves = pull_back(graph, [0, 1])
    assert names(halves.forward).count("dot_general") == 2
    assert names(halves.backward).count("dot_general") == 4
    assert halves.residuals == 2


def test_element_wise_functions_of_inputs_are_made_again() -> None:
    graph = build(lambda x: ops.multiply(ops.sine(x), x), VECTOR)
    halves = pull_back(graph, [0])
    assert halves.residuals == 0
    assert halves.inputs == (0,)


def test_expensive_chains_are_kept() -> None:
    def chain(x: Value) -> Value:
        for _ in range(4):
            x = ops.sine(x)
        return x

    halves = pull_back(build(chain, VECTOR), [0])
    assert 0 < halves.residuals < 4


def test_broadcasts_are_not_kept() -> None:
    graph = build(
        lambda x, s: ops.multiply(
            x, ops.broadcast_in_dim(total(ops.sine(s)), shape=(1000,), dimensions=())
        ),
        ((1000,), "float64"),
        VECTOR,
    )
    halves = pull_back(graph, [0])
    assert [v.type.size for v in halves.backward.inputs] == [1, 1000]


def test_inputs_that_cost_memory_are_kept_only_where_read() -> None:
    graph = build(lambda x: ops.exponential(ops.negate(x)), VECTOR)
    halves = pull_back(graph, [0], free=[])
    assert (halves.inputs, halves.residuals) == ((), 1)


def test_an_output_without_dependence_gives_zeros() -> None:
    graph = build(lambda x, y: [ops.sine(x), ops.cosine(y)], VECTOR, VECTOR)
    halves = pull_back(graph, [0, 1], [0])
    x, y = point(graph)
    by_x, by_y = run_halves(graph, halves, [x, y], [np.ones(3)])
    np.testing.assert_allclose(by_x, np.cos(x))
    np.testing.assert_array_equal(by_y, np.zeros(3))


def test_push_forward_is_the_jacobian() -> None:
    graph = build(lambda x: ops.multiply(x, ops.sine(x)), VECTOR)
    (x,) = point(graph)
    halves = pull_back(graph, [0])
    tangent = np.arange(3.0)
    found = interpret(push_forward(halves), [x, tangent])[0]
    np.testing.assert_allclose(found, (np.sin(x) + x * np.cos(x)) * tangent)


def test_jvp_graph_of_several_outputs() -> None:
    graph = build(lambda x, y: [ops.multiply(x, y), x, ops.floor(y)], VECTOR, VECTOR)
    x, y = point(graph)
    s, t = point(graph, seed=1)
    results = interpret(jvp_graph(graph, [0, 1]), [x, y, s, t])
    wanted = [x * y, x, np.floor(y), s * y + x * t, s, np.zeros(3)]
    for one, other in zip(results, wanted, strict=True):
        np.testing.assert_allclose(one, other)
