"""Eigenvalues and eigenvectors of Hermitian and of general matrices.

Sources: LAPACK's syevd (heevd) and geev; Giles, "Collected matrix derivative results for forward
and reverse mode algorithmic differentiation", 2008, section 3.1; Boeddeker et al., "On the
computation of complex-valued gradients with application to statistically optimum beamforming",
arXiv:1701.00392, for complex matrices; `jax.lax.linalg.eig` for the phase of eigenvectors.

The phase of an eigenvector of a complex Hermitian matrix is arbitrary, so gradients are right only
for functions that do not depend on it. For equal eigenvalues the eigenvectors have no derivative,
and their gradient is not finite (as in JAX). The gradient of the eigenvalues alone is finite for
Hermitian matrices.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tracer import ops
from tracer.ir import Cost, Op, ShapeDtype, Value
from tracer.ir.op import Types
from tracer.ops.deferred import of_scipy
from tracer.ops.helpers import (
    conjugate,
    matrix_multiply,
    real_as_complex,
    where,
    zeros_like,
)
from tracer.ops.lu import lu
from tracer.ops.lu_solve import lu_solve
from tracer.ops.matrix_rules import (
    INT32,
    adjoint,
    as_columns,
    as_dtype_of,
    diagonal_matrix,
    evaluate_each,
    inverse_differences,
    lapack_call,
    matrix_axes,
    real_type,
    require_square,
)
from tracer.ops.mirror import symmetric_part
from tracer.ops.rules import complex_dtype, moved_bytes

Array = np.ndarray[Any, Any]
Cotangent = Value | None


def _infer_eigh(a: ShapeDtype, *, compute_vectors: bool) -> ShapeDtype | Types:
    require_square("eigh", a)
    values = real_type(a, a.shape[-1])
    return (values, a) if compute_vectors else values


def _evaluate_eigh(a: Array, *, compute_vectors: bool) -> Any:
    inferred = _infer_eigh(ShapeDtype(a.shape, a.dtype), compute_vectors=compute_vectors)

    def decompose(matrix: Array) -> Any:
        options = {"eigvals_only": not compute_vectors, "check_finite": False}
        return of_scipy("linalg.eigh")(matrix, driver="evd", **options)

    return _evaluate(decompose, a, inferred)


def _evaluate(decompose: Callable[[Array], Any], a: Array, inferred: ShapeDtype | Types) -> Any:
    """Evaluate a decomposition with one result, or a tuple of two."""
    if a.size == 0:
        return (
            tuple(np.empty(type.shape, type.dtype) for type in inferred)
            if isinstance(inferred, tuple)
            else np.empty(inferred.shape, inferred.dtype)
        )
    if isinstance(inferred, tuple):
        return evaluate_each(decompose, a, inferred)
    return evaluate_each(lambda matrix: (decompose(matrix),), a, (inferred,))[0]


def _lowering(method: str) -> Callable[..., Any]:
    def lower(b: Any, types: Types, a: Any, *, compute_vectors: bool) -> Any:
        del compute_vectors  # the types say it
        if types[0].size == 0:
            return tuple(b.splat(0, type) for type in types)
        return getattr(b, method)(types, a)

    return lower


def _parts(op: Op, g: Any, out: Any, a: Value, compute_vectors: bool) -> tuple[Any, ...]:
    """Return the cotangents of values and vectors, None for none, then values and vectors."""
    if compute_vectors:
        return (*g, *out)
    return (g, None, *op(a, compute_vectors=True))


def _eigh_vjp(g: Any, out: Any, a: Value, *, compute_vectors: bool) -> tuple[Cotangent]:
    """Return the Hermitian part of V (diag(G_w) + (V^H G_V) / (w_j - w_i)) V^H."""
    if a.type.size == 0:
        return (zeros_like(a),)
    for_values, for_vectors, values, vectors = _parts(eigh, g, out, a, compute_vectors)
    if for_vectors is None:
        # Hermitian as it is, to rounding.
        scaled = ops.multiply(vectors, as_dtype_of(as_columns(for_values, a), a))
        return (conjugate(matrix_multiply(scaled, adjoint(vectors))),)
    product = matrix_multiply(adjoint(vectors), conjugate(for_vectors))
    weights = inverse_differences(values, a.shape)
    inner = ops.multiply(product, as_dtype_of(weights, a))
    if for_values is not None:
        inner = ops.add(inner, diagonal_matrix(for_values, a))
    whole = matrix_multiply(matrix_multiply(vectors, inner), adjoint(vectors))
    return (conjugate(symmetric_part(whole, conjugated=True)),)


def _eigh_cost(operands: Types, results: Types, *, compute_vectors: bool) -> Cost:
    """Count LAPACK's steps; its workspace is twice the matrix with vectors."""
    a = operands[0]
    flops = (9 if compute_vectors else 2) * a.size * a.shape[-1]
    call = lapack_call(a, a.shape[-1], workspace=2 * a.nbytes if compute_vectors else 0)
    return Cost(flops, moved_bytes(operands, results), a.nbytes, calls=(call,))


eigh: Op = Op(
    "eigh",
    doc="Eigenvalues in ascending order of Hermitian matrices (last two axes, lower triangle "
    "read), and for `compute_vectors` the eigenvectors as columns, as LAPACK's syevd. NaN where "
    "it does not converge. The gradient is Hermitian.",
    infer=_infer_eigh,
    evaluate=_evaluate_eigh,
    lower=_lowering("eigh"),
    vjp=_eigh_vjp,
    axes=matrix_axes,
    cost=_eigh_cost,
    fusion="opaque",
    is_partitioned=False,
)


def _infer_eig(a: ShapeDtype, *, compute_vectors: bool) -> ShapeDtype | Types:
    require_square("eig", a)
    dtype = a.dtype if a.dtype.kind == "c" else complex_dtype(a.dtype)
    values = ShapeDtype(a.shape[:-1], dtype)
    return (values, a.with_dtype(dtype)) if compute_vectors else values


def _evaluate_eig(a: Array, *, compute_vectors: bool) -> Any:
    inferred = _infer_eig(ShapeDtype(a.shape, a.dtype), compute_vectors=compute_vectors)

    def decompose(matrix: Array) -> Any:
        return of_scipy("linalg.eig")(matrix, right=compute_vectors, check_finite=False)

    return _evaluate(decompose, a, inferred)


def _eig_vjp(g: Any, out: Any, a: Value, *, compute_vectors: bool) -> tuple[Cotangent]:
    """Return V^-H (diag(G_w) + (V^H G) / conj(w_j - w_i)) V^H, G being G_V on unit vectors."""
    if a.type.size == 0:
        return (zeros_like(a),)
    for_values, for_vectors, values, vectors = _parts(eig, g, out, a, compute_vectors)
    left = adjoint(vectors)
    terms = []
    if for_vectors is not None:
        turned = matrix_multiply(left, _normalised(conjugate(for_vectors), vectors))
        weights = inverse_differences(conjugate(values), turned.shape)
        terms.append(ops.multiply(turned, weights))
    if for_values is not None:
        terms.append(diagonal_matrix(conjugate(for_values), vectors))
    inner = functools.reduce(ops.add, terms)
    packed, _, permutation = lu(ops.stop_gradient(left))
    whole = lu_solve(left, packed, permutation, matrix_multiply(inner, left), transpose=False)
    found = conjugate(whole)
    return (found if a.dtype.kind == "c" else ops.convert(ops.real(found), dtype=a.dtype),)


def _normalised(g: Value, vectors: Value) -> Value:
    """Pull back through LAPACK's choice of length one and a real largest component.

    With z = v^H g for a column v: g - Re(z) v - i Im(z) / v_k e_k, k being the largest component.
    """
    rows = len(g.shape) - 2
    products = ops.reduce_add(ops.multiply(conjugate(vectors), g), axes=(rows,))
    length = as_columns(real_as_complex(products), g)
    phase = as_columns(ops.subtract(products, real_as_complex(products)), g)
    largest = ops.argmax(ops.abs(vectors), axis=rows, index_dtype=INT32)
    places = ops.iota(shape=g.shape, dtype=INT32, dimension=rows)
    is_largest = ops.compare(places, as_columns(largest, g), direction="EQ")
    along = ops.subtract(g, ops.multiply(length, vectors))
    divisor = where(is_largest, vectors, 1)
    turn = where(is_largest, ops.divide(phase, divisor))
    return ops.subtract(along, turn)  # type: ignore[no-any-return]


def _eig_cost(operands: Types, results: Types, *, compute_vectors: bool) -> Cost:
    a = operands[0]
    flops = (25 if compute_vectors else 10) * a.size * a.shape[-1]
    call = lapack_call(a, a.shape[-1], workspace=3 * a.nbytes)
    return Cost(flops, moved_bytes(operands, results), 3 * a.nbytes, calls=(call,))


eig: Op = Op(
    "eig",
    doc="Eigenvalues of square matrices (last two axes), and for `compute_vectors` the right "
    "eigenvectors as columns of length one, as LAPACK's geev. Always complex. NaN where it does "
    "not converge.",
    infer=_infer_eig,
    evaluate=_evaluate_eig,
    lower=_lowering("eig"),
    vjp=_eig_vjp,
    axes=matrix_axes,
    cost=_eig_cost,
    fusion="opaque",
    is_partitioned=False,
)

__all__ = ["eig", "eigh"]
