"""Exponentials of float64 on CPUs, computed as polynomials.

XLA:CPU's own takes about twice as long (`ops/exponential.py`; docs/memory-model.md has what was
measured). What XLA fuses must not change with it: an exponential is *expensive* to XLA, so it is
computed once and stored where several kernels read it, and additions and multiplications are not.
So one that is stored for kernels goes behind an optimization barrier; one that libraries read is
stored for them anyway, and one that a single kernel reads is computed inside of it. The polynomial
reads its operand several times, and where a kernel reduces or turns what it computes XLA takes
that for reading elements again (`FusionReusesParamElements`, xla/hlo/ir/hlo_instruction.cc): an
expensive operand would be stored. There the exponential stays XLA's.

Results are within a unit in the last place, as XLA's are, but may differ from these in that place.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value, rebuild
from tracer.ops.rules import as_tuple
from tracer.optimizer.liveness import Liveness
from tracer.optimizer.passes import Pass, PassLog
from tracer.optimizer.storage import is_expensive

_WHY_NOT = "XLA would store what it is computed from, as a polynomial reads that several times"


def expand_exponentials(graph: Graph, log: PassLog) -> Graph:
    """Write float64 exponentials as polynomials, and keep stored what XLA stores of them."""
    if not any(map(_is_slow, graph.nodes)):
        return graph
    live = Liveness(graph)

    def rewrite(
        builder: Builder, node: Node, operands: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        if not _is_slow(node):
            return None
        if _stores_operand(live, node):
            log.refuse(f"{node.types[0]} of {node.name}", _WHY_NOT, node.source)
            return None
        log.applied.append(f"{node.types[0]} of {node.name}")
        result = ops.polynomial_exponential(*operands)
        if _is_stored_for_kernels(live, node):
            return as_tuple(ops.optimization_barrier(result))
        return as_tuple(result)

    return rebuild(graph, rewrite)


def _is_slow(node: Node) -> bool:
    return node.op is ops.exponential and node.types[0].dtype == np.float64


def _stores_operand(live: Liveness, node: Node) -> bool:
    """Tell whether XLA would store what the exponential is computed from, which it does not now."""
    if node in live.stored or _is_read_in_order(live, node):
        return False
    return any(is_expensive(item) for item in live.kernels(node) if item is not node)


def _is_read_in_order(live: Liveness, node: Node) -> bool:
    """Tell whether the kernel that reads a value writes each element at the place of its own."""
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
    """Tell whether a value is stored, and read by what could compute it again."""
    if node not in live.stored:
        return False
    return any(user.op and user.op.fusion != "opaque" for user in live._readers(node))


EXPAND_EXPONENTIALS = Pass("expand exponentials", expand_exponentials, exact=False)

__all__ = ["EXPAND_EXPONENTIALS", "expand_exponentials"]
