"""Matrices of a pattern: made of vectors, or of their size alone (those by SciPy itself)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, as_arrays, convert
from tracer.errors import ArgumentError, ShapeError
from tracer.ir import as_dtype, require_countable
from tracer.numpy.creation import ones, zeros
from tracer.numpy.joining import concatenate
from tracer.numpy.matrices import diag, eye
from tracer.numpy.padding import pad
from tracer.ops.deferred import of_scipy


def _vector(name: str, a: ArrayLike) -> Array:
    x = as_array(a)
    if x.ndim != 1 or not x.size:
        raise ShapeError(f"{name} takes a vector, not shape {x.shape}", mend="give a vector")
    return x


def circulant(c: ArrayLike) -> Array:
    """Return the matrix whose columns are a vector, each moved one further.

    Parameters
    ----------
    c : array_like, shape (..., n)
        The first column.

    Returns
    -------
    Array, shape (..., n, n)
        Element (i, j) is c[i - j].
    """
    x = as_array(c)
    if not x.ndim:
        raise ShapeError("circulant takes vectors", mend="give shape (..., n)")
    places = np.arange(x.shape[-1])
    return x[..., places[:, None] - places]


def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """Return the matrix with constant diagonals from lower left to upper right.

    Parameters
    ----------
    c : array_like, shape (m,)
        The first column.
    r : array_like, shape (n,), optional
        The last row, whose first element is not read; zeros by default.

    Returns
    -------
    Array, shape (m, n)
        Element (i, j) is the (i + j)-th of `c` and `r` in a row.
    """
    column = _vector("hankel", c)
    row = zeros(column.shape, column.dtype) if r is None else _vector("hankel", r)
    first, second = as_arrays(column, row)
    dtype = promotion.result_type(first, second)
    whole = concatenate([convert(first, dtype), convert(second, dtype)[1:]])
    return whole[np.arange(first.shape[0])[:, None] + np.arange(second.shape[0])]


def companion(a: ArrayLike) -> Array:
    """Return the matrix whose eigenvalues are the roots of a polynomial.

    Parameters
    ----------
    a : array_like, shape (n,)
        The coefficients, the highest power first; two or more.

    Returns
    -------
    Array of floats, shape (n - 1, n - 1)
        The coefficients over the first one in the first row, ones below the diagonal.
    """
    x = _vector("companion", a)
    if x.shape[0] < 2:
        raise ShapeError("companion: a polynomial of degree 0", mend="give two coefficients")
    x = convert(x, promotion.division_dtype(x.dtype))
    first = (-x[1:] / x[0])[None]
    below = eye(x.shape[0] - 2, x.shape[0] - 1, dtype=x.dtype)
    return concatenate([first, below])


def fiedler_companion(a: ArrayLike) -> Array:
    """Return Fiedler's matrix of five diagonals, whose eigenvalues are the roots of a polynomial.

    Parameters
    ----------
    a : array_like, shape (..., n)
        The coefficients, the highest power first.

    Returns
    -------
    Array of floats, shape (..., n - 1, n - 1)
        Not finite where the first coefficient is 0.

    References
    ----------
    Fiedler, A note on companion matrices, Linear Algebra and its Applications 372 (2003).
    """
    x = as_array(a)
    if not x.ndim or not x.shape[-1]:
        raise ShapeError("fiedler_companion takes coefficients", mend="give shape (..., n)")
    x = convert(x, promotion.division_dtype(x.dtype))
    n = x.shape[-1] - 1
    first = (*x.shape[:-1], 1)
    entries = concatenate([zeros(first, x.dtype), ones(first, x.dtype), -x / x[..., :1]], -1)
    return entries[..., _places_of_fiedler(n)]


def _places_of_fiedler(n: int) -> Any:
    """Tell where each element stands: 0 and 1 come first, then the coefficients."""
    places = np.zeros((n, n), np.int64)
    for row in range(n):
        if row % 2:
            places[row, max(row - 2, 0)] = 1
            continue
        places[row, max(row - 1, 0)] = row + 3
        places[row, row + 1 : row + 2] = row + 4
        places[row, row + 2 : row + 3] = 1
    return places


def fiedler(a: ArrayLike) -> Array:
    """Return the absolute differences of the elements of a vector, shape (n, n)."""
    x = _vector("fiedler", a)
    return abs(x[:, None] - x)


def leslie(f: ArrayLike, s: ArrayLike) -> Array:
    """Return the matrix of a population: fecundities in the first row, survival below.

    Parameters
    ----------
    f : array_like, shape (n,)
        The first row.
    s : array_like, shape (n - 1,)
        The elements below the diagonal.
    """
    row, below = as_arrays(_vector("leslie", f), _vector("leslie", s))
    if below.shape[0] != row.shape[0] - 1:
        raise ShapeError(
            f"leslie: {row.shape[0]} and {below.shape[0]} numbers do not fit",
            mend="give one survival less than fecundities",
        )
    dtype = promotion.result_type(row, below)
    rest = pad(diag(convert(below, dtype)), ((0, 0), (0, 1)))
    return concatenate([convert(row, dtype)[None], rest])


def convolution_matrix(a: ArrayLike, n: int, mode: str = "full") -> Array:
    """Return the matrix whose product with a vector is its convolution.

    Parameters
    ----------
    a : array_like, shape (m,)
        What is convolved with.
    n : int
        The size of the vectors, 1 or more.
    mode : {"full", "same", "valid"}
        As of `tracer.numpy.convolve`.

    Returns
    -------
    Array, shape (k, n)
        `convolution_matrix(a, n, mode) @ v` is `convolve(a, v, mode)`.
    """
    x = _vector("convolution_matrix", a)
    size = x.shape[0]
    if n < 1 or mode not in ("full", "same", "valid"):
        raise ArgumentError(
            f"convolution_matrix: n is {n}, mode {mode!r}",
            mend='give 1 or more, and one of "full", "same", "valid"',
        )
    whole = pad(x, (n - 1, n - 1))
    places = np.arange(size + n - 1)[:, None] - np.arange(n) + n - 1
    shorter = min(size, n)
    start, count = {
        "full": (0, size + n - 1),
        "same": ((shorter - 1) // 2, max(size, n)),
        "valid": (shorter - 1, max(size, n) - shorter + 1),
    }[mode]
    return whole[places[start : start + count]]


def dft(n: int, scale: Any = None) -> Array:
    """Return the matrix of the discrete Fourier transform; see `scipy.linalg.dft`."""
    return as_array(of_scipy("linalg.dft")(n, scale))


def hadamard(n: int, dtype: Any = int) -> Array:
    """Return the Hadamard matrix of a power of two; see `scipy.linalg.hadamard`."""
    if n < 1 or n & (n - 1):
        raise ArgumentError(f"hadamard: n is {n}", mend="give a power of two")
    require_countable((n, n), as_dtype(dtype))
    return as_array(of_scipy("linalg.hadamard")(n, dtype))


def helmert(n: int, full: bool = False) -> Array:
    """Return a Helmert matrix; see `scipy.linalg.helmert`."""
    return as_array(of_scipy("linalg.helmert")(n, full))


def hilbert(n: int) -> Array:
    """Return the matrix of 1 / (i + j + 1); see `scipy.linalg.hilbert`."""
    return as_array(of_scipy("linalg.hilbert")(n))


def invhilbert(n: int) -> Array:
    """Return the inverse of `hilbert(n)`, in float64; see `scipy.linalg.invhilbert`."""
    return as_array(of_scipy("linalg.invhilbert")(n))


def pascal(n: int, kind: str = "symmetric") -> Array:
    """Return a matrix of binomial coefficients; see `scipy.linalg.pascal`.

    Raises
    ------
    ArgumentError
        They are too large for 64 bits, or `kind` is not known.
    """
    return _binomials("pascal", n, kind, of_scipy("linalg.pascal"))


def invpascal(n: int, kind: str = "symmetric") -> Array:
    """Return the inverse of `pascal(n)`; see `scipy.linalg.invpascal` and `pascal`."""
    return _binomials("invpascal", n, kind, of_scipy("linalg.invpascal"))


def _binomials(name: str, n: int, kind: str, function: Any) -> Array:
    if kind not in ("symmetric", "lower", "upper") or not 0 < n < 35:
        raise ArgumentError(
            f"{name}: n is {n}, kind {kind!r}",
            mend='give 1 to 34, and one of "symmetric", "lower", "upper"',
        )
    return as_array(function(n, kind))
