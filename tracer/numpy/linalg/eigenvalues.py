"""Eigenvalues and eigenvectors of Hermitian and of general matrices."""

from __future__ import annotations

from typing import NamedTuple

from tracer import ops
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import convert
from tracer.array.dispatch import apply, apply_many, compound
from tracer.errors import ArgumentError
from tracer.numpy.linalg.checks import (
    adjoint,
    any_of,
    has_nan,
    last_axes,
    new_nan,
    refuse_unconverged,
    square_matrices,
)
from tracer.numpy.matrices import tril


class EigResult(NamedTuple):
    """What `eig` returns."""

    eigenvalues: Array
    eigenvectors: Array


class EighResult(NamedTuple):
    """What `eigh` returns."""

    eigenvalues: Array
    eigenvectors: Array


def eigh(a: ArrayLike, UPLO: str = "L") -> EighResult:  # noqa: N803 - NumPy's name
    """Eigenvalues and eigenvectors of symmetric (Hermitian) matrices.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        Matrices.
    UPLO : {"L", "U"}
        Which triangle is read.

    Returns
    -------
    EighResult of (eigenvalues, eigenvectors)
        Real eigenvalues in ascending order; the eigenvectors are the columns. Inside a traced
        function NaN where it does not converge.

    Raises
    ------
    LinAlgError
        The matrices are not square, or (concrete arrays) it does not converge.

    Notes
    -----
    The matrix counts as symmetric (Hermitian): one triangle is read, and the gradient is the
    symmetric one, in both triangles, as in JAX and PyTorch. The one through the eigenvectors is
    not finite where two eigenvalues are equal; the one through the eigenvalues alone always is.
    """
    values, vectors, failed = _eigh(_hermitian("eigh", a, UPLO), compute_vectors=True)
    refuse_unconverged(failed, "eigh")
    return EighResult(values, vectors)


def eigvalsh(a: ArrayLike, UPLO: str = "L") -> Array:  # noqa: N803 - NumPy's name
    """Eigenvalues of symmetric (Hermitian) matrices in ascending order; see `eigh`."""
    values, failed = _eigh(_hermitian("eigvalsh", a, UPLO), compute_vectors=False)
    refuse_unconverged(failed, "eigvalsh")
    return values


def _hermitian(name: str, a: ArrayLike, triangle: str) -> Array:
    x = square_matrices(name, a)
    if not isinstance(triangle, str) or triangle.upper() not in ("L", "U"):
        raise ArgumentError(f"{name}: UPLO is {triangle!r}", mend='use "L" or "U"')
    return x if triangle.upper() == "L" else adjoint(x)


@compound
def _eigh(x: Array, *, compute_vectors: bool) -> tuple[Array, ...]:
    if compute_vectors:
        values, vectors = apply_many(ops.eigh, x, compute_vectors=True)
        return values, vectors, new_nan(values, 1, tril(x))
    values = apply(ops.eigh, x, compute_vectors=False)
    return values, new_nan(values, 1, tril(x))


def eig(a: ArrayLike) -> EigResult:
    """Eigenvalues and right eigenvectors of square matrices.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        Matrices.

    Returns
    -------
    EigResult of (eigenvalues, eigenvectors)
        Always complex (NumPy looks at the values and returns reals where it can); the
        eigenvectors are the columns, of length one. Inside a traced function NaN where it does
        not converge.

    Raises
    ------
    LinAlgError
        The matrices are not square, or (concrete arrays) it does not converge, as for NaN.

    Notes
    -----
    The gradient is not finite where two eigenvalues are equal.
    """
    values, vectors, failed = _eig(_general("eig", a), compute_vectors=True)
    refuse_unconverged(failed, "eig")
    return EigResult(values, vectors)


def eigvals(a: ArrayLike) -> Array:
    """Eigenvalues of square matrices, always complex; see `eig`."""
    values, failed = _eig(_general("eigvals", a), compute_vectors=False)
    refuse_unconverged(failed, "eigvals")
    return values


def _general(name: str, a: ArrayLike) -> Array:
    """Return square matrices in a dtype that has a complex one."""
    x = square_matrices(name, a)
    if x.dtype.kind == "c":
        return x
    return convert(x, promotion.real_dtype(promotion.complex_dtype(x.dtype)))


@compound
def _eig(x: Array, *, compute_vectors: bool) -> tuple[Array, ...]:
    if compute_vectors:
        values, vectors = apply_many(ops.eig, x, compute_vectors=True)
        return values, vectors, any_of(has_nan(values, last_axes(values, 1)))
    values = apply(ops.eig, x, compute_vectors=False)
    return values, any_of(has_nan(values, last_axes(values, 1)))
