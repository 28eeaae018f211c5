"""Conditions of rules. A guard returns the reason for a refusal, or None."""

from __future__ import annotations

import enum

import numpy as np

import tracer.numpy as tnp
from tracer import ops
from tracer.ir import Value
from tracer.ops.rules import dtype_kind
from tracer.optimizer.rewrite.match.rule import Bound
from tracer.optimizer.rewrite.match.sign import is_nonnegative
from tracer.optimizer.rewrite.match.structure import seen_through
from tracer.optimizer.rewrite.rules.notation import Expression
from tracer.optimizer.rewrite.rules.places import producers
from tracer.optimizer.rewrite.simplify import constant_value


def real_floating(bound: Bound) -> str | None:
    """Refuse dtypes for which only the exact form of an identity holds, or another one."""
    for leaf in bound.leaves:
        if dtype_kind(leaf.dtype) != "f":
            return f"{leaf.dtype} is not a real floating type"
    return None


def inexact(bound: Bound) -> str | None:
    """Refuse integers and truth values."""
    for leaf in bound.leaves:
        if dtype_kind(leaf.dtype) not in "fc":
            return f"{leaf.dtype} is neither a floating nor a complex type"
    return None


def few_of_many(bound: Bound) -> str | None:
    """Refuse counts for which a sort is as fast; docs/rules.md has the times.

    XLA has a selection of its own for float32 and keeps a heap for other types.
    """
    (values,), k = bound.leaves, bound.numbers["k"]
    if dtype_kind(values.dtype) not in "fiu":
        return f"{values.dtype} has no order"
    share = 8 if values.dtype == np.float32 else 256
    if share * k > values.shape[-1]:
        return f"to sort {values.type} is as fast as to find {k}"
    return None


def not_shifted(bound: Bound) -> str | None:
    """Refuse a difference from something with a maximum in it: that is stable already."""
    value = seen_through(bound.leaves[0])
    if value.node.op is ops.subtract:
        for node in producers(value.node.operands[1]):
            if node.op is ops.reduce_maximum:
                return "it is shifted by a maximum already"
    return None


def not_enlarged(bound: Bound) -> str | None:
    """Refuse values that are computed inside of their consumer from smaller ones.

    A second pass over them would store them, or compute them twice.
    """
    stack = [bound.leaves[0]]
    while stack:
        value = stack.pop()
        node = value.node
        if node.op is None or node.op.fusion not in ("loop", "view"):
            continue
        for operand in node.operands:
            if 1 < operand.type.size < value.type.size:
                return f"{value.type} is made of {operand.type} and need not be stored as it is"
            stack.append(operand)
    return None


def known_triangular(bound: Bound) -> str | None:
    """Demand that the first leaf is lower triangular by the way it is made."""
    value = seen_through(bound.leaves[0])
    if value.node.op is ops.cholesky or _LOWER.leaves_at(value) is not None:
        return None
    return "the factor is not known to be lower triangular"


def known_positive(bound: Bound) -> str | None:
    """Demand that the first leaf is symmetric and positive definite by the way it is made."""
    if _definiteness(seen_through(bound.leaves[0])) is _Definiteness.DEFINITE:
        return None
    return "the matrix is not known to be symmetric and positive definite"


def not_cancelling(bound: Bound) -> str | None:
    """Refuse to take a shift apart from a matrix whose diagonal it may cancel.

    `(A - 1e6 * eye(n)) @ b` of a diagonal near 1e6 is exact up to the product; `A @ b - 1e6 * b`
    has lost six digits.
    """
    matrix, shift = (seen_through(leaf) for leaf in bound.leaves[:2])
    if dtype_kind(matrix.dtype) in "biu":
        return None
    has_sign = is_nonnegative(matrix) or _definiteness(matrix) > _Definiteness.UNKNOWN
    if has_sign and is_nonnegative(shift):
        return None
    return "the shift may cancel the diagonal"


class _Definiteness(enum.IntEnum):
    UNKNOWN = 0
    SEMI = 1
    DEFINITE = 2


_LOWER = Expression([tnp.tril], ["ij", "ii"])
_GRAM = Expression([lambda x: x @ x.T, lambda x: x.T @ x], ["ij"])
_SUM = Expression([lambda a, b: a + b], ["ij ij"])
_SCALED = Expression([lambda a, c: a * c, lambda a, c: a / c], ["ij ."])


def _definiteness(value: Value) -> _Definiteness:
    """Read X X^T as semi-definite, c I as definite, and positive multiples and sums of these."""
    if _is_positive_identity(value):
        return _Definiteness.DEFINITE
    if _GRAM.leaves_at(value) is not None:
        return _Definiteness.SEMI
    parts = _SUM.leaves_at(value)
    if parts is not None:
        found = [_definiteness(seen_through(part)) for part in parts]
        return max(found) if min(found) > _Definiteness.UNKNOWN else _Definiteness.UNKNOWN
    scaled = _SCALED.leaves_at(value)
    if scaled is not None and _is_positive_number(scaled[1]):
        return _definiteness(seen_through(scaled[0]))
    return _Definiteness.UNKNOWN


def _is_positive_identity(value: Value) -> bool:
    n = value.shape[0] if value.type.ndim == 2 else 0
    identity = Expression([lambda: tnp.eye(n, dtype=value.dtype)], [""])
    if identity.leaves_at(value) is not None:
        return True
    multiple = Expression([lambda c: c * tnp.eye(n, dtype=c.dtype)], ["."])
    found = multiple.leaves_at(value)
    return found is not None and _is_positive_number(found[0])


def _is_positive_number(value: Value) -> bool:
    number = constant_value(value)
    return number is not None and bool(np.all(number > 0))  # one for each of a stack
