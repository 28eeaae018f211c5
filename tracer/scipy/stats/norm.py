"""The normal distribution: `tracer.scipy.stats.norm`."""

from __future__ import annotations

import math

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.scipy import special
from tracer.scipy.stats.arguments import floats


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density.

    Parameters
    ----------
    x : array_like
        Where.
    loc, scale : array_like
        Shift and scale.
    """
    x_, loc_, scale_ = floats("norm.logpdf", x, loc, scale)
    z = (x_ - loc_) / scale_
    return -0.5 * z * z - tnp.log(scale_) - math.log(2 * math.pi) / 2


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
    x_, loc_, scale_ = floats("norm.cdf", x, loc, scale)
    return special.ndtr((x_ - loc_) / scale_)


def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of `cdf`.

    Parameters
    ----------
    x : array_like
        Where.
    loc, scale : array_like
        Shift and scale.
    """
    x_, loc_, scale_ = floats("norm.logcdf", x, loc, scale)
    return special.log_ndtr((x_ - loc_) / scale_)


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of more than x, 1 - cdf.

    Parameters
    ----------
    x : array_like
        Where.
    loc, scale : array_like
        Shift and scale.
    """
    x_, loc_, scale_ = floats("norm.sf", x, loc, scale)
    return special.ndtr((loc_ - x_) / scale_)


def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of `sf`.

    Parameters
    ----------
    x : array_like
        Where.
    loc, scale : array_like
        Shift and scale.
    """
    x_, loc_, scale_ = floats("norm.logsf", x, loc, scale)
    return special.log_ndtr((loc_ - x_) / scale_)


def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Quantile: where `cdf` is q.

    Parameters
    ----------
    q : array_like
        Probabilities.
    loc, scale : array_like
        Shift and scale.
    """
    q_, loc_, scale_ = floats("norm.ppf", q, loc, scale)
    return special.ndtri(q_) * scale_ + loc_


def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Where `sf` is q.

    Parameters
    ----------
    q : array_like
        Probabilities.
    loc, scale : array_like
        Shift and scale.
    """
    q_, loc_, scale_ = floats("norm.isf", q, loc, scale)
    return loc_ - special.ndtri(q_) * scale_


__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
