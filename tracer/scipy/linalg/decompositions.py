"""Decompositions, and results of them: LU, QR, singular values, eigenvalues, determinant."""

from __future__ import annotations

from typing import Any

from tracer import ops
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import convert
from tracer.array.dispatch import apply_many, compound
from tracer.array.promotion import real_dtype
from tracer.errors import ArgumentError
from tracer.ir import as_dtype
from tracer.numpy import linalg as _linalg
from tracer.numpy.linalg.checks import adjoint, matrices, mirrored, square_matrices
from tracer.numpy.matrices import eye, tril, triu
from tracer.numpy.sorting import argsort
from tracer.scipy.linalg.householder import pivoted
from tracer.scipy.linalg.triangular import cholesky, solve_triangular


def lu_factor(
    a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, Array]:
    """LU decomposition with row exchanges, for `lu_solve`.

    Parameters
    ----------
    a : array_like, shape (..., m, n)
        Matrices.
    overwrite_a, check_finite : bool
        Accepted, without effect.

    Returns
    -------
    lu : Array, shape (..., m, n)
        U in the upper triangle, L below it; its diagonal of ones is not stored.
    piv : Array of int32, shape (..., min(m, n))
        Row i was exchanged with row piv[i].
    """
    del overwrite_a, check_finite
    packed, pivots, _ = _lu(matrices("lu_factor", a))
    return packed, pivots


@compound
def _lu(x: Array) -> tuple[Array, ...]:
    return apply_many(ops.lu, x)


def lu(
    a: ArrayLike,
    permute_l: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
    p_indices: bool = False,
) -> tuple[Array, ...]:
    """LU decomposition a = P L U.

    Parameters
    ----------
    a : array_like, shape (..., m, n)
        Matrices.
    permute_l : bool
        Return P L in place of P and L.
    overwrite_a, check_finite : bool
        Accepted, without effect.
    p_indices : bool
        Return P as the numbers p with a = L[p] U.

    Returns
    -------
    tuple of Array
        (P, L, U), or (P L, U) for `permute_l`. L is (..., m, k) with a diagonal of ones and U
        (..., k, n), k = min(m, n); P is real.
    """
    del overwrite_a, check_finite
    packed, _, permutation = _lu(matrices("lu", a))
    m, n = packed.shape[-2:]
    k = min(m, n)
    lower = tril(packed[..., :k], -1) + eye(m, k, dtype=packed.dtype)
    upper = triu(packed[..., :k, :])
    places = argsort(permutation, -1)
    rows = eye(m, dtype=real_dtype(packed.dtype))[places]
    if permute_l:
        return rows @ lower, upper
    if p_indices:
        return convert(places, as_dtype("int32")), lower, upper
    return rows, lower, upper


def qr(
    a: ArrayLike,
    overwrite_a: bool = False,
    lwork: int | None = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[Array, ...]:
    """QR decomposition.

    Parameters
    ----------
    a : array_like, shape (..., m, n)
        Matrices.
    overwrite_a, lwork, check_finite
        Accepted, without effect.
    mode : {"full", "r", "economic"}
        Square Q, no Q, or min(m, n) columns of Q.
    pivoting : bool
        Also find the columns P in the order in which they are taken: each is the one of which most
        is left, so that the diagonal of R falls in size. ``a[:, P] = Q R``.

    Returns
    -------
    tuple of Array
        (Q, R), or (R,) for "r"; with `pivoting` also P, int32, shape (..., n).

    Raises
    ------
    ArgumentError
        Another mode.

    Notes
    -----
    Pivots are found column by column, in min(m, n) steps that take as many operations as the
    factors do, and a second matrix. They have no derivative; Q and R do. Source: Businger and
    Golub, Numerische Mathematik 7 (1965); LAPACK's laqp2.

    Examples
    --------
    >>> import tracer
    >>> import tracer.numpy as tnp
    >>> a = tnp.asarray([[1.0, 3.0], [0.0, 4.0]])
    >>> q, r, p = tracer.scipy.linalg.qr(a, pivoting=True)
    >>> [int(column) for column in p], bool(tnp.allclose(q @ r, a[:, p]))
    ([1, 0], True)
    """
    del overwrite_a, lwork, check_finite
    modes = {"full": "complete", "r": "complete", "economic": "reduced"}
    if mode not in modes:
        raise ArgumentError(f"qr has no mode {mode!r}", mend=f"use one of {list(modes)}")
    order: list[Array] = []
    if pivoting:
        a, *order = pivoted(matrices("qr", a))
    q, r = _linalg.qr(a, modes[mode])
    return (r, *order) if mode == "r" else (q, r, *order)


def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """Singular value decomposition; (U, s, Vh), or s alone. See `tracer.numpy.linalg.svd`."""
    del overwrite_a, check_finite
    if lapack_driver != "gesdd":
        raise ArgumentError(f"svd has no driver {lapack_driver!r}", mend='use "gesdd"')
    found = _linalg.svd(a, full_matrices, compute_uv)
    return tuple(found) if compute_uv else found


def eigh(
    a: ArrayLike,
    b: ArrayLike | None = None,
    *,
    lower: bool = True,
    eigvals_only: bool = False,
    type: int = 1,
) -> Any:
    """Eigenvalues and eigenvectors of Hermitian matrices, or of pairs of them: a v = w b v.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        Hermitian matrices.
    b : array_like, shape (..., n, n), optional
        Positive definite matrices; the identity by default.
    lower : bool
        Whether the lower or the upper triangles are read.
    eigvals_only : bool
        Return the eigenvalues alone.
    type : {1}
        The problem a v = w b v; others are not supported.

    Returns
    -------
    w : Array of reals, shape (..., n)
        The eigenvalues in ascending order.
    v : Array, shape (..., n, n)
        The eigenvectors as columns, with v^H b v = 1.

    Raises
    ------
    LinAlgError
        (Concrete arrays) it does not converge, or `b` is not positive definite.
    ArgumentError
        `type` is not 1.

    Notes
    -----
    With the Cholesky factor L of `b` it solves L^-1 a L^-H y = w y, v = L^-H y. Gradients are
    symmetric (Hermitian), in both triangles.
    """
    if type != 1:
        raise ArgumentError(f"eigh has no problem of type {type!r}", mend="use type=1")
    if b is None:
        uplo = "L" if lower else "U"
        return _linalg.eigvalsh(a, uplo) if eigvals_only else tuple(_linalg.eigh(a, uplo))
    matrix = square_matrices("eigh", a)
    matrix = matrix if lower else adjoint(matrix)
    whole = mirrored(matrix, conjugated=True)
    factor = cholesky(b if lower else adjoint(square_matrices("eigh", b)), lower=True)
    half = solve_triangular(factor, whole, lower=True)
    reduced = solve_triangular(factor, adjoint(half), lower=True)
    if eigvals_only:
        return _linalg.eigvalsh(reduced)
    values, vectors = _linalg.eigh(reduced)
    return values, solve_triangular(factor, vectors, trans="C", lower=True)


def inv(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """Inverse of square matrices; see `tracer.numpy.linalg.inv`."""
    del overwrite_a, check_finite
    return _linalg.inv(a)


def det(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """Return the determinants of square matrices; see `tracer.numpy.linalg.det`."""
    del overwrite_a, check_finite
    return _linalg.det(a)
