"""Decompositions of matrices: Cholesky, QR, singular values."""

from __future__ import annotations

from typing import Any, NamedTuple

from tracer import ops
from tracer.array.array import Array, ArrayLike
from tracer.array.dispatch import apply, apply_many, compound
from tracer.errors import ArgumentError
from tracer.numpy.arithmetic import absolute, sign
from tracer.numpy.linalg.checks import (
    adjoint,
    any_of,
    has_nan,
    last_axes,
    matrices,
    new_nan,
    real_as,
    refuse,
    refuse_unconverged,
    square_matrices,
)
from tracer.numpy.linalg.eigenvalues import eigh, eigvalsh
from tracer.numpy.matrices import diagonal, tril
from tracer.numpy.shaping import expand_dims, flip
from tracer.numpy.sorting import argsort
from tracer.numpy.taking import take_along_axis


class QRResult(NamedTuple):
    """What `qr` returns."""

    Q: Array
    R: Array


class SVDResult(NamedTuple):
    """What `svd` returns."""

    U: Array
    S: Array
    Vh: Array


def cholesky(a: ArrayLike, /, *, upper: bool = False) -> Array:
    """Cholesky factor of symmetric (Hermitian) positive definite matrices.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        Only the lower triangle is read (the upper one for `upper`).
    upper : bool
        Return U with a = U^H U instead of L with a = L L^H.

    Returns
    -------
    Array, shape (..., n, n)
        The factor. Inside a traced function NaN where the matrix is not positive definite.

    Raises
    ------
    LinAlgError
        The matrices are not square, or (concrete arrays) one is not positive definite.

    Notes
    -----
    The matrix counts as symmetric (Hermitian): one triangle is read, and the gradient is the
    symmetric one, in both triangles, as in JAX and PyTorch. A factor of a matrix of which one
    triangle alone is meant to change is that of `tril(a) + tril(a, -1).mT`.

    Examples
    --------
    >>> import tracer.numpy as tnp
    >>> tnp.linalg.cholesky([[4.0, 2.0], [2.0, 5.0]])
    Array([[2., 0.],
           [1., 2.]])
    """
    factor, failed = _cholesky(square_matrices("cholesky", a), upper=bool(upper))
    refuse(
        failed,
        "cholesky: the matrix is not positive definite",
        "add a small multiple of the identity to it",
    )
    return factor


@compound
def _cholesky(x: Array, *, upper: bool) -> tuple[Array, Array]:
    lower = adjoint(x) if upper else x
    factor = apply(ops.cholesky, lower)
    failed = new_nan(diagonal(factor, 0, -2, -1), 1, tril(lower))
    return (adjoint(factor) if upper else factor), failed


def qr(a: ArrayLike, mode: str = "reduced") -> Any:
    """QR decomposition.

    Parameters
    ----------
    a : array_like, shape (..., m, n)
        Matrices.
    mode : {"reduced", "complete", "r"}
        Q of shape (..., m, min(m, n)), Q of shape (..., m, m), or R of the first kind alone.

    Returns
    -------
    QRResult of (Q, R), or Array
        Q with orthonormal columns, R upper triangular.

    Raises
    ------
    ArgumentError
        There is no such mode ("raw" is not supported).
    NotDifferentiableError
        A gradient is asked for through the columns of Q that the matrix does not determine
        ("complete" with more rows than columns).

    Notes
    -----
    The gradient is not finite where the first min(m, n) columns are linearly dependent.
    """
    if mode not in ("reduced", "complete", "r"):
        raise ArgumentError(
            f"qr has no mode {mode!r}", mend='use one of "reduced", "complete", "r"'
        )
    q, r = _qr(matrices("qr", a), full_matrices=mode == "complete")
    return r if mode == "r" else QRResult(q, r)


@compound
def _qr(x: Array, *, full_matrices: bool) -> tuple[Array, Array]:
    q, r = apply_many(ops.qr, x, full_matrices=full_matrices)
    return q, r


def svd(
    a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> Any:
    """Singular value decomposition a = U diag(S) Vh.

    Parameters
    ----------
    a : array_like, shape (..., m, n)
        Matrices.
    full_matrices : bool
        Return square U and Vh; otherwise min(m, n) columns of U and rows of Vh.
    compute_uv : bool
        Return the singular vectors, not only the values.
    hermitian : bool
        The matrices are Hermitian, which is faster.

    Returns
    -------
    SVDResult of (U, S, Vh), or Array
        S in descending order. Inside a traced function NaN where it does not converge.

    Raises
    ------
    LinAlgError
        (Concrete arrays) it does not converge, as for NaN.
    NotDifferentiableError
        A gradient is asked for through full U and Vh of matrices that are not square.

    Notes
    -----
    The gradient through U and Vh is not finite where two singular values are equal; the one
    through S alone always is finite.
    """
    if hermitian:
        return _hermitian_svd(square_matrices("svd", a), bool(compute_uv))
    *found, failed = _svd(
        matrices("svd", a), full_matrices=bool(full_matrices), compute_vectors=bool(compute_uv)
    )
    refuse_unconverged(failed, "svd")
    return SVDResult(*found) if compute_uv else found[0]


@compound
def _svd(x: Array, *, full_matrices: bool, compute_vectors: bool) -> tuple[Array, ...]:
    params = {"full_matrices": full_matrices, "compute_vectors": compute_vectors}
    if compute_vectors:
        found = apply_many(ops.svd, x, **params)
        return (*found, any_of(has_nan(found[1], last_axes(found[1], 1))))
    values = apply(ops.svd, x, **params)
    return values, any_of(has_nan(values, last_axes(values, 1)))


def _hermitian_svd(x: Array, compute_vectors: bool) -> Any:
    if not compute_vectors:
        return flip(_sorted(absolute(eigvalsh(x))), -1)
    values, vectors = eigh(x)
    order = flip(argsort(absolute(values), -1), -1)
    values = take_along_axis(values, order, -1, mode="promise_in_bounds")
    columns = expand_dims(order, -2)
    left = take_along_axis(vectors, columns, -1, mode="promise_in_bounds")
    signs = real_as(expand_dims(sign(values), -2), x.dtype)
    return SVDResult(left, absolute(values), adjoint(left * signs))


@compound
def _sorted(x: Array) -> Array:
    (result,) = apply_many(ops.sort, x, dimension=x.ndim - 1, num_keys=1, is_stable=False)
    return result


def svdvals(x: ArrayLike, /) -> Array:
    """Singular values in descending order; see `svd`."""
    return svd(x, compute_uv=False)  # type: ignore[no-any-return]
