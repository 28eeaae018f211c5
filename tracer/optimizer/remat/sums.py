"""Partial sums that XLA stores but also recomputes in several kernels: read the stored ones.

XLA stores a partial sum for a library call that reads it, and still recomputes it inside each
kernel that adds to it. So all addends stay alive until the last one, as in the gradient on the
residual stream of a Transformer, and none of their operands can be dropped. Behind a barrier the
stored sum is read instead: no additional operation, and one read instead of many.
"""

from __future__ import annotations

from tracer.optimizer.barriers import with_stored
from tracer.optimizer.model.liveness import Liveness


def read_from_memory(live: Liveness) -> Liveness:
    """Return the model of the program that reads stored sums; the same if none changes."""
    graph = with_stored(live.graph, live.again)
    if graph is live.graph:
        return live
    found = Liveness(graph, live.donated, is_body=live.is_body)
    return found if found.peak_bytes <= live.peak_bytes else live


__all__ = ["read_from_memory"]
