"""Singular value decomposition of the last two axes.

Sources: LAPACK's gesdd; Giles, "Collected matrix derivative results for forward and reverse mode
algorithmic differentiation", 2008, section 3.2; Townsend, "Differentiating the singular value
decomposition", 2016; Wan & Zhang, "Automatic differentiation for complex valued SVD",
arXiv:1909.02659.

The phases of complex singular vectors are arbitrary, so gradients are right only for functions that
do not depend on them. As in JAX, the gradient through the vectors is not finite if two singular
values are equal, or if one is zero and the matrix is not square. That of the values alone is always
finite.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer import ops
from tracer.errors import NotDifferentiableError
from tracer.ir import Cost, Op, ShapeDtype, Value
from tracer.ir.op import Types
from tracer.ops.deferred import of_scipy
from tracer.ops.helpers import (
    conjugate,
    full_like,
    matrix_multiply,
    slice_axis,
    square,
    where,
    zeros_like,
)
from tracer.ops.matrix_rules import (
    adjoint,
    as_columns,
    as_dtype_of,
    as_rows,
    diagonal_matrix,
    evaluate_each,
    identity_array,
    inverse_differences,
    lapack_call,
    matrix_axes,
    on_diagonal,
    real_type,
    require_matrices,
)
from tracer.ops.rules import moved_bytes

Array = np.ndarray[Any, Any]
Cotangent = Value | None


def _infer(a: ShapeDtype, *, full_matrices: bool, compute_vectors: bool) -> ShapeDtype | Types:
    require_matrices("svd", a)
    *batch, m, n = a.shape
    k = min(m, n)
    values = real_type(a, k)
    if not compute_vectors:
        return values
    left = a.with_shape((*batch, m, m if full_matrices else k))
    return left, values, a.with_shape((*batch, n if full_matrices else k, n))


def _evaluate(a: Array, *, full_matrices: bool, compute_vectors: bool) -> Any:
    inferred = _infer(
        ShapeDtype(a.shape, a.dtype), full_matrices=full_matrices, compute_vectors=compute_vectors
    )
    types = inferred if isinstance(inferred, tuple) else (inferred,)

    def decompose(matrix: Array) -> tuple[Array, ...]:
        if matrix.size == 0:
            return tuple(identity_array(t) if t.ndim == a.ndim else np.zeros(0) for t in types)
        options = {"full_matrices": full_matrices, "compute_uv": compute_vectors}
        found = of_scipy("linalg.svd")(matrix, check_finite=False, lapack_driver="gesdd", **options)
        return found if compute_vectors else (found,)

    results = evaluate_each(decompose, a, types)
    return results if compute_vectors else results[0]


def _lower(b: Any, types: Types, a: Any, *, full_matrices: bool, compute_vectors: bool) -> Any:
    del full_matrices, compute_vectors  # the types say it
    return b.svd(types, a)


def _vjp(
    g: Any, out: Any, a: Value, *, full_matrices: bool, compute_vectors: bool
) -> tuple[Cotangent]:
    if a.type.size == 0:
        return (zeros_like(a),)
    if not compute_vectors:
        left, _, right = svd(a, full_matrices=False, compute_vectors=True)
        return (_values_vjp(g, left, right),)
    (for_left, for_values, for_right), (left, values, right) = g, out
    if for_left is None and for_right is None:
        k, axis = values.shape[-1], len(a.shape) - 1
        left, right = slice_axis(left, axis, 0, k), slice_axis(right, axis - 1, 0, k)
        return (_values_vjp(for_values, left, right),)
    if full_matrices and a.shape[-1] != a.shape[-2]:
        raise NotDifferentiableError(
            "svd with full_matrices has no gradient for the singular vectors of matrices that are "
            "not square: the last vectors are not determined by the matrix",
            mend="use full_matrices=False",
        )
    for_left = zeros_like(left) if for_left is None else conjugate(for_left)
    for_right = zeros_like(right) if for_right is None else conjugate(for_right)
    found = _vectors_vjp(left, values, right, for_left, for_values, for_right)
    return (conjugate(found),)


def _values_vjp(g: Value, left: Value, right: Value) -> Value:
    """Return U diag(g) V^H, conjugated as cotangents are."""
    scaled = ops.multiply(left, as_dtype_of(as_columns(g, left), left))
    return conjugate(matrix_multiply(scaled, right))


def _vectors_vjp(
    left: Value,
    values: Value,
    right: Value,
    for_left: Value,
    for_values: Cotangent,
    for_right: Value,
) -> Value:
    """Return the gradient inside of the spaces that U and V span, plus the parts outside.

    Inside: U [ (skew(U^H G_U) / E) S + S (skew(V^H G_V) / E) + diag(G_s) ] V^H, with
    E_ij = s_j^2 - s_i^2, and for complex matrices the phases that U and V share.
    """
    in_left = matrix_multiply(adjoint(left), for_left)
    in_right = matrix_multiply(right, adjoint(for_right))
    shape = in_left.shape
    weights = as_dtype_of(inverse_differences(square(values), shape), left)
    turn_left = ops.multiply(_skew(in_left), weights)
    turn_right = ops.multiply(_skew(in_right), weights)
    columns = as_dtype_of(as_columns(values, in_left), left)
    rows = as_dtype_of(as_rows(values, in_left), left)
    inner = ops.add(ops.multiply(turn_left, columns), ops.multiply(rows, turn_right))
    if for_values is not None:
        inner = ops.add(inner, diagonal_matrix(for_values, inner))
    if left.dtype.kind == "c":
        inner = ops.add(inner, _phases(in_left, values))
    found = matrix_multiply(matrix_multiply(left, inner), right)
    if left.shape[-2] > left.shape[-1]:
        outside = ops.subtract(for_left, matrix_multiply(left, in_left))
        scaled = ops.divide(outside, as_dtype_of(as_columns(values, outside), left))
        found = ops.add(found, matrix_multiply(scaled, right))
    if right.shape[-1] > right.shape[-2]:
        outside = ops.subtract(for_right, matrix_multiply(adjoint(in_right), right))
        scaled = ops.divide(outside, as_dtype_of(as_rows(values, outside), left))
        found = ops.add(found, matrix_multiply(left, scaled))
    return found


def _skew(x: Value) -> Value:
    return ops.subtract(x, adjoint(x))  # type: ignore[no-any-return]


def _phases(in_left: Value, values: Value) -> Value:
    """Return i Im(U^H G_U) / s on the diagonal: U takes the phase that is left, as in JAX."""
    is_zero = ops.compare(values, zeros_like(values), direction="EQ")
    safe = ops.select(is_zero, full_like(values, 1), values)
    half = where(ops.not_(is_zero), ops.divide(full_like(values, 0.5), safe))
    weights = as_dtype_of(as_columns(half, in_left), in_left)
    return where(on_diagonal(in_left.shape), ops.multiply(_skew(in_left), weights))


def _cost(operands: Types, results: Types, *, full_matrices: bool, compute_vectors: bool) -> Cost:
    """Count LAPACK's steps; its workspace is several times the smaller square."""
    del full_matrices
    a = operands[0]
    k = min(a.shape[-2:])
    flops = (22 if compute_vectors else 4) * a.size * k
    squares = 4 * k * k * a.dtype.itemsize if compute_vectors else 0
    call = lapack_call(a, max(a.shape[-2:]), workspace=squares)
    return Cost(flops, moved_bytes(operands, results), a.nbytes, calls=(call,))


svd: Op = Op(
    "svd",
    doc="a = U diag(s) V^H of the last two axes, s in descending order, as LAPACK's gesdd. "
    "Results U, s, V^H, or s alone unless `compute_vectors`. NaN where it does not converge.",
    infer=_infer,
    evaluate=_evaluate,
    lower=_lower,
    vjp=_vjp,
    axes=matrix_axes,
    cost=_cost,
    fusion="opaque",
    is_partitioned=False,
)
