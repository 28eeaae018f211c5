"""The Gumbel distribution of largest values: `tracer.scipy.stats.gumbel_r`."""

from __future__ import annotations

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
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
    x_, loc_, scale_ = floats("gumbel_r.logpdf", x, loc, scale)
    z = (x_ - loc_) / scale_
    return -z - tnp.exp(-z) - tnp.log(scale_)


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


def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of `cdf`.

    Parameters
    ----------
    x : array_like
        Where.
    loc, scale : array_like
        Shift and scale.
    """
    x_, loc_, scale_ = floats("gumbel_r.logcdf", x, loc, scale)
    z = (x_ - loc_) / scale_
    return -tnp.exp(-z)


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of at most x.

    Parameters
    ----------
    x : array_like
        Where.
    loc, scale : array_like
        Shift and scale.
    """
    return tnp.exp(logcdf(x, loc, scale))


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of more than x, 1 - cdf.

    Parameters
    ----------
    x : array_like
        Where.
    loc, scale : array_like
        Shift and scale.
    """
    x_, loc_, scale_ = floats("gumbel_r.sf", x, loc, scale)
    z = (x_ - loc_) / scale_
    return -tnp.expm1(-tnp.exp(-z))


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
    q_, loc_, scale_ = floats("gumbel_r.ppf", q, loc, scale)
    return loc_ - scale_ * tnp.log(-tnp.log(q_))


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
