"""Exponentials of float64 on CPUs, computed as polynomials.

They are faster than XLA:CPU's own (`ops/exponential.py`; measurements in docs/memory-model.md). But
XLA must keep storing and fusing the same values. An exponential is *expensive* to XLA, so it is
computed once and stored if several kernels read it; additions and multiplications are not. So:

* An exponential stored for kernels goes behind an optimization barrier. One that libraries read is
  stored for them anyway. One that a single kernel reads is fused into it.
* The polynomial reads its operand several times. In a kernel that reduces or transposes, XLA takes
  this for reading elements repeatedly (`FusionReusesParamElements`, xla/hlo/ir/hlo_instruction.cc)
  and would store an expensive operand. There the exponential stays XLA's.
* It also stays XLA's where it is stored for kernels in small calls, or for a few bytes in loops,
  because no barriers are placed there.

Results are within 1.1 units in the last place (XLA's own: 1.6). XLA's rules for exponentials do not
match them: `exp(a) * exp(b)` overflows where NumPy's does, and does not become `exp(a + b)`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value, map_bodies, rebuild
from tracer.ops.rules import as_tuple
from tracer.optimizer.model.liveness import Liveness
from tracer.optimizer.model.storage import is_expensive
from tracer.optimizer.passes import Pass, PassLog
from tracer.target.record import LEAST_BARRIER_BYTES


def has_exponentials(graph: Graph) -> bool:
    """Tell whether there is anything to expand, in bodies too."""
    return any(
        _is_slow(node) or any(map(has_exponentials, node.body_graphs)) for node in graph.nodes
    )


def expand_exponentials(graph: Graph, log: PassLog, smallest: float = 0) -> Graph:
    """Write float64 exponentials as polynomials, and keep stored those that XLA stores.

    Parameters
    ----------
    graph : Graph
    log : PassLog
    smallest : float
        Barriers around fewer bytes are left out when this graph is lowered.
    """
    calls = {id(body) for node in graph.nodes if _is_call(node) for body in node.body_graphs}

    def in_body(body: Graph) -> Graph:
        lower = math.inf if id(body) in calls else max(smallest, LEAST_BARRIER_BYTES)
        return expand_exponentials(body, log, lower)

    graph = map_bodies(graph, in_body)
    if not any(map(_is_slow, graph.nodes)):
        return graph
    live = Liveness(graph)

    def rewrite(
        builder: Builder, node: Node, operands: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        if not _is_slow(node):
            return None
        subject = f"{node.types[0]} of {node.name}"
        is_shared = _is_stored_for_kernels(live, node)
        reason = _why_not(live, node, is_shared and node.types[0].nbytes < smallest)
        if reason is not None:
            log.refuse(subject, reason, node.source)
            return None
        log.applied.append(subject)
        result = ops.polynomial_exponential(*operands)
        return as_tuple(ops.optimization_barrier(result) if is_shared else result)

    return rebuild(graph, rewrite)


def _why_not(live: Liveness, node: Node, lacks_barrier: bool) -> str | None:
    if lacks_barrier:
        return "kernels would recompute it, because so small a loop can hold no barrier"
    if _stores_operand(live, node):
        return "XLA would store what it is computed from, as a polynomial reads that several times"
    return None


def _is_slow(node: Node) -> bool:
    return node.op is ops.exponential and node.types[0].dtype == np.float64


def _is_call(node: Node) -> bool:
    return node.op is ops.small_call


def _stores_operand(live: Liveness, node: Node) -> bool:
    """Tell whether XLA would start to store the exponential's operand."""
    if node in live.stored or _is_read_in_order(live, node):
        return False
    return any(is_expensive(item) for item in live.kernels(node) if item is not node)


def _is_read_in_order(live: Liveness, node: Node) -> bool:
    """Tell whether the kernel that reads a value writes each element at the same position."""
    stack, seen = [node], {node}
    while stack:
        current = stack.pop()
        for user in live._readers(current):
            places = [i for i, value in enumerate(user.operands) if value.node is current]
            assert user.op is not None
            if not set(places) <= set(user.op.reuses):
                return False
            if user not in live.stored and user not in seen:
                seen.add(user)
                stack.append(user)
    return True


def _is_stored_for_kernels(live: Liveness, node: Node) -> bool:
    """Tell whether a value is stored, and read by kernels that could recompute it."""
    if node not in live.stored:
        return False
    return any(user.op and user.op.fusion != "opaque" for user in live._readers(node))


EXPAND_EXPONENTIALS = Pass("expand exponentials", expand_exponentials, exact=False, bodies=False)

__all__ = [
    "EXPAND_EXPONENTIALS",
    "expand_exponentials",
    "has_exponentials",
]
