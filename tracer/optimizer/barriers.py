"""Values are stored by an optimization barrier behind them, which nothing is fused across."""

from __future__ import annotations

from collections.abc import Container, Sequence

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value, rebuild


def with_stored(graph: Graph, nodes: Container[Node]) -> Graph:
    """Return a graph in which the results of nodes have memory of their own."""

    def rewrite(
        builder: Builder, node: Node, operands: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        if node not in nodes:
            return None
        return ops.optimization_barrier(*builder.copy(node, operands))  # type: ignore[no-any-return]

    return rebuild(graph, rewrite)


__all__ = ["with_stored"]
