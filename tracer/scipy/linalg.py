"""Triangular and Cholesky solvers: `tracer.scipy.linalg`, as `scipy.linalg`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracer import ops
from tracer.errors import ArgumentError, ShapeError
from tracer.numpy import linalg as _linalg
from tracer.numpy import promotion
from tracer.numpy.base import ArrayLike
from tracer.numpy.convert import as_array, broadcast, broadcast_shape, convert, reshape
from tracer.numpy.dispatch import apply, compound
from tracer.numpy.linalg.checks import square_matrices

if TYPE_CHECKING:
    from tracer.numpy.array import Array

_TRANSPOSES = {
    0: "NO_TRANSPOSE",
    1: "TRANSPOSE",
    2: "ADJOINT",
    "N": "NO_TRANSPOSE",
    "T": "TRANSPOSE",
    "C": "ADJOINT",
}


def cholesky(a: ArrayLike, lower: bool = False) -> Array:
    """Cholesky factor of symmetric (Hermitian) positive definite matrices.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        Only the triangle that `lower` names is read.
    lower : bool
        Return L with a = L L^H instead of U with a = U^H U.

    Returns
    -------
    Array, shape (..., n, n)
        The factor, zero in the other triangle; NaN where the matrix is not positive definite.
    """
    return _linalg.cholesky(a, upper=not lower)


def cho_factor(a: ArrayLike, lower: bool = False) -> tuple[Array, bool]:
    """Return the Cholesky factor and `lower`, for `cho_solve`; the other triangle is zero."""
    return cholesky(a, lower), lower


def cho_solve(c_and_lower: tuple[ArrayLike, bool], b: ArrayLike) -> Array:
    """Solve a x = b, given the Cholesky factor of `a`.

    Parameters
    ----------
    c_and_lower : tuple of (array_like, bool)
        What `cho_factor` returns.
    b : array_like, shape (n,) or (..., n, m)
        Right-hand sides.

    Returns
    -------
    Array, the shape of `b`
        The solutions.
    """
    factor, lower = c_and_lower
    first, second = (0, 2) if lower else (2, 0)
    half = solve_triangular(factor, b, trans=first, lower=lower)
    return solve_triangular(factor, half, trans=second, lower=lower)


def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    trans: Any = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
) -> Array:
    """Solve a x = b for triangular matrices.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        Only the triangle that `lower` names is read.
    b : array_like, shape (n,) or (..., n, m)
        Right-hand sides.
    trans : {0, 1, 2, "N", "T", "C"}
        Solve with `a`, its transpose or its adjoint.
    lower : bool
        Whether the lower triangle holds the matrix.
    unit_diagonal : bool
        Take the diagonal as ones without reading it.

    Returns
    -------
    Array, the shape of `b`
        The solutions.

    Raises
    ------
    LinAlgError
        The matrices are not square.
    ShapeError
        The sizes of `a` and `b` do not agree.
    """
    if trans not in _TRANSPOSES:
        raise ArgumentError(f"trans {trans!r} is not known", mend="use 0, 1, 2, 'N', 'T' or 'C'")
    matrix, rhs = square_matrices("solve_triangular", a), as_array(b)
    rows = rhs.shape[0] if rhs.ndim == 1 else rhs.shape[-2] if rhs.ndim else None
    if rows != matrix.shape[-1]:
        raise ShapeError(
            f"solve_triangular: a of shape {matrix.shape} and b of shape {rhs.shape} do not fit",
            mend="give b of shape (n,) or (..., n, m) for a of shape (..., n, n)",
        )
    return _solve(
        matrix,
        rhs,
        lower=bool(lower),
        unit_diagonal=bool(unit_diagonal),
        transpose_a=_TRANSPOSES[trans],
    )


@compound
def _solve(a: Array, b: Array, *, lower: bool, unit_diagonal: bool, transpose_a: str) -> Array:
    dtype = promotion.division_dtype(promotion.promote_types(a.dtype, b.dtype))
    a, b = convert(a, dtype), convert(b, dtype)
    columns = reshape(b, (b.size, 1)) if b.ndim == 1 else b
    batch = broadcast_shape("solve_triangular", a.shape[:-2], columns.shape[:-2])
    result = apply(
        ops.triangular_solve,
        broadcast(a, (*batch, *a.shape[-2:])),
        broadcast(columns, (*batch, *columns.shape[-2:])),
        left_side=True,
        lower=lower,
        unit_diagonal=unit_diagonal,
        transpose_a=transpose_a,
    )
    return reshape(result, result.shape[:-1]) if b.ndim == 1 else result
