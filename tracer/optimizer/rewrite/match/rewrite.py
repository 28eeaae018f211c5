"""Replace chosen nodes of a graph by other computations of the same values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tracer.ir import Builder, Graph, Node, Value

Replacement = Callable[[Mapping[Value, Value]], Sequence[Value]]
"""Emits the new results into the current builder, reading old values through the mapping."""


def replace_nodes(graph: Graph, replacements: Mapping[Node, Replacement]) -> Graph:
    """Return the graph with each node of `replacements` computed by its replacement."""
    if not replacements:
        return graph
    mapping: dict[Value, Value] = {}
    with Builder() as builder:
        for value in graph.inputs:
            mapping[value] = builder.input(value.type, value.node.source)
        for node in graph.nodes:
            builder.source = node.source
            if node in replacements:
                results = replacements[node](mapping)
            else:
                results = builder.copy(node, tuple([mapping[v] for v in node.operands]))
            mapping.update(zip(node.results, results, strict=True))
    return builder.finish([mapping[value] for value in graph.outputs])
