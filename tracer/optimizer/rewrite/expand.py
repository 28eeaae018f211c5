"""Replace ops that matter only to differentiation by the ops they consist of."""

from __future__ import annotations

from collections.abc import Sequence

from tracer.ir import Builder, Graph, Node, Value, rebuild
from tracer.optimizer.passes import Pass, PassLog


def expand_calls(graph: Graph, log: PassLog) -> Graph:
    """Write ops that have an expansion with other ops, until none is left."""
    while True:

        def rewrite(
            builder: Builder, node: Node, operands: tuple[Value, ...]
        ) -> Sequence[Value] | None:
            if node.op is None or node.op.expand is None:
                return None
            log.applied.append(f"{node.name} {node.types[0]}")
            return node.op.expand(*operands, **node.params)

        result = rebuild(graph, rewrite)
        if result is graph:
            return graph
        graph = result


EXPAND = Pass("expand", expand_calls)
