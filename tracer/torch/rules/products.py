"""Rules of matrix products."""

from __future__ import annotations

from typing import Any

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import convert
from tracer.array.dispatch import apply
from tracer.numpy.ufunc import full_like
from tracer.torch.rules.operands import operand
from tracer.torch.table import Node, rule


def matrix_product(x: Array, y: Array) -> Array:
    """Multiply matrices; the axes before the last two run together."""
    batch = tuple(range(x.ndim - 2))
    return apply(
        ops.dot_general,
        x,
        y,
        lhs_batch=batch,
        rhs_batch=batch,
        lhs_contracting=(x.ndim - 1,),
        rhs_contracting=(y.ndim - 2,),
    )


@rule("mm", "bmm")
def multiply_matrices(node: Node, x: Array, y: Array) -> Array:
    """Multiply matrices."""
    return matrix_product(x, y)


@rule("mv", "dot")
def multiply_vector(node: Node, x: Array, y: Array) -> Array:
    """Multiply a matrix or vector with a vector."""
    return apply(
        ops.dot_general,
        x,
        y,
        lhs_batch=(),
        rhs_batch=(),
        lhs_contracting=(x.ndim - 1,),
        rhs_contracting=(0,),
    )


@rule("addmm", "baddbmm")
def add_product(
    node: Node, bias: Array, x: Array, y: Array, *, beta: Any = 1, alpha: Any = 1
) -> Array:
    """Add `beta` times an array to `alpha` times a product; for 0 the array is not looked at."""
    product = _scaled(matrix_product(x, y), alpha)
    if beta == 0:
        return product
    return apply(ops.add, _scaled(operand(bias, node.result), beta), product)


def _scaled(x: Array, factor: Any) -> Array:
    return x if factor == 1 else apply(ops.multiply, x, full_like(x, factor))


def applied_along(matrix: Array, x: Array, axis: int) -> Array:
    """Multiply each line of an array along an axis with a matrix from the left."""
    lines = apply(
        ops.dot_general,
        convert(matrix, x.dtype),
        x,
        lhs_batch=(),
        rhs_batch=(),
        lhs_contracting=(1,),
        rhs_contracting=(axis,),
    )
    order = (*range(1, axis + 1), 0, *range(axis + 1, x.ndim))
    return lines if axis == 0 else apply(ops.transpose, lines, permutation=order)
