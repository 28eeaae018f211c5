"""What a broadcast repeats is stored, where the device's compiler would compute it again.

XLA:CPU fuses cheap element-wise ops into whatever reads them. Behind a broadcast they are computed
again for each element of its result: `logsumexp((-0.5 * (a + b - c))[:, None] - cost, axis=0)`
takes 1.6 times as long as with the vector at hand (1500 x 1500, docs/memory-model.md).

Products that are repeated and then subtracted are stored for their values. LLVM contracts
`u * u - v` to one rounding, in each kernel in its own way, so `abs(w[:, None] - w)` with
`w = u * u` was positive or negative on its diagonal, and its gradient was wrong by up to two for
each tie. Of stored products the difference of equal ones is zero.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value, fused_flops, rebuild
from tracer.ir.combining import SAME_ELEMENTS
from tracer.ops.rules import is_inexact
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
    tested = _tested_products(graph)

    def rewrite(
        builder: Builder, node: Node, operands: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        if node.op is not ops.broadcast_in_dim:
            return None
        if node not in tested and not _is_worthwhile(target, node):
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


def _tested_products(graph: Graph) -> set[Node]:
    """Return the broadcasts that repeat products which are added or subtracted, then compared."""
    values = (value for node in _tested_sums(graph) for value in node.operands)
    return {node for node in map(_repeated_product, values) if node is not None}


def _tested_sums(graph: Graph) -> list[Node]:
    """Return the sums and differences of floats whose order or sign decides something.

    What is computed of one in the same kernel is followed.
    """
    reaches: set[Value] = set()
    found = []
    for node in reversed(graph.nodes):
        is_test = node.op in (ops.compare, ops.sign) and is_inexact(node.operand_types[0].dtype)
        is_reached = any(value in reaches for value in node.results)
        if is_reached and node.op in (ops.add, ops.subtract):
            found.append(node)
        if is_test or (is_reached and node.op is not None and node.op.fusion == "loop"):
            reaches.update(node.operands)
    return found


def _repeated_product(value: Value) -> Node | None:
    """Return the first broadcast of the product of floats that a value's elements come of."""
    node, repeated = value.node, None
    while node.op is not None and node.op.response == SAME_ELEMENTS and len(node.operands) == 1:
        if node.op is ops.broadcast_in_dim and node.operand_types[0].size < node.types[0].size:
            repeated = node
        node = node.operands[0].node
    return repeated if node.op is ops.multiply and is_inexact(value.dtype) else None


__all__ = ["stored_broadcasts_pass"]
