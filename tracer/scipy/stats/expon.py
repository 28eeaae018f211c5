"""The exponential distribution: `tracer.scipy.stats.expon`."""

from __future__ import annotations

import math

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.scipy.choice import choose
from tracer.scipy.stats.arguments import floats


def _log1mexp(z: Array) -> Array:
    """Return log(1 - exp(-z)), in the form that keeps its digits."""
    is_small = z < math.log(2)
    low, high = choose(is_small, z, 0.5), choose(is_small, 1, z)
    return choose(is_small, tnp.log(-tnp.expm1(-low)), tnp.log1p(-tnp.exp(-high)))


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density.

    Parameters
    ----------
    x : array_like
        Where.
    loc, scale : array_like
        Shift and scale.
    """
    x_, loc_, scale_ = floats("expon.logpdf", x, loc, scale)
    z = (x_ - loc_) / scale_
    return choose(z < 0, -tnp.inf, -z - tnp.log(scale_))


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density.

    Parameters
    ----------
    x : array_like
        Where.
    loc, scale : array_like
        Shift and scale.
    """
    return tnp.exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of at most x.

    Parameters
    ----------
    x : array_like
        Where.
    loc, scale : array_like
        Shift and scale.
    """
    x_, loc_, scale_ = floats("expon.cdf", x, loc, scale)
    z = (x_ - loc_) / scale_
    return choose(z < 0, 0, -tnp.expm1(-choose(z < 0, 0, z)))


def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of `cdf`.

    Parameters
    ----------
    x : array_like
        Where.
    loc, scale : array_like
        Shift and scale.
    """
    x_, loc_, scale_ = floats("expon.logcdf", x, loc, scale)
    z = (x_ - loc_) / scale_
    safe = choose(z <= 0, 1, z)
    return choose(z <= 0, -tnp.inf, _log1mexp(safe))


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of more than x, 1 - cdf.

    Parameters
    ----------
    x : array_like
        Where.
    loc, scale : array_like
        Shift and scale.
    """
    return tnp.exp(logsf(x, loc, scale))


def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of `sf`.

    Parameters
    ----------
    x : array_like
        Where.
    loc, scale : array_like
        Shift and scale.
    """
    x_, loc_, scale_ = floats("expon.logsf", x, loc, scale)
    z = (x_ - loc_) / scale_
    return choose(z < 0, 0, -z)


def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Quantile: where `cdf` is q.

    Parameters
    ----------
    q : array_like
        Probabilities.
    loc, scale : array_like
        Shift and scale.
    """
    q_, loc_, scale_ = floats("expon.ppf", q, loc, scale)
    inside = (q_ >= 0) & (q_ <= 1)
    return choose(inside, loc_ - scale_ * tnp.log1p(-choose(inside, q_, 0)), tnp.nan)


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
