"""Numbers of further distributions, as functions of uniform, normal, exponential and gamma ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array
from tracer.array.promotion import finfo
from tracer.errors import ArgumentError, DTypeError, ShapeError
from tracer.ir import as_dtype
from tracer.numpy.creation import checked_shape
from tracer.numpy.elementwise import exp, log, log1p, sqrt, where
from tracer.numpy.linalg import cholesky, eigh, svd
from tracer.numpy.rounding import floor
from tracer.numpy.shaping import broadcast_shapes
from tracer.random.continuous import exponential, float_dtype, normal, of_one_shape, uniform
from tracer.random.discrete import rademacher
from tracer.random.gamma import gamma, loggamma
from tracer.random.threefry import split

_METHODS = ("cholesky", "eigh", "svd")


def _positive(key: ArrayLike, like: Array) -> Array:
    """Return uniform numbers without zero, whose logarithm is infinite."""
    smallest = float(finfo(like.dtype).smallest_normal)
    return uniform(key, like.shape, like.dtype, smallest, 1.0)


def chisquare(key: ArrayLike, df: ArrayLike, shape: Any = None, dtype: Any = float) -> Array:
    """Return sums of the squares of `df` normal numbers; see `gamma`."""
    wanted = float_dtype("chisquare", dtype)
    (freedom,) = of_one_shape(wanted, shape, df)
    return 2 * gamma(key, freedom / 2, freedom.shape, wanted)


def f(
    key: ArrayLike, dfnum: ArrayLike, dfden: ArrayLike, shape: Any = None, dtype: Any = float
) -> Array:
    """Return numbers of the F distribution with two degrees of freedom; see `gamma`."""
    wanted = float_dtype("f", dtype)
    above, below = of_one_shape(wanted, shape, dfnum, dfden)
    keys = split(key)
    logs = [
        loggamma(k, freedom / 2, freedom.shape, wanted) - log(freedom)
        for k, freedom in zip(keys, (above, below), strict=True)
    ]
    return exp(logs[0] - logs[1])


def t(key: ArrayLike, df: ArrayLike, shape: Any = None, dtype: Any = float) -> Array:
    """Return numbers of Student's t distribution with `df` degrees of freedom; see `gamma`."""
    wanted = float_dtype("t", dtype)
    (freedom,) = of_one_shape(wanted, shape, df)
    keys = split(key)
    half = freedom / 2
    spread = sqrt(half / gamma(keys[1], half, half.shape, wanted))
    return normal(keys[0], half.shape, wanted) * spread


def generalized_normal(key: ArrayLike, p: ArrayLike, shape: Any = (), dtype: Any = float) -> Array:
    """Return numbers with the density exp(-abs(x)**p), up to a factor; see `gamma`."""
    wanted, sizes = float_dtype("generalized_normal", dtype), checked_shape(shape)
    keys = split(key)
    power = 1 / as_array(p).astype(wanted)
    # Of a large p the gamma number may underflow, and not its power.
    size = exp(loggamma(keys[0], power, sizes, wanted) * power)
    return rademacher(keys[1], sizes, wanted) * size


def ball(key: ArrayLike, d: int, p: ArrayLike = 2, shape: Any = (), dtype: Any = float) -> Array:
    """Return points spread evenly in the unit ball of a norm.

    Parameters
    ----------
    key : Array of uint32, shape (2,)
        The key.
    d : int
        Dimensions.
    p : array_like
        The norm is that of p-th powers; a positive number.
    shape : int or tuple of int
        Of the batch.
    dtype : dtype
        A float dtype.

    Returns
    -------
    Array, shape (*shape, d)
        The points.

    References
    ----------
    Barthe, Guedon, Mendelson, Naor: A probabilistic approach to the geometry of the l_p^n ball.
    Annals of Probability 33(2), 2005.
    """
    wanted, sizes = float_dtype("ball", dtype), checked_shape(shape)
    power = as_array(p).astype(wanted)
    if not power.is_traced and not power > 0:
        raise ArgumentError(f"ball: p is {p!r}", mend="give a positive number")
    keys = split(key)
    direction = generalized_normal(keys[0], power, (*sizes, d), wanted)
    rest = exponential(keys[1], sizes, wanted)
    total = (abs(direction) ** power).sum(axis=-1) + rest
    return direction / (total ** (1 / power))[..., None]


def lognormal(
    key: ArrayLike, sigma: ArrayLike = 1.0, shape: Any = None, dtype: Any = float
) -> Array:
    """Return numbers whose logarithms are normal with the standard deviation `sigma`."""
    wanted = float_dtype("lognormal", dtype)
    (deviation,) = of_one_shape(wanted, shape, sigma)
    return exp(normal(key, deviation.shape, wanted) * deviation)


def maxwell(key: ArrayLike, shape: Any = (), dtype: Any = float) -> Array:
    """Return the lengths of vectors of three normal numbers."""
    wanted, sizes = float_dtype("maxwell", dtype), checked_shape(shape)
    return sqrt((normal(key, (*sizes, 3), wanted) ** 2).sum(axis=-1))


def double_sided_maxwell(
    key: ArrayLike, loc: ArrayLike, scale: ArrayLike, shape: Any = (), dtype: Any = float
) -> Array:
    """Return numbers of `maxwell` with a sign each, times `scale`, plus `loc`.

    The result has `shape`, then the shape of the parameters.
    """
    wanted = float_dtype("double_sided_maxwell", dtype)
    centre, width = of_one_shape(wanted, None, loc, scale)
    sizes = (*checked_shape(shape), *centre.shape)
    keys = split(key)
    signs = rademacher(keys[1], sizes, wanted)
    return signs * maxwell(keys[0], sizes, wanted) * width + centre


def pareto(key: ArrayLike, b: ArrayLike, shape: Any = None, dtype: Any = float) -> Array:
    """Return numbers above 1 with the density b / x ** (b + 1)."""
    wanted = float_dtype("pareto", dtype)
    (power,) = of_one_shape(wanted, shape, b)
    return exp(exponential(key, power.shape, wanted) / power)


def rayleigh(key: ArrayLike, scale: ArrayLike, shape: Any = None, dtype: Any = float) -> Array:
    """Return the lengths of vectors of two normal numbers, times `scale`."""
    wanted = float_dtype("rayleigh", dtype)
    (width,) = of_one_shape(wanted, shape, scale)
    return width * sqrt(-2 * log(_positive(key, width)))


def triangular(
    key: ArrayLike,
    left: ArrayLike,
    mode: ArrayLike,
    right: ArrayLike,
    shape: Any = None,
    dtype: Any = float,
) -> Array:
    """Return numbers from `left` to `right`, whose density rises up to `mode` and then falls."""
    wanted = float_dtype("triangular", dtype)
    low, peak, high = of_one_shape(wanted, shape, left, mode, right)
    unit = uniform(key, low.shape, wanted)
    rising = low + sqrt(unit * (high - low) * (peak - low))
    falling = high - sqrt((1 - unit) * (high - low) * (high - peak))
    below = unit < (peak - low) / (high - low)
    return where(below, rising, falling)  # type: ignore[no-any-return]


def wald(key: ArrayLike, mean: ArrayLike, shape: Any = None, dtype: Any = float) -> Array:
    """Return numbers of the inverse Gaussian distribution with scale 1.

    References
    ----------
    Michael, Schucany, Haas: Generating random variates using transformations with multiple roots.
    The American Statistician 30(2), 1976.
    """
    wanted = float_dtype("wald", dtype)
    (centre,) = of_one_shape(wanted, shape, mean)
    keys = split(key)
    square = normal(keys[0], centre.shape, wanted) ** 2
    unit = uniform(keys[1], centre.shape, wanted)
    # The two roots, centre / ratio and centre * ratio, without differences: of a large mean the
    # smaller root is lost in them.
    size = centre * square
    ratio = 1 + (size + sqrt(size) * sqrt(4 + size)) / 2
    is_smaller = unit <= ratio / (1 + ratio)
    return where(is_smaller, centre / ratio, centre * ratio)  # type: ignore[no-any-return]


def weibull_min(
    key: ArrayLike,
    scale: ArrayLike,
    concentration: ArrayLike,
    shape: Any = (),
    dtype: Any = float,
) -> Array:
    """Return numbers whose powers by `concentration` are exponential, times `scale`."""
    wanted, sizes = float_dtype("weibull_min", dtype), checked_shape(shape)
    unit = uniform(key, sizes, wanted)
    width, power = (as_array(x).astype(wanted) for x in (scale, concentration))
    return width * (-log1p(-unit)) ** (1 / power)


def geometric(key: ArrayLike, p: ArrayLike, shape: Any = None, dtype: Any = int) -> Array:
    """Return how many trials it takes until one succeeds, with probability `p`.

    Parameters
    ----------
    key : Array of uint32, shape (2,)
        The key.
    p : array_like
        Probabilities, broadcast to the shape.
    shape : int or tuple of int, optional
        Of the result; that of `p` by default.
    dtype : dtype
        An integer dtype.

    Returns
    -------
    Array, shape `shape`
        Numbers from 1 on.
    """
    wanted = as_dtype(dtype)
    if wanted.kind not in "iu":
        raise DTypeError(f"geometric does not make dtype {wanted}", mend="use an integer dtype")
    (chance,) = of_one_shape(np.dtype(np.float64), shape, p)
    return (floor(log(_positive(key, chance)) / log1p(-chance)) + 1).astype(wanted)


def multivariate_normal(
    key: ArrayLike,
    mean: ArrayLike,
    cov: ArrayLike,
    shape: Any = None,
    dtype: Any = None,
    method: str = "cholesky",
) -> Array:
    """Return vectors of normal numbers with a mean and a covariance.

    Parameters
    ----------
    key : Array of uint32, shape (2,)
        The key.
    mean : array_like, shape (..., n)
        Means.
    cov : array_like, shape (..., n, n)
        Covariances, positive definite for "cholesky", else semi-definite.
    shape : int or tuple of int, optional
        Of the batch; that of the parameters by default.
    dtype : dtype, optional
        A float dtype; that of the parameters by default.
    method : {"cholesky", "eigh", "svd"}
        How the covariance is factored; "cholesky" is the fastest.

    Returns
    -------
    Array, shape (*shape, n)
        The vectors.

    Raises
    ------
    ArgumentError
        Another method.
    ShapeError
        The parameters do not fit each other or the shape.
    LinAlgError
        A covariance that is known is not positive definite, for "cholesky".
    """
    if method not in _METHODS:
        raise ArgumentError(
            f"multivariate_normal has no method {method!r}", mend=f"use one of {list(_METHODS)}"
        )
    centre, spread = as_array(mean), as_array(cov)
    if centre.ndim < 1 or spread.shape[-2:] != (centre.shape[-1],) * 2:
        raise ShapeError(
            f"multivariate_normal of a mean of shape {centre.shape} and a covariance of "
            f"{spread.shape}",
            mend="n means need a covariance of n rows and columns",
        )
    wanted = (centre[..., None] + spread).dtype if dtype is None else as_dtype(dtype)
    wanted = float_dtype("multivariate_normal", wanted if wanted.kind in "fV" else float)
    (centre, spread) = centre.astype(wanted), spread.astype(wanted)
    batch = broadcast_shapes(centre.shape[:-1], spread.shape[:-2])
    sizes = batch if shape is None else checked_shape(shape)
    draws = normal(key, (*sizes, centre.shape[-1]), wanted)
    return centre + (_root(spread, method) @ draws[..., None])[..., 0]


def _root(cov: Array, method: str) -> Array:
    """Return a matrix whose product with its transpose is the covariance."""
    if method == "cholesky":
        return cholesky(cov)
    if method == "eigh":
        sizes, vectors = eigh(cov)
    else:
        vectors, sizes, _ = svd(cov)
    return vectors * sqrt(where(sizes > 0, sizes, 0))[..., None, :]
