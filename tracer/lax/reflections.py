"""Forms that Householder reflections make, and their products, as `jax.lax.linalg` has them."""

from __future__ import annotations

from tracer.array.array import Array, ArrayLike
from tracer.array.dispatch import compound
from tracer.errors import ShapeError
from tracer.lax.operands import of_one_dtype
from tracer.numpy.linalg.checks import matrices, square_matrices
from tracer.scipy.linalg import householder


def hessenberg(a: ArrayLike) -> tuple[Array, Array]:
    """Reduce square matrices to Hessenberg form.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        Matrices.

    Returns
    -------
    a : Array, shape (..., n, n)
        The form, and below its subdiagonal the reflectors.
    taus : Array, shape (..., n - 1)
        The scales of the reflectors. `tracer.scipy.linalg.hessenberg` multiplies them.
    """
    packed, taus = _hessenberg(square_matrices("hessenberg", a))
    return packed, taus


_hessenberg = compound(householder.hessenberg_reflectors)


def tridiagonal(a: ArrayLike, *, lower: bool = True) -> tuple[Array, Array, Array, Array]:
    """Reduce symmetric (Hermitian) matrices to tridiagonal form.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        Matrices, of which one triangle is read.
    lower : bool
        Read the lower triangle; else the upper one.

    Returns
    -------
    a : Array, shape (..., n, n)
        The form and the reflectors in that triangle; the other is that of `a`.
    d : Array, shape (..., n)
        The diagonal of the form, real.
    e : Array, shape (..., n - 1)
        What is beside it, real.
    taus : Array, shape (..., n - 1)
        The scales of the reflectors.
    """
    packed, d, e, taus = _tridiagonal(square_matrices("tridiagonal", a), lower=bool(lower))
    return packed, d, e, taus


_tridiagonal = compound(householder.tridiagonal_reflectors)


def householder_product(a: ArrayLike, taus: ArrayLike) -> Array:
    """Multiply reflections to a matrix with orthonormal columns.

    Parameters
    ----------
    a : array_like, shape (..., m, n)
        The reflectors, below the diagonal. At least as many rows as columns.
    taus : array_like, shape (..., k)
        Their scales, at most n.

    Returns
    -------
    Array, shape (..., m, n)
        The first columns of the product.

    Raises
    ------
    ShapeError
        More columns than rows, more scales than columns, or other batches.
    """
    packed, scales = of_one_dtype("linalg.householder_product", a, taus)
    matrices("householder_product", packed)
    if packed.shape[-2] < packed.shape[-1]:
        raise ShapeError(
            f"lax.linalg.householder_product of shape {packed.shape}: more columns than rows",
            mend="cut the columns off",
        )
    _require_scales("householder_product", packed, scales)
    return _product(packed, scales)


_product = compound(householder.product)


def ormqr(
    a: ArrayLike, taus: ArrayLike, c: ArrayLike, *, left: bool = True, transpose: bool = False
) -> Array:
    """Multiply matrices by the Q of a QR decomposition; Q itself is not made.

    Parameters
    ----------
    a : array_like, shape (..., m, n)
        The reflectors, below the diagonal.
    taus : array_like, shape (..., k)
        Their scales.
    c : array_like, shape (..., m, p), or (..., p, m)
        What is multiplied.
    left : bool
        Q c; else c Q.
    transpose : bool
        With Q^T, of complex matrices Q^H.

    Returns
    -------
    Array, the shape of `c`
        The product.

    Raises
    ------
    ShapeError
        Sizes that do not fit.
    """
    packed, scales, given = of_one_dtype("linalg.ormqr", a, taus, c)
    matrices("ormqr", packed), matrices("ormqr", given)
    _require_scales("ormqr", packed, scales)
    size = given.shape[-2 if left else -1]
    if size != packed.shape[-2] or given.shape[:-2] != packed.shape[:-2]:
        raise ShapeError(
            f"lax.linalg.ormqr: reflectors of shape {packed.shape} and c of {given.shape}",
            mend="Q has as many rows and columns as the reflectors have rows",
        )
    return _applied(packed, scales, given, left=bool(left), transpose=bool(transpose))


_applied = compound(householder.applied)


def _require_scales(name: str, packed: Array, scales: Array) -> None:
    fits = scales.ndim == packed.ndim - 1 and scales.shape[:-1] == packed.shape[:-2]
    if not fits or scales.shape[-1] > min(packed.shape[-2:]):
        raise ShapeError(
            f"lax.linalg.{name}: reflectors of shape {packed.shape} and scales of {scales.shape}",
            mend="give at most one scale for each column",
        )
