"""Loops over steps as calls that *split* can cut: slices outside, the loop inside.

A loop of known length whose steps treat the elements of an axis alike and apart becomes a call of
its own (`ops.outlined_call`), whose axis rule says so. What is not cut is written out again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value
from tracer.ops.helpers import full
from tracer.ops.outlined import cut_axes
from tracer.ops.running_sums import running_sums
from tracer.optimizer.loops.split.distribution import Part, small_part
from tracer.optimizer.model.trip_counts import trip_count
from tracer.optimizer.passes import PassLog
from tracer.optimizer.rewrite.expand import expand_calls


def outlined(graph: Graph, is_large: Callable[[Node], bool]) -> Graph:
    """Return a graph whose large loops that can be cut are calls; itself if there are none."""
    read = {value for node in graph.nodes for value in node.operands} | {*graph.outputs}
    calls: dict[Node, _Call] = {}
    for node in graph.nodes:
        if (trip_count(node) or 0) > 1 and not node.has_effect and is_large(node):
            call = _call_of(node, [value for value in node.results if value in read])
            if call is not None:
                calls[node] = call
    if not calls:
        return graph
    with Builder() as builder:
        made = {value: builder.input(value.type, value.node.source) for value in graph.inputs}
        for node in graph.nodes:
            builder.source = node.source
            if node in calls:
                calls[node].write(made)
            else:
                given = tuple(made[value] for value in node.operands)
                made.update(zip(node.results, builder.copy(node, given), strict=True))
        return builder.finish([made[value] for value in graph.outputs])


@dataclass(frozen=True)
class _Call:
    """A loop as a call of its own, but for small results that a loop beside it gives."""

    results: list[Value]
    body: Graph
    operands: list[Value]
    beside: Part | None = None

    def write(self, made: dict[Value, Value]) -> None:
        """Write both into the current builder, and note their results."""
        found = ops.outlined_call(*(made[value] for value in self.operands), body=self.body)
        made.update(zip(self.results, found, strict=True))
        if self.beside is not None:
            operands = [made[value] for value in self.beside.loop.operands]
            made.update(zip(self.beside.results, self.beside.write(operands), strict=True))


def _call_of(loop: Node, used: list[Value]) -> _Call | None:
    """Return a call for a loop that can be cut as a whole, or without its small results."""
    beside = None
    body, operands = _outline(loop, used)
    if not cut_axes(body):
        beside = small_part(loop, used)
        if beside is None:
            return None
        used = [value for value in used if value not in beside.results]
        body, operands = _outline(loop, used)
    return _Call(used, body, operands, beside) if used and cut_axes(body) else None


def _outline(loop: Node, used: Sequence[Value]) -> tuple[Graph, list[Value]]:
    """Return a body that runs a loop, constants and all, and what it takes."""
    operands: list[Value] = []
    sums = {loop.operands[result.index] for result in running_sums(loop)}
    with Builder() as builder:
        builder.source = loop.source
        made: dict[Value, Value] = {}
        for value in loop.operands:
            if value in made:
                continue
            if value.node.op is ops.constant and value.shape == ():
                (made[value],) = builder.copy(value.node, ())
            elif value in sums:
                made[value] = full(0, value.type)
            else:
                operands.append(value)
                made[value] = builder.input(value.type)
        results = builder.copy(loop, tuple(made[value] for value in loop.operands))
        return builder.finish([results[value.index] for value in used]), operands


def written_out(graph: Graph) -> Graph:
    """Return a graph without calls: those that were not cut are loops again."""
    return expand_calls(graph, PassLog())


__all__ = ["outlined", "written_out"]
