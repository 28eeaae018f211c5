"""Moore-Penrose inverse.

Source: Golub & Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares
problems whose variables separate", SIAM J. Numer. Anal. 10 (1973), equation 4.12: the derivative
holds where the rank is constant, also where singular values are equal.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer import ops
from tracer.ir import Cost, Op, ShapeDtype, Value
from tracer.ir.op import Types
from tracer.ops.bodies import lower_expansion
from tracer.ops.helpers import conjugate, full_like, matrix_multiply, where, zeros_like
from tracer.ops.matrix_rules import (
    adjoint,
    as_columns,
    as_dtype_of,
    evaluate_each,
    lapack_call,
    matrix_axes,
    require_matrices,
)
from tracer.ops.rules import moved_bytes

Array = np.ndarray[Any, Any]


def _infer(a: ShapeDtype, *, rtol: float) -> ShapeDtype:
    del rtol
    require_matrices("pseudo_inverse", a)
    *batch, m, n = a.shape
    return a.with_shape((*batch, n, m))


def _evaluate(a: Array, *, rtol: float) -> Array:
    type = _infer(ShapeDtype(a.shape, a.dtype), rtol=rtol)
    if a.size == 0:
        return np.zeros(type.shape, type.dtype)
    return evaluate_each(lambda matrix: (np.linalg.pinv(matrix, rtol),), a, (type,))[0]


def _expand(a: Value, *, rtol: float) -> tuple[Value]:
    """Divide by the singular values that are large enough."""
    if a.type.size == 0:
        return (adjoint(a),)
    left, values, right = ops.svd(a, full_matrices=False, compute_vectors=True)
    last = len(values.shape) - 1
    largest = ops.reduce_maximum(values, axes=(last,))
    dimensions = tuple(range(last))
    largest = ops.broadcast_in_dim(largest, shape=values.shape, dimensions=dimensions)
    # Not "greater or equal": NaN shall stay.
    is_zero = ops.compare(values, ops.multiply(largest, full_like(largest, rtol)), direction="LE")
    ones = full_like(values, 1)
    inverse = where(ops.not_(is_zero), ops.divide(ones, ops.select(is_zero, ones, values)))
    basis = adjoint(right)
    scaled = ops.multiply(basis, as_dtype_of(as_columns(inverse, basis), basis))
    return (matrix_multiply(scaled, adjoint(left)),)


def _lower(b: Any, types: Types, a: Any, *, rtol: float) -> Any:
    return lower_expansion(_expand, [a.type], b, (a,), rtol=rtol)[0]


def _vjp(g: Value, out: Value, a: Value, *, rtol: float) -> tuple[Value]:
    """Return -P^H G P^H + (I - A P) G^H P P^H + P^H P G^H (I - P A), G conjugated back and forth.

    The adjoint of dP = -P dA P + P P^H dA^H (I - A P) + (I - P A) dA^H P^H P.
    """
    del rtol
    if a.type.size == 0:
        return (zeros_like(a),)
    seed, flipped = adjoint(conjugate(g)), adjoint(out)
    middle = matrix_multiply(matrix_multiply(flipped, conjugate(g)), flipped)
    outside = ops.subtract(seed, matrix_multiply(a, matrix_multiply(out, seed)))
    second = matrix_multiply(matrix_multiply(outside, out), flipped)
    beyond = ops.subtract(seed, matrix_multiply(matrix_multiply(seed, out), a))
    third = matrix_multiply(flipped, matrix_multiply(out, beyond))
    return (conjugate(ops.subtract(ops.add(second, third), middle)),)


def _cost(operands: Types, results: Types, *, rtol: float) -> Cost:
    del rtol
    a = operands[0]
    k = min(a.shape[-2:])
    squares = k * k * a.dtype.itemsize
    # LAPACK's, of the singular values and of the product of the factors.
    call = lapack_call(a, max(a.shape[-2:]), times=2, workspace=4 * squares)
    scratch = a.nbytes + 3 * squares
    return Cost(24 * a.size * k, moved_bytes(operands, results), scratch, calls=(call,))


pseudo_inverse: Op = Op(
    "pseudo_inverse",
    doc="Moore-Penrose inverse of the last two axes; singular values up to `rtol` times the "
    "largest count as zero. NaN where the singular value decomposition does not converge.",
    infer=_infer,
    evaluate=_evaluate,
    lower=_lower,
    vjp=_vjp,
    axes=matrix_axes,
    cost=_cost,
    fusion="opaque",
    expand=_expand,
)
