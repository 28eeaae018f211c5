"""What a broadcast repeats is stored, where the device's compiler would compute it again.

XLA:CPU fuses cheap element-wise ops into whatever reads them. Behind a broadcast they are computed
again for each element of its result: `logsumexp((-0.5 * (a + b - c))[:, None] - cost, axis=0)`
takes 1.6 times as long as with the vector at hand (1500 x 1500, docs/memory-model.md).
"""

from __future__ import annotations

from collections.abc import Sequence

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value, fused_flops, rebuild
from tracer.optimizer.passes import Pass, PassLog
from tracer.target import Target


def stored_broadcasts_pass(target: Target) -> Pass:
    """Return the pass that stores the operands of broadcasts for a target."""
    return Pass(
        "store broadcast operands",
        lambda graph, log: _with_stored(target, graph, log),
        writes_out_cost=True,
    )


def _with_stored(target: Target, graph: Graph, log: PassLog) -> Graph:
    def rewrite(
        builder: Builder, node: Node, operands: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        if node.op is not ops.broadcast_in_dim or not _is_worthwhile(target, node):
            return None
        log.applied.append(f"{node.operand_types[0]} for {node.types[0]}")
        return builder.copy(node, ops.optimization_barrier(*operands))

    return rebuild(graph, rewrite)


def _is_worthwhile(target: Target, node: Node) -> bool:
    rules, x, size = target.broadcasts, node.operands[0], node.types[0].size
    assert rules is not None, "the table asks before"
    if not target.kernels.least_barrier_bytes <= x.type.nbytes <= rules.largest_bytes:
        return False
    if size < rules.repetitions * x.type.size:
        return False
    return size * fused_flops(x) >= rules.worthwhile_flops


__all__ = ["stored_broadcasts_pass"]
