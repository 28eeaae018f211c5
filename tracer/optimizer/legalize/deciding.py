"""Which floats decide something: where the last digit of a number may change a result by more.

`sign(u * v - w)` is zero or one by a rounding, `floor(x / 49)` is 0 or 1, `log(u * v - w)` is
infinite or not, and equal numbers are sorted in another order. What such a value is computed from,
in the same kernel, decides too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracer import ops
from tracer.ir import Graph, Node, NotDifferentiable, Value
from tracer.ir.combining import NEGATION, SAME_ELEMENTS

_CHEAP_FLOPS = 4
"""Operations of an element of an op that gives zero for zeros, or passes one of its operands on."""


def deciding_values(graph: Graph) -> set[Value]:
    """Return the floats whose last digit may decide something.

    To steps (comparisons, roundings) everything counts that is computed in the same kernel. Jumps
    (`Op.jumps`: denominators, logarithms) are mostly at zero, so behind a transcendental function
    nothing counts. What a library computes in between is not followed.
    """
    steps: set[Value] = set()
    jumps: set[Value] = set()
    for node in reversed(graph.nodes):
        if node.op is None:
            continue
        is_fused = node.op.fusion != "opaque"
        if _is_step(node) or (is_fused and not steps.isdisjoint(node.results)):
            steps.update(node.operands)
        elif is_fused and _is_cheap(node) and not jumps.isdisjoint(node.results):
            jumps.update(node.operands)
        jumps.update(node.operands[place] for place in node.op.jumps)
    return {value for value in steps | jumps if value.dtype.kind == "f"}


def _is_step(node: Node) -> bool:
    """Tell whether the result of an op on floats is constant nearly everywhere, but not a zero."""
    assert node.op is not None
    if not any(type.dtype.kind == "f" for type in node.operand_types):
        return False
    # Of NaN and infinities a rounding makes the same.
    if node.op is ops.is_finite:
        return False
    if node.op is ops.compare:
        x, y = node.operands
        return x is not y and not any(is_constant(value, np.isinf) for value in (x, y))
    if node.op is ops.convert:
        return node.types[0].dtype.kind in "iub"
    return node.op is ops.sign or (isinstance(node.op.vjp, NotDifferentiable) and node.op.vjp.zero)


def _is_cheap(node: Node) -> bool:
    """Tell whether a zero of an operand may be a zero of the result."""
    sizes = (type.size for type in (*node.operand_types, *node.types))
    return node.cost.flops <= _CHEAP_FLOPS * max(sizes)


def is_move(node: Node) -> bool:
    """Tell whether a fused op gives elements of its operands, at other places or negated."""
    if node.op is None or node.op.fusion not in ("view", "loop"):
        return False
    return node.op.response in (SAME_ELEMENTS, NEGATION) or node.cost.flops == 0


def moved_from(value: Value) -> Value:
    """Return the value that the elements of a value come from."""
    while is_move(value.node) and len(value.node.operands) == 1:
        value = value.node.operands[0]
    return value


def is_repeated(value: Value) -> bool:
    """Tell whether elements of a value are repeated ones of another."""
    while is_move(value.node) and len(value.node.operands) == 1:
        (operand,) = value.node.operands
        if value.node.op is ops.broadcast_in_dim and operand.type.size < value.type.size:
            return True
        value = operand
    return False


def is_constant(value: Value, test: Callable[[Any], Any] = lambda x: True) -> bool:
    """Tell whether a value is known, and a test holds for all of its elements."""
    node = moved_from(value).node
    return node.op is ops.constant and bool(np.all(test(node.params["value"])))


def is_power_of_two(value: Value) -> bool:
    """Tell whether a product by a value is exact, as that is known to be powers of two."""
    return is_constant(value, lambda x: np.abs(np.frexp(x)[0]) == 0.5)


__all__ = [
    "deciding_values",
    "is_constant",
    "is_move",
    "is_power_of_two",
    "is_repeated",
    "moved_from",
]
