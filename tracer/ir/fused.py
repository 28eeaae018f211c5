"""What is computed together with what reads a value, as the ops' records tell it."""

from __future__ import annotations

from tracer.ir.graph import Node, Value


def fused_flops(value: Value, *, enough: int = 1 << 30) -> int:
    """Return the operations for each element that are fused into what reads a value.

    Counting ends when there are more than `enough`.
    """
    flops = 0
    seen: set[Node] = set()
    stack = [value.node]
    while stack and flops <= enough:
        node = stack.pop()
        if node in seen or node.op is None or node.op.fusion not in ("loop", "view"):
            continue
        seen.add(node)
        flops += node.cost.flops // max(1, node.types[0].size)
        stack.extend(operand.node for operand in node.operands)
    return flops


__all__ = ["fused_flops"]
