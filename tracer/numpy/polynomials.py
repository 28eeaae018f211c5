"""Polynomials as vectors of coefficients, highest power first."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, convert, reshape
from tracer.array.dispatch import from_host
from tracer.array.placement import beside_arguments
from tracer.errors import ArgumentError, ShapeError, TracingError
from tracer.numpy import linalg
from tracer.numpy.contraction import matmul
from tracer.numpy.correlation import convolve
from tracer.numpy.creation import ones, zeros, zeros_like
from tracer.numpy.elementwise import real, sqrt
from tracer.numpy.grids import vander
from tracer.numpy.joining import concatenate
from tracer.numpy.matrices import diag
from tracer.numpy.positions import concrete


def _vector(name: str, p: ArrayLike) -> Array:
    x = as_array(p)
    x = reshape(x, (1,)) if x.ndim == 0 else x
    if x.ndim != 1:
        raise ShapeError(
            f"{name} takes a vector, not shape {x.shape}", mend="give a vector of coefficients"
        )
    return x


def polyval(p: ArrayLike, x: ArrayLike) -> Array:
    """Evaluate a polynomial by Horner's scheme.

    Parameters
    ----------
    p : array_like, one axis
        Coefficients, highest power first.
    x : array_like
        Where.

    Returns
    -------
    Array, the shape of `x`
        The values.
    """
    coefficients, at = _vector("polyval", p), as_array(x)
    dtype = promotion.result_type(coefficients, at)
    at, coefficients = convert(at, dtype), convert(coefficients, dtype)
    result = zeros_like(at)
    for index in range(coefficients.size):
        result = result * at + coefficients[index]
    return result


def polyadd(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Return the sum of two polynomials."""
    x, y = _vector("polyadd", a1), _vector("polyadd", a2)
    size = max(x.size, y.size)
    return _padded(x, size) + _padded(y, size)


def polysub(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Return the difference of two polynomials."""
    x, y = _vector("polysub", a1), _vector("polysub", a2)
    size = max(x.size, y.size)
    return _padded(x, size) - _padded(y, size)


def _padded(x: Array, size: int) -> Array:
    return concatenate([zeros(size - x.size, x.dtype), x])


def polymul(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Return the product of two polynomials; leading zeros of traced ones stay."""
    return convolve(_trimmed(_vector("polymul", a1)), _trimmed(_vector("polymul", a2)))


def _trimmed(x: Array) -> Array:
    """Leave leading zeros of a concrete polynomial out, as NumPy does."""
    if x.is_traced:
        return x
    places = np.flatnonzero(np.asarray(x))
    return x[int(places[0]) :] if places.size else x[-1:]


def polyder(p: ArrayLike, m: int = 1) -> Array:
    """Return the `m`-th derivative of a polynomial."""
    result = _vector("polyder", p)
    if m < 0:
        raise ArgumentError(
            f"polyder: order {m} is negative", mend="give 0 or more; polyint integrates"
        )
    for _ in range(min(m, result.size)):
        powers = np.arange(result.size - 1, 0, -1)
        result = result[:-1] * powers
    return result


_MOST_INTEGRALS = 1000


def polyint(p: ArrayLike, m: int = 1, k: ArrayLike | None = None) -> Array:
    """Return the `m`-th integral of a polynomial; `k` are the constants, zero by default."""
    result = _vector("polyint", p)
    if m < 0:
        raise ArgumentError(
            f"polyint: order {m} is negative", mend="give 0 or more; polyder differentiates"
        )
    if m > _MOST_INTEGRALS:
        raise ArgumentError(f"polyint: order {m}", mend=f"give {_MOST_INTEGRALS} or less")
    constants = zeros(m) if k is None else _vector("polyint", k)
    if constants.size == 1 and m > 1:
        constants = constants * ones(m)
    if constants.size < m:
        raise ArgumentError(
            f"polyint: {constants.size} constants for order {m}", mend="give one, or one for each"
        )
    for order in range(m):
        powers = np.arange(result.size, 0, -1)
        result = concatenate([result / powers, constants[order : order + 1]])
    return result


@beside_arguments
def polydiv(u: ArrayLike, v: ArrayLike) -> tuple[Array, Array]:
    """Return quotient and remainder of concrete polynomials; see `numpy.polydiv`."""
    parts = [concrete("polydiv", part, _SIZES) for part in (u, v)]
    for part in parts:
        if part.ndim > 1 or not part.size:
            raise ShapeError(f"polydiv of shape {part.shape}", mend="give coefficients, a vector")
    quotient, rest = np.polydiv(*parts)
    return from_host(np.asarray(quotient)), from_host(np.asarray(rest))


_SIZES = "the degrees depend on values: call it outside of the traced function"


def poly(seq_of_zeros: ArrayLike) -> Array:
    """Return the polynomial with given roots, or the characteristic one of a matrix."""
    roots_ = as_array(seq_of_zeros)
    if roots_.ndim == 2:
        roots_ = linalg.eigvals(roots_)
    elif roots_.ndim > 2:
        raise ShapeError(
            f"poly does not fit shape {roots_.shape}", mend="give a vector or a matrix"
        )
    roots_ = reshape(roots_, (roots_.size,))
    roots_ = convert(roots_, promotion.division_dtype(roots_.dtype))
    result = ones(1, roots_.dtype)
    for index in range(roots_.size):
        result = convolve(result, concatenate([ones(1, roots_.dtype), -roots_[index][None]]))
    if result.dtype.kind == "c" and not roots_.is_traced:
        host = np.asarray(roots_)
        if np.array_equal(np.sort(host), np.sort(host.conj())):
            result = real(result)
    return result


@beside_arguments
def roots(p: ArrayLike, *, strip_zeros: bool = True) -> Array:
    """Return the roots of a polynomial: the eigenvalues of its companion matrix.

    Parameters
    ----------
    p : array_like, one axis
        Coefficients, highest power first.
    strip_zeros : bool
        Leave leading and trailing zeros out of the matrix. How many there are depends on values,
        so a traced `p` needs False, as in JAX, and a first coefficient that is not zero.

    Returns
    -------
    Array of complex
        The roots; real ones of concrete `p` come as reals, as in NumPy.
    """
    coefficients = _vector("roots", p)
    if strip_zeros:
        if coefficients.is_traced:
            raise TracingError(
                "roots of a traced polynomial: their number would depend on values",
                mend="use strip_zeros=False when the first coefficient is not zero",
            )
        return from_host(np.roots(np.asarray(coefficients)))
    coefficients = convert(coefficients, promotion.division_dtype(coefficients.dtype))
    count = coefficients.size - 1
    if count < 1:
        return zeros(0, promotion.complex_dtype(coefficients.dtype))
    row = -coefficients[1:] / coefficients[0]
    below = diag(ones(count - 1, row.dtype), -1)
    return linalg.eigvals(below.at[0, :].set(row))


def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: ArrayLike | None = None,
    cov: bool | str = False,
) -> Any:
    """Fit a polynomial by least squares.

    Parameters
    ----------
    x : array_like, shape (n,)
        Where the samples were taken.
    y : array_like, shape (n,) or (n, k)
        The samples.
    deg : int
        The degree.
    rcond : float, optional
        Singular values below this, relative to the largest, are left out.
    full : bool
        Return residuals, rank, singular values and `rcond` too.
    w : array_like, shape (n,), optional
        Weights of the residuals (not of their squares).
    cov : bool or "unscaled"
        Return the covariance of the coefficients too.

    Returns
    -------
    Array, shape (deg + 1,) or (deg + 1, k), or tuple
        Coefficients, highest power first.
    """
    at, samples = as_array(x), as_array(y)
    at = convert(at, promotion.division_dtype(at.dtype))
    samples = convert(samples, promotion.division_dtype(samples.dtype))
    if at.ndim != 1 or samples.ndim not in (1, 2) or samples.shape[0] != at.size or not at.size:
        raise ShapeError(
            f"polyfit: shapes {at.shape} and {samples.shape} do not fit",
            mend="give a vector and one sample (or row of samples) for each element",
        )
    if deg < 0:
        raise ArgumentError(f"polyfit: degree {deg} is negative", mend="give 0 or more")
    limit = at.size * float(promotion.finfo(at.dtype).eps) if rcond is None else rcond
    matrix = vander(at, deg + 1)
    if w is not None:
        weights = convert(as_array(w), at.dtype)
        matrix = matrix * weights[:, None]
        samples = samples * (weights if samples.ndim == 1 else weights[:, None])
    # Columns of norm 1: the powers differ by orders of magnitude.
    scale = sqrt((matrix * matrix).sum(0))
    solution, residuals, rank, singular = linalg.lstsq(matrix / scale, samples, limit)
    result = (solution.T / scale).T
    if full:
        return result, residuals, rank, singular, limit
    if not cov:
        return result
    base = linalg.inv(matmul(matrix.T, matrix))
    if cov == "unscaled":
        factor: Any = 1.0
    else:
        factor = residuals / (at.size - deg - 1)
    return result, base * factor if samples.ndim == 1 else base[:, :, None] * factor
