"""Random programs, their second half in a loop or branch: sunk, split, differentiated, the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as run_settings
from hypothesis import strategies as st

from tests.optimizer.random_programs import Program, programs, settings
from tracer import ops
from tracer.autodiff import recompute_large, segment_scans, value_and_gradient
from tracer.ir import Builder, Graph, Value, copy_nodes, interpret, verify, verify_same_signature
from tracer.ops.helpers import scalar
from tracer.ops.rules import as_tuple
from tracer.ops.sink import sink_invariants
from tracer.optimizer.loops.split import SplitSettings, split_graph
from tracer.optimizer.passes import PassLog
from tracer.optimizer.rewrite.expand import expand_calls

TOLERANCE = 1e-9
INT32 = np.dtype(np.int32)
many = run_settings(max_examples=150)
some = run_settings(max_examples=60)
loops = st.sampled_from(["scan", "while", "case"])


def looped(graph: Graph, place: int, loop: str) -> Graph:
    """Return the graph with the nodes from `place` on in the body of a loop or in a branch."""
    place = min(place, len(graph.nodes))
    first, second = graph.nodes[:place], graph.nodes[place:]
    made = {value for node in second for value in node.results}
    read = [v for node in second for v in node.operands if v not in made]
    crossing = list(dict.fromkeys([*read, *(v for v in graph.outputs if v not in made)]))

    def inside(builder: Builder) -> list[Value]:
        values = {value: builder.input(value.type) for value in crossing}
        copy_nodes(builder, second, values)
        return [values[value] for value in graph.outputs]

    with Builder() as builder:
        values = {value: builder.input(value.type) for value in graph.inputs}
        copy_nodes(builder, first, values)
        given = [values[value] for value in crossing]
        emit = {"scan": _scan, "while": _while, "case": _case}[loop]
        return builder.finish(emit(given, inside, graph))


def _scan(given: list[Value], inside: Any, graph: Graph) -> list[Value]:
    """Carry the sums of the outputs over two steps."""
    with Builder() as builder:
        found = inside(builder)
        carry = [builder.input(value.type) for value in found]
        body = builder.finish([ops.add(c, f) for c, f in zip(carry, found, strict=True)])
    start = [_zeros(value) for value in graph.outputs]
    counts = {"num_consts": len(given), "num_carry": len(start), "reverse": False}
    return list(as_tuple(ops.scan(*given, *start, body=body, length=2, **counts)))


def _while(given: list[Value], inside: Any, graph: Graph) -> list[Value]:
    start = [scalar(0, INT32), *(_zeros(value) for value in graph.outputs)]
    with Builder() as builder:
        found = inside(builder)
        fixed = builder.inputs[:]
        state = [builder.input(value.type) for value in start]
        sums = [ops.add(s, f) for s, f in zip(state[1:], found, strict=True)]
        body = builder.finish([*fixed, ops.add(state[0], scalar(1, INT32)), *sums])
    with Builder() as builder:
        inputs = [builder.input(type) for type in body.input_types]
        count = inputs[len(given)]
        condition = builder.finish([ops.compare(count, scalar(2, INT32), direction="LT")])
    return list(ops.while_(*given, *start, condition=condition, body=body)[len(given) + 1 :])


def _case(given: list[Value], inside: Any, graph: Graph) -> list[Value]:
    with Builder() as builder:
        taken = builder.finish(inside(builder))
    with Builder() as builder:
        for value in given:
            builder.input(value.type)
        other = builder.finish([_zeros(value) for value in graph.outputs])
    return list(as_tuple(ops.case(scalar(1, INT32), *given, branches=(other, taken))))


def _zeros(value: Value) -> Value:
    return ops.broadcast_in_dim(scalar(0, value.dtype), shape=value.shape, dimensions=())  # type: ignore[no-any-return]


def assert_same(before: Graph, after: Graph, program: Program, tolerance: float) -> None:
    verify(after)
    verify_same_signature(before, after)
    expected = interpret(before, program.arrays)
    for got, want in zip(interpret(after, program.arrays), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.slow
@many
@given(programs("integer"), st.integers(1, 40), loops, st.sampled_from([0, 40, 400]), settings())
def test_sink_and_split(
    program: Program, place: int, loop: str, threshold: int, chosen: SplitSettings
) -> None:
    graph = looped(program.graph, place, loop)
    sunk = sink_invariants(graph, lambda type: type.nbytes > threshold)
    assert_same(graph, sunk, program, 0)
    expanded = expand_calls(graph, PassLog())
    sunk = sink_invariants(expanded, lambda type: type.nbytes > threshold)
    assert_same(graph, sunk, program, 0)
    split, _ = split_graph(sunk, chosen, PassLog())
    assert_same(graph, split, program, 0)


@some
@given(programs("smooth", maximum_steps=8), st.integers(1, 40), st.integers(0, 400), st.booleans())
def test_gradients(program: Program, place: int, threshold: int, in_segments: bool) -> None:
    graph = looped(program.graph, place, "scan")
    wrt = range(len(graph.inputs))
    before = value_and_gradient(graph, wrt)
    with recompute_large(threshold), segment_scans(in_segments):
        after = value_and_gradient(graph, wrt)
    assert_same(before, after, program, TOLERANCE)
