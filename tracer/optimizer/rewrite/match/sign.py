"""What is known about a value's sign from the expression that computes it."""

from __future__ import annotations

from collections.abc import Callable

from tracer import ops
from tracer.ir import Node, Op, Value
from tracer.optimizer.rewrite.simplify import constant_value

# Longer chains are not followed: the answer is then "not known".
_MAXIMUM_DEPTH = 20


def is_nonnegative(value: Value, depth: int = 0) -> bool:
    """Tell whether a real value is known to be zero or more (or NaN) everywhere.

    Examples
    --------
    >>> from tracer.ir import Builder, ShapeDtype
    >>> with Builder() as builder:
    ...     x = builder.input(ShapeDtype((3,), "float32"))
    ...     is_nonnegative(ops.multiply(x, x)), is_nonnegative(x)
    (True, False)
    """
    node = value.node
    rule = _RULES.get(node.op) if node.op is not None and depth < _MAXIMUM_DEPTH else None
    return rule is not None and rule(node, depth + 1)


def _all(node: Node, depth: int) -> bool:
    return all(is_nonnegative(operand, depth) for operand in node.operands)


def _product(node: Node, depth: int) -> bool:
    return node.operands[0] is node.operands[1] or _all(node, depth)


def _power(node: Node, depth: int) -> bool:
    base, exponent = node.operands
    number = constant_value(exponent)
    if number is None and exponent.node.op is ops.broadcast_in_dim:
        number = constant_value(exponent.node.operands[0])
    is_even = number is not None and bool((number % 2 == 0).all())
    return is_even or is_nonnegative(base, depth)


def _constant(node: Node, depth: int) -> bool:
    return bool((node.params["value"] >= 0).all())


def _always(node: Node, depth: int) -> bool:
    return True


_RULES: dict[Op, Callable[[Node, int], bool]] = {
    ops.abs: _always,
    ops.exponential: _always,
    ops.logistic: _always,
    ops.multiply: _product,
    ops.power: _power,
    ops.divide: _all,
    ops.add: _all,
    ops.maximum: lambda node, depth: any(is_nonnegative(x, depth) for x in node.operands),
    ops.broadcast_in_dim: _all,
    ops.reshape: _all,
    ops.reduce_add: _all,
    ops.constant: _constant,
}
