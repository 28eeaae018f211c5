"""What ops store besides their results, as a long reduction its partial results, is cut too.

An argument is no op, and has no axis rule from which a region could grow. Where an op reads one and
stores much besides, it reads a view of it instead, which the compiler drops again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value, rebuild
from tracer.optimizer.model.costs import counted_scratch


def large_scratch(graph: Graph, threshold_bytes: int) -> dict[Node, int]:
    """Return what nodes store besides their results, in bytes, where it is above a threshold."""
    nodes = (node for node in graph.nodes if node.op is not None and not node.bodies)
    scratch = ((node, counted_scratch(node)) for node in nodes)
    return {node: nbytes for node, nbytes in scratch if nbytes > threshold_bytes}


def with_views_of_inputs(graph: Graph, threshold_bytes: int) -> Graph:
    """Return the graph where ops with large scratch read views of its inputs, which can be cut."""
    views: dict[Value, Value] = {}

    def view(value: Value) -> Value:
        if value.node.op is not None or value.type.nbytes <= threshold_bytes:
            return value
        if value not in views:
            views[value] = ops.reshape(value, shape=value.type.shape)
        return views[value]

    def rewrite(
        builder: Builder, node: Node, operands: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        if node not in large:
            return None
        return builder.copy(node, tuple(map(view, operands)))

    large = large_scratch(graph, threshold_bytes)
    reads_input = any(value.node.op is None for node in large for value in node.operands)
    return rebuild(graph, rewrite) if reads_input else graph


def views_of_inputs(nodes: Iterable[Node]) -> set[Node]:
    """Return the views of inputs that some nodes read."""
    read = {value.node for node in nodes for value in node.operands}
    return {node for node in read if node.op is ops.reshape and node.operands[0].node.op is None}


__all__ = ["large_scratch", "views_of_inputs", "with_views_of_inputs"]
