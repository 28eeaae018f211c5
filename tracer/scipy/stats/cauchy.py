"""The Cauchy distribution: `tracer.scipy.stats.cauchy`."""

from __future__ import annotations

import math

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.scipy.choice import choose
from tracer.scipy.stats.arguments import floats


def _quantile(q: Array) -> Array:
    """Return -cot(pi q), from the nearer end, where it is exact."""
    is_low = q < 0.5
    distance = 1 / tnp.tan(math.pi * choose(is_low, q, 1 - q))
    inside = (q >= 0) & (q <= 1)
    return choose(inside, choose(is_low, -distance, distance), tnp.nan)


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density.

    Parameters
    ----------
    x : array_like
        Where.
    loc, scale : array_like
        Shift and scale.
    """
    x_, loc_, scale_ = floats("cauchy.logpdf", x, loc, scale)
    z = (x_ - loc_) / scale_
    return -tnp.log(math.pi * scale_) - tnp.log1p(z * z)


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
    x_, loc_, scale_ = floats("cauchy.cdf", x, loc, scale)
    z = (x_ - loc_) / scale_
    return tnp.arctan2(tnp.ones_like(z), -z) / math.pi


def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of `cdf`.

    Parameters
    ----------
    x : array_like
        Where.
    loc, scale : array_like
        Shift and scale.
    """
    return tnp.log(cdf(x, loc, scale))


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of more than x, 1 - cdf.

    Parameters
    ----------
    x : array_like
        Where.
    loc, scale : array_like
        Shift and scale.
    """
    x_, loc_, scale_ = floats("cauchy.sf", x, loc, scale)
    z = (x_ - loc_) / scale_
    return tnp.arctan2(tnp.ones_like(z), z) / math.pi


def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of `sf`.

    Parameters
    ----------
    x : array_like
        Where.
    loc, scale : array_like
        Shift and scale.
    """
    return tnp.log(sf(x, loc, scale))


def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Quantile: where `cdf` is q.

    Parameters
    ----------
    q : array_like
        Probabilities.
    loc, scale : array_like
        Shift and scale.
    """
    q_, loc_, scale_ = floats("cauchy.ppf", q, loc, scale)
    return loc_ + scale_ * _quantile(q_)


def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Where `sf` is q.

    Parameters
    ----------
    q : array_like
        Probabilities.
    loc, scale : array_like
        Shift and scale.
    """
    q_, loc_, scale_ = floats("cauchy.isf", q, loc, scale)
    return loc_ - scale_ * _quantile(q_)


__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
