"""QR decomposition of the last two axes.

Sources: LAPACK's geqrf and orgqr (ungqr); Walter, Lehmann & Lamour, "On evaluating higher-order
derivatives of the QR decomposition of tall matrices with full column rank in forward and reverse
mode algorithmic differentiation", 2012, and Roberts & Roberts, "QR and LQ decomposition matrix
backpropagation algorithms for square, wide, and deep matrices", arXiv:2009.10071, for the gradient.
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
    matrix_multiply,
    real_as_complex,
    slice_axis,
    triangle,
    zeros_like,
)
from tracer.ops.matrix_rules import (
    adjoint,
    evaluate_each,
    identity_array,
    lapack_call,
    matrix_axes,
    require_matrices,
)
from tracer.ops.rules import moved_bytes

Array = np.ndarray[Any, Any]
Cotangent = Value | None


def _infer(a: ShapeDtype, *, full_matrices: bool) -> Types:
    require_matrices("qr", a)
    *batch, m, n = a.shape
    inner = m if full_matrices else min(m, n)
    return a.with_shape((*batch, m, inner)), a.with_shape((*batch, inner, n))


def _evaluate(a: Array, *, full_matrices: bool) -> tuple[Array, ...]:
    types = _infer(ShapeDtype(a.shape, a.dtype), full_matrices=full_matrices)
    mode = "full" if full_matrices else "economic"

    def decompose(matrix: Array) -> tuple[Array, ...]:
        if matrix.size == 0:
            return identity_array(types[0]), identity_array(types[1])
        return of_scipy("linalg.qr")(matrix, mode=mode, check_finite=False)  # type: ignore[no-any-return]

    return evaluate_each(decompose, a, types)


def _lower(b: Any, types: Types, a: Any, *, full_matrices: bool) -> tuple[Any, ...]:
    del full_matrices  # the types say it
    return b.qr(types, a)  # type: ignore[no-any-return]


def _vjp(
    g: tuple[Cotangent, ...], out: tuple[Value, ...], a: Value, *, full_matrices: bool
) -> tuple[Value]:
    """Split wide matrices into a square part and the rest, whose coordinates Q^H gives."""
    if a.type.size == 0:
        return (zeros_like(a),)
    (q, r), (m, n) = out, a.shape[-2:]
    for_q, for_r = (None if x is None else conjugate(x) for x in g)
    if full_matrices and m > n:
        if for_q is not None:
            raise NotDifferentiableError(
                "qr with full_matrices has no gradient for Q when there are more rows than "
                "columns: the last columns of Q are not determined by the matrix",
                mend='use mode="reduced"',
            )
        rows, columns = len(a.shape) - 2, len(a.shape) - 1
        q, r = slice_axis(q, columns, 0, n), slice_axis(r, rows, 0, n)
        for_r = None if for_r is None else slice_axis(for_r, rows, 0, n)
    for_q = zeros_like(q) if for_q is None else for_q
    for_r = zeros_like(r) if for_r is None else for_r
    wanted = _wide_vjp(q, r, a, for_q, for_r) if m < n else _tall_vjp(q, r, for_q, for_r)
    return (conjugate(wanted),)


def _wide_vjp(q: Value, r: Value, a: Value, for_q: Value, for_r: Value) -> Value:
    axis, (m, n) = len(a.shape) - 1, a.shape[-2:]
    (rest, square), (for_rest, for_square) = (
        (slice_axis(x, axis, m, n), slice_axis(x, axis, 0, m)) for x in (r, for_r)
    )
    del rest
    remaining = slice_axis(a, axis, m, n)
    for_q = ops.add(for_q, matrix_multiply(remaining, adjoint(for_rest)))
    first = _tall_vjp(q, square, for_q, for_square)
    return ops.concatenate(first, matrix_multiply(q, for_rest), dimension=axis)  # type: ignore[no-any-return]


def _tall_vjp(q: Value, r: Value, for_q: Value, for_r: Value) -> Value:
    """Return (G_Q + Q sym(triu(G_R R^H - Q^H G_Q))) R^-H."""
    inner = ops.subtract(matrix_multiply(for_r, adjoint(r)), matrix_multiply(adjoint(q), for_q))
    above = triangle(inner, lower=False, strict=True)
    diagonal = real_as_complex(ops.subtract(triangle(inner, lower=False), above))
    symmetric = ops.add(ops.add(above, adjoint(above)), diagonal)
    total = ops.add(for_q, matrix_multiply(q, symmetric))
    return ops.triangular_solve(  # type: ignore[no-any-return]
        r, total, left_side=False, lower=False, unit_diagonal=False, transpose_a="ADJOINT"
    )


def _cost(operands: Types, results: Types, *, full_matrices: bool) -> Cost:
    del full_matrices
    a, q = operands[0], results[0]
    flops = 2 * (a.size + q.size) * min(a.shape[-2:])
    # Two calls of LAPACK, of which each packs.
    call = lapack_call(a, max(a.shape[-2:]), times=2)
    return Cost(flops, moved_bytes(operands, results), q.nbytes, calls=(call,))


qr: Op = Op(
    "qr",
    doc="a = Q R of the last two axes, as LAPACK's geqrf: Q has orthonormal columns, R is upper "
    "triangular with a real diagonal. Q is (m, min(m, n)), or (m, m) for `full_matrices`. The "
    "gradient needs full rank of the first min(m, n) columns; it is not finite otherwise.",
    infer=_infer,
    evaluate=_evaluate,
    lower=_lower,
    vjp=_vjp,
    axes=matrix_axes,
    cost=_cost,
    fusion="opaque",
    is_partitioned=False,
)
