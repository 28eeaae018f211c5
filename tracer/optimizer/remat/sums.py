"""Partial sums that XLA stores but also recomputes in several kernels: read the stored ones.

XLA stores a partial sum for a library call that reads it, and still recomputes it inside each
kernel that adds to it. So all addends stay alive until the last one, as in the gradient on the
residual stream of a Transformer, and none of their operands can be dropped. Behind a barrier the
stored sum is read instead: no additional operation, and one read instead of many.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value, rebuild
from tracer.optimizer.model.liveness import Liveness


def read_from_memory(live: Liveness) -> Liveness:
    """Return the model of the program that reads stored sums; the same if none changes."""

    def rewrite(
        builder: Builder, node: Node, operands: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        if node not in live.again:
            return None
        return ops.optimization_barrier(*builder.copy(node, operands))  # type: ignore[no-any-return]

    graph: Graph = rebuild(live.graph, rewrite)
    if graph is live.graph:
        return live
    found = Liveness(graph, live.donated, is_body=live.is_body)
    return found if found.peak_bytes <= live.peak_bytes else live


__all__ = ["read_from_memory"]
