"""The peak model's buffers under the independent checker, and that the checker finds overlaps."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracer
import tracer.numpy as tnp
from tests.optimizer.alias.alias_checker import Memory
from tests.optimizer.graphs import traced
from tests.optimizer.random_programs import programs
from tracer.ir import Graph, Value
from tracer.optimizer.model.buffers import Buffer, move_into_results
from tracer.optimizer.model.liveness import Liveness
from tracer.optimizer.passes import PassManager
from tracer.optimizer.pipeline import STANDARD_PASSES

MATRIX, VECTOR = ((8, 6), "float64"), ((6,), "float64")


def memory_of(graph: Graph, donated: frozenset[int], *, is_body: bool = False) -> Memory:
    """Return the model's assignment: buffers, and temporaries that lie in later results."""
    live = Liveness(graph, donated, is_body=is_body)
    buffers: dict[Value, Any] = dict(live.buffers)
    end = len(graph.nodes)
    own = [buffer for buffer in dict.fromkeys(buffers.values()) if not buffer.is_argument]
    results = [buffer for buffer in own if buffer.death >= end]
    rest = [buffer for buffer in own if buffer.death < end]
    places = {} if is_body else move_into_results(rest, results)
    return Memory(graph, live.schedule, {v: places.get(b, b) for v, b in buffers.items()})


def conflicts(graph: Graph, donated: frozenset[int], *, is_body: bool = False) -> list[str]:
    kept = [value for i, value in enumerate(graph.inputs) if i not in donated]
    found = list(memory_of(graph, donated, is_body=is_body).conflicts(kept))
    for node in graph.nodes:
        for body in node.body_graphs:
            found += conflicts(body, frozenset(range(len(body.inputs))), is_body=True)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["integer", "float", "smooth"])
@settings(max_examples=60)
@given(data=st.data())
def test_random_programs_have_no_overlap(kind: str, data: Any) -> None:
    graph = data.draw(programs(kind, maximum_steps=20)).graph
    donated = frozenset(i for i in range(len(graph.inputs)) if data.draw(st.booleans()))
    assert conflicts(graph, donated) == []


@settings(max_examples=60)
@given(program=programs("integer", maximum_steps=14))
def test_kernels_write_only_over_what_they_read_in_place(program: Any) -> None:
    graph = program.graph
    memory = memory_of(graph, frozenset(range(len(graph.inputs))))
    arrays = dict(zip(graph.inputs, program.arrays, strict=True))
    for node in graph.nodes:
        assert node.op is not None
        found = node.op.evaluate(*[arrays[x] for x in node.operands], **node.params)
        arrays.update(
            zip(node.results, found if isinstance(found, tuple) else (found,), strict=True)
        )
    stored = {value: array for value, array in arrays.items() if value in memory.buffers}
    for node, leaf in memory.overwritten():
        assert not memory.depends_elsewhere(node, leaf, stored)


def loop(x: Any, y: Any) -> Any:
    def step(carry: Any, row: Any) -> Any:
        x, total = carry
        return (x.at[0].add(row), total + x.sum()), tnp.exp(row)

    return tracer.scan(step, (x, 0.0), tnp.broadcast_to(y, (5, 6)) + x[:5])


def training(x: Any, y: Any) -> Any:
    def step(i: Any, w: Any) -> Any:
        return w - 0.1 * tracer.grad(lambda w: ((x @ w) ** 2).sum())(w)

    return tracer.fori_loop(0, 3, step, y), x.sum()


def nested(x: Any, y: Any) -> Any:
    inner = lambda i, z: tnp.where(z > i, z.sum(), tracer.fori_loop(0, 2, lambda j, q: q * j, z))
    return tracer.fori_loop(0, 4, inner, y), x + 1, y


@pytest.mark.parametrize("function", [loop, training, nested])
@pytest.mark.parametrize("donated", [(), (0,), (1,), (0, 1)])
def test_loops_have_no_overlap(function: Any, donated: Any) -> None:
    graph = PassManager().run(traced(function, MATRIX, VECTOR), STANDARD_PASSES)
    assert any(node.bodies for node in graph.nodes)
    assert conflicts(graph, frozenset(donated)) == []


# The checker itself


def chain() -> tuple[Graph, Memory]:
    graph = traced(lambda x: tnp.sort(tnp.sort(x, axis=0) * 2, axis=1) + x, MATRIX)
    return graph, memory_of(graph, frozenset())


def test_the_checker_finds_an_argument_that_is_written_over_too_early() -> None:
    graph, memory = chain()
    (x,) = graph.inputs
    first = next(value for value in memory.buffers if value is not x)
    shared = Memory(graph, memory.kernels, {**memory.buffers, first: memory.buffers[x]})
    found = list(shared.conflicts([x]))
    assert any("reads" in line for line in found)
    assert any("gone at the end" in line for line in found)


def test_the_checker_finds_two_results_in_one_buffer() -> None:
    graph = traced(lambda x: (tnp.sort(x, axis=0), tnp.sort(x, axis=1)), MATRIX)
    memory = memory_of(graph, frozenset())
    one = Buffer(0, 0, 0)
    places = {v: memory.buffers[v] if v in graph.inputs else one for v in memory.buffers}
    assert list(Memory(graph, memory.kernels, places).conflicts())


@pytest.mark.xla
def test_the_checker_finds_a_kernel_that_reads_what_it_wrote() -> None:
    graph = traced(lambda x: x[::-1] + x, MATRIX)
    (x,) = graph.inputs
    one = Buffer(0, 0, 0)
    kernel = graph.outputs[0].node
    memory = Memory(graph, [kernel], {x: one, graph.outputs[0]: one})
    assert list(memory.overwritten()) == [(kernel, x)]
    values = {x: tnp.arange(48.0).reshape(8, 6).__array__()}
    assert memory.depends_elsewhere(kernel, x, values)
    (negated,) = traced(lambda x: -x, MATRIX).outputs
    (y,) = (value for value in negated.node.operands)
    plain = Memory(traced(lambda x: -x, MATRIX), [negated.node], {y: one, negated: one})
    assert not plain.depends_elsewhere(negated.node, y, {y: values[x]})
