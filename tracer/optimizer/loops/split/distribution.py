"""Loop distribution: small results of a loop over steps come from a loop of their own.

A loop is cut along an axis only if each of its results has the axis, or is a sum along it. A count,
the time or a random key that is handed from step to step has none, and depends on no element. It is
computed once more in a loop beside (Kennedy & McKinley, "Loop Distribution with Arbitrary Control
Flow", 1990), which takes a small part of the memory and time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value, rebuild

_SMALL = 64
"""Values of so small a part of the largest one that a loop carries are no cost beside it."""


@dataclass(frozen=True)
class Part:
    """Some results of a loop, and the places of the carries that they depend on."""

    loop: Node
    results: tuple[Value, ...]
    places: tuple[int, ...]

    def write(self, operands: Sequence[Value]) -> list[Value]:
        """Write a loop of these carries into the current builder, and return the results."""
        kept = [operands[place] for place in self.places]
        condition, body = self.loop.params["condition"], self.loop.params["body"]
        carries = ops.while_(
            *kept,
            condition=self._graph(condition, condition.outputs),
            body=self._graph(body, [body.outputs[place] for place in self.places]),
        )
        found = dict(zip(self.places, carries, strict=True))
        return [found[result.index] for result in self.results]

    def _graph(self, whole: Graph, outputs: Sequence[Value]) -> Graph:
        """Return a graph that takes the carries that are kept and gives some of its outputs."""
        pruned = Graph(whole.inputs, outputs, whole.nodes)
        with Builder() as builder:
            kept = {place: builder.input(whole.input_types[place]) for place in self.places}
            # What is not kept is not read.
            anything = kept[self.places[0]]
            given = [kept.get(place, anything) for place in range(len(whole.inputs))]
            return builder.finish(builder.inline(pruned, given))


def small_part(loop: Node, results: Sequence[Value]) -> Part | None:
    """Return the part of a loop that gives those of its results that take little; None if none."""
    most = max(value.type.nbytes for value in loop.operands) // _SMALL
    may_be_small = [result for result in results if result.type.nbytes <= most]
    found = {result: _needed(loop, [result], most) for result in may_be_small}
    small = tuple(result for result, places in found.items() if places is not None)
    places = set[int]().union(*(found[result] or () for result in small))
    return Part(loop, small, tuple(sorted(places))) if small else None


def without_unread_carries(graph: Graph) -> Graph:
    """Return a graph whose loops carry only what those results depend on that something reads."""
    read = {value for node in graph.nodes for value in node.operands} | {*graph.outputs}

    def rewrite(_: Builder, node: Node, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        if node.op is not ops.while_ or node.has_effect:
            return None
        results = tuple(value for value in node.results if value in read)
        places = _needed(node, results) if results else None
        if places is None or len(places) == len(node.operands):
            return None
        part = Part(node, results, tuple(sorted(places)))
        found = dict(zip(results, part.write(operands), strict=True))
        # Nothing reads the others.
        return [found.get(value, operands[i]) for i, value in enumerate(node.results)]

    return rebuild(graph, rewrite)


def _needed(loop: Node, results: Sequence[Value], most: float = math.inf) -> set[int] | None:
    """Return the carries that results depend on; None if a step has values above `most` bytes.

    So none of the carries is large, but those that the loop hands on as they are.
    """
    condition, body = loop.params["condition"], loop.params["body"]
    new = {result.index for result in results} | _read(condition, condition.outputs)[0]
    needed = new
    while new:
        read, largest = _read(body, [body.outputs[place] for place in new])
        if largest > most:
            return None
        new = read - needed
        needed = needed | new
    return needed


def _read(graph: Graph, outputs: Sequence[Value]) -> tuple[set[int], int]:
    """Return which inputs some outputs depend on, and the bytes of the largest value in between."""
    pruned = Graph(graph.inputs, outputs, graph.nodes)
    values = {value for node in pruned.nodes for value in node.operands}.union(outputs)
    places = {place for place, value in enumerate(graph.inputs) if value in values}
    sizes = (type.nbytes for node in pruned.nodes for type in node.types)
    return places, max(sizes, default=0)


__all__ = ["Part", "small_part", "without_unread_carries"]
