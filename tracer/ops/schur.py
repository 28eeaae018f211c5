"""Schur decompositions of square matrices.

Source: LAPACK's gees. There is no derivative here. The factors' own would be solutions of
triangular Sylvester equations, up to a phase; what is made of them (`tracer.scipy.linalg.sqrtm`,
`solve_sylvester`) has a simpler one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer.ir import Cost, NotDifferentiable, Op, ShapeDtype
from tracer.ir.op import Types
from tracer.ops.deferred import of_scipy
from tracer.ops.matrix_rules import evaluate_each, lapack_call, matrix_axes, require_square
from tracer.ops.rules import moved_bytes

Array = np.ndarray[Any, Any]


def _infer_schur(a: ShapeDtype, *, compute_vectors: bool) -> ShapeDtype | Types:
    require_square("schur", a)
    return (a, a) if compute_vectors else a


def _evaluate_schur(a: Array, *, compute_vectors: bool) -> Any:
    type = ShapeDtype(a.shape, a.dtype)
    output = "complex" if a.dtype.kind == "c" else "real"

    def decompose(matrix: Array) -> tuple[Array, ...]:
        if not matrix.size:
            return matrix, matrix
        return of_scipy("linalg.schur")(matrix, output, check_finite=False)  # type: ignore[no-any-return]

    found = evaluate_each(decompose, a, (type, type))
    return found if compute_vectors else found[0]


def _lower_schur(b: Any, types: Types, a: Any, *, compute_vectors: bool) -> Any:
    del compute_vectors  # the types say it
    if types[0].size == 0:
        return tuple(b.splat(0, type) for type in types)
    return b.schur(types, a)


def _schur_cost(operands: Types, results: Types, *, compute_vectors: bool) -> Cost:
    a = operands[0]
    flops = (25 if compute_vectors else 10) * a.size * a.shape[-1]
    call = lapack_call(a, a.shape[-1], workspace=a.nbytes)
    return Cost(flops, moved_bytes(operands, results), a.nbytes, calls=(call,))


schur: Op = Op(
    "schur",
    doc="Schur form T of square matrices (last two axes), and for `compute_vectors` the unitary "
    "Z with a = Z T Z^H, as LAPACK's gees. T is upper triangular for complex numbers; for real "
    "ones blocks of two on its diagonal hold the pairs of conjugate eigenvalues. NaN where it "
    "does not converge.",
    infer=_infer_schur,
    evaluate=_evaluate_schur,
    lower=_lower_schur,
    vjp=NotDifferentiable(
        "the factors of a Schur decomposition have no derivative here",
        mend="use sqrtm, solve_sylvester, expm or eig, which have one, or custom_vjp around what "
        "is computed of the factors",
    ),
    axes=matrix_axes,
    cost=_schur_cost,
    fusion="opaque",
    is_partitioned=False,
)

__all__ = ["schur"]
