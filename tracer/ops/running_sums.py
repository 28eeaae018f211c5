"""What a loop adds up from zero, and of which sums: slices of them add up to a part of it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from tracer.ir import Node, Value
from tracer.ir.combining import NEGATION, SAME_ELEMENTS
from tracer.ops.binary import add, subtract
from tracer.ops.compare import convert
from tracer.ops.create import constant
from tracer.ops.helpers import splat_of
from tracer.ops.join import pad
from tracer.ops.rules import dtype_kind, is_inexact


def running_sums(loop: Node) -> dict[Value, list[Node]]:
    """Return the results of a loop that are sums of what some nodes of its body give.

    Such a carry begins as zeros and is a sum of itself and of these terms in each step: linear in
    them. Nothing else reads it or the terms. Negated or moved elements, or zeros beside them, are
    the same. What a loop of known length tests is its counter.
    """
    body = loop.params["body"]
    uses = Counter(value for node in body.nodes for value in node.operands)
    uses.update(body.outputs)
    found = {}
    for place, carry in enumerate(body.inputs):
        if _is_zero(loop.operands[place]):
            terms = _terms(body.outputs[place], carry, uses)
            if terms:
                found[loop.results[place]] = terms
    return found


def _is_zero(value: Value) -> bool:
    """Tell whether a value is known to be zeros."""
    node = (splat_of(value) or value).node
    return node.op is constant and not np.any(node.params["value"])


def _terms(total: Value, carry: Value, uses: Counter[Value]) -> list[Node] | None:
    """Return the terms of a sum that has all there is of the carry; None if it is no such sum."""
    stack, terms, carries = [total], [], 0
    while stack:
        value = stack.pop()
        if value is carry:
            carries += 1
            continue
        node = value.node
        if node.op is None or uses[value] != 1 or len(node.results) != 1:
            return None
        if node.op in (add, subtract):
            stack += node.operands
        elif _keeps_sums(node):
            stack.append(node.operands[0])
        else:
            terms.append(node)
    return terms if carries == uses[carry] else None


def _keeps_sums(node: Node) -> bool:
    """Tell whether a node gives, of a sum, the sum of what it gives of the terms."""
    if node.op is pad:
        return _is_zero(node.operands[1])
    if node.op is convert:
        return _converts_sums(node.operands[0].dtype, node.types[0].dtype)
    assert node.op is not None
    return node.op.response in (SAME_ELEMENTS, NEGATION) and len(node.operands) == 1


def _converts_sums(before: np.dtype[Any], after: np.dtype[Any]) -> bool:
    """Tell whether a sum is converted to the sum of the converted terms, but for rounding.

    Fractions are cut off, and what wrapped around in few bits is another number in more.
    """
    if is_inexact(before) or is_inexact(after):
        return is_inexact(before) and is_inexact(after)
    are_integers = dtype_kind(before) in "iu" and dtype_kind(after) in "iu"
    return are_integers and after.itemsize <= before.itemsize
