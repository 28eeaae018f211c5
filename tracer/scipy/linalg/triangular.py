"""Triangular systems, and Cholesky decompositions, which lead to them."""

from __future__ import annotations

from typing import Any

from tracer import ops
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, broadcast, broadcast_shape, convert, reshape
from tracer.array.dispatch import apply, compound
from tracer.errors import ArgumentError, ShapeError, shown
from tracer.numpy import linalg as _linalg
from tracer.numpy.linalg.checks import any_of, refuse_singular, square_matrices
from tracer.numpy.linalg.solving import require_rows
from tracer.numpy.matrices import diagonal
from tracer.numpy.ufunc import compare, full_like

_TRANSPOSES = {
    0: "NO_TRANSPOSE",
    1: "TRANSPOSE",
    2: "ADJOINT",
    "N": "NO_TRANSPOSE",
    "T": "TRANSPOSE",
    "C": "ADJOINT",
}


def cholesky(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Array:
    """Cholesky factor of symmetric (Hermitian) positive definite matrices.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        Only the triangle that `lower` names is read.
    lower : bool
        Return L with a = L L^H instead of U with a = U^H U.
    overwrite_a, check_finite : bool
        Accepted, without effect.

    Returns
    -------
    Array, shape (..., n, n)
        The factor, zero in the other triangle. Inside a traced function NaN where the matrix is
        not positive definite.

    Raises
    ------
    LinAlgError
        The matrices are not square, or (concrete arrays) one is not positive definite.

    Notes
    -----
    The gradient is symmetric (Hermitian), in both triangles.
    """
    del overwrite_a, check_finite
    return _linalg.cholesky(a, upper=not lower)


def cho_factor(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, bool]:
    """Return the Cholesky factor and `lower`, for `cho_solve`; the other triangle is zero."""
    return cholesky(a, lower, overwrite_a, check_finite), lower


def cho_solve(
    c_and_lower: tuple[ArrayLike, bool],
    b: ArrayLike,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """Solve a x = b, given the Cholesky factor of `a`.

    Parameters
    ----------
    c_and_lower : tuple of (array_like, bool)
        What `cho_factor` returns.
    b : array_like, shape (n,), (..., n) or (..., n, m)
        Right-hand sides, as in `solve_triangular`.
    overwrite_b, check_finite : bool
        Accepted, without effect.

    Returns
    -------
    Array, the shape of `b`
        The solutions.
    """
    del overwrite_b, check_finite
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
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """Solve a x = b for triangular matrices.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        Only the triangle that `lower` names is read.
    b : array_like, shape (n,), (..., n) or (..., n, m)
        Right-hand sides; a stack of vectors has one axis less than `a`.
    trans : {0, 1, 2, "N", "T", "C"}
        Solve with `a`, its transpose or its adjoint.
    lower : bool
        Whether the lower triangle holds the matrix.
    unit_diagonal : bool
        Take the diagonal as ones without reading it.
    overwrite_b, check_finite : bool
        Accepted, without effect.

    Returns
    -------
    Array, the shape of `b`
        The solutions. Inside a traced function not finite where the diagonal has a zero.

    Raises
    ------
    LinAlgError
        The matrices are not square, or (concrete arrays) the diagonal of one has a zero.
    ShapeError
        The sizes of `a` and `b` do not agree, or `b` may be a matrix as well as a stack of vectors
        (SciPy takes it for the one, JAX for the other).
    """
    del overwrite_b, check_finite
    if not isinstance(trans, int | str) or trans not in _TRANSPOSES:
        raise ArgumentError(f"trans {shown(trans)} is not known", mend="use 0, 1, 2, N, T or C")
    matrix, rhs = square_matrices("solve_triangular", a), as_array(b)
    is_stack = _is_stack_of_vectors(matrix, rhs)
    if not is_stack:
        require_rows("solve_triangular", matrix, rhs)
    solution, failed = _solve(
        matrix,
        rhs,
        has_vectors=is_stack or rhs.ndim == 1,
        lower=bool(lower),
        unit_diagonal=bool(unit_diagonal),
        transpose_a=_TRANSPOSES[trans],
    )
    refuse_singular(failed, "solve_triangular")
    return solution


def _is_stack_of_vectors(a: Array, b: Array) -> bool:
    """Tell whether right-hand sides are one vector for each matrix of a stack."""
    if b.ndim < 2 or b.ndim != a.ndim - 1 or b.shape[-1] != a.shape[-1]:
        return False
    pairs = zip(a.shape[:-2], b.shape[:-1], strict=True)
    if not all(size == count or 1 in (size, count) for size, count in pairs):
        return False
    if b.shape[-2] == a.shape[-1]:
        raise ShapeError(
            f"solve_triangular: b of shape {b.shape} may be a matrix or a stack of vectors for a "
            f"of shape {a.shape}",
            mend="write b[None] for a matrix, or b[..., None] for vectors and [..., 0] behind it",
        )
    return True


@compound
def _solve(
    a: Array, b: Array, *, has_vectors: bool, lower: bool, unit_diagonal: bool, transpose_a: str
) -> tuple[Array, Array]:
    dtype = promotion.division_dtype(promotion.promote_types(a.dtype, b.dtype))
    a, b = convert(a, dtype), convert(b, dtype)
    columns = reshape(b, (*b.shape, 1)) if has_vectors else b
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
    pivots = diagonal(a, 0, -2, -1)
    if unit_diagonal:  # the diagonal is not read
        pivots = full_like(pivots, 1)
    failed = any_of(compare(pivots, full_like(pivots, 0), "EQ"))
    return (reshape(result, result.shape[:-1]) if has_vectors else result), failed
