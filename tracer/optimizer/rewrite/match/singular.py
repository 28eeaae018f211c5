"""Weights of pairs that may grow without bound as two points meet.

In `(x[:, None] - y[None]) * r ** -3` a small difference has a large weight. As products the two
sides are `r ** -3 * x` and `r ** -3 * y`, whose roundings are `R / r` times those of the
difference, for points at R from their centre. Weights such as `exp(-r ** 2)` are at most one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracer import ops
from tracer.ir import Node, Value
from tracer.optimizer.rewrite.simplify import constant_value

# A longer expression is not looked through.
_MAXIMUM_NODES = 200


def is_unbounded(weight: Value) -> bool:
    """Tell whether a weight is computed by a division, an inverse root or a logarithm of its pairs.

    True also where that would take long to say.

    Examples
    --------
    >>> from tracer.ir import Builder, ShapeDtype
    >>> with Builder() as builder:
    ...     x = builder.input(ShapeDtype((3, 3), "float32"))
    ...     is_unbounded(ops.divide(x, x)), is_unbounded(ops.exponential(x))
    (True, False)
    """
    nodes = list(_computing(weight))
    return len(nodes) >= _MAXIMUM_NODES or any(_is_pole(node, weight.type.size) for node in nodes)


def _computing(weight: Value) -> Iterator[Node]:
    """Yield the nodes that compute a value from smaller ones."""
    stack, seen = [weight], {weight}
    found = 0
    while stack and found < _MAXIMUM_NODES:
        found += 1
        value = stack.pop()
        yield value.node
        larger = {x for x in value.node.operands if x.type.size >= weight.type.size}
        stack += larger - seen
        seen |= larger


def _is_pole(node: Node, size: int) -> bool:
    if node.op in (ops.rsqrt, ops.log):
        return True
    if node.op is ops.power:
        exponent = _constant(node.operands[1])
        return exponent is None or bool((exponent < 0).any())
    return node.op is ops.divide and _varies(node.operands[1], size)


def _varies(divisor: Value, size: int) -> bool:
    """Tell whether a divisor has a number of its own for each pair."""
    is_spread = divisor.node.op is ops.broadcast_in_dim
    source = divisor.node.operands[0] if is_spread else divisor
    return source.type.size >= size and _constant(divisor) is None


def _constant(value: Value) -> np.ndarray | None:
    number = constant_value(value)
    if number is None and value.node.op is ops.broadcast_in_dim:
        number = constant_value(value.node.operands[0])
    return number


__all__ = ["is_unbounded"]
