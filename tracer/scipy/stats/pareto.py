"""The Pareto distribution: `tracer.scipy.stats.pareto`."""

from __future__ import annotations

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.scipy.choice import choose
from tracer.scipy.stats.arguments import floats, supported


def logpdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density.

    Parameters
    ----------
    x : array_like
        Where.
    b : array_like
        The exponent, positive.
    loc, scale : array_like
        Shift and scale.
    """
    x_, b_, loc_, scale_ = floats("pareto.logpdf", x, b, loc, scale)
    z = (x_ - loc_) / scale_
    inside = z >= 1
    safe = choose(inside, z, 1)
    return supported(inside, tnp.log(b_ / scale_) - (b_ + 1) * tnp.log(safe), z)


def pdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density.

    Parameters
    ----------
    x : array_like
        Where.
    b : array_like
        The exponent, positive.
    loc, scale : array_like
        Shift and scale.
    """
    return tnp.exp(logpdf(x, b, loc, scale))


def logsf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of `sf`.

    Parameters
    ----------
    x : array_like
        Where.
    b : array_like
        The exponent, positive.
    loc, scale : array_like
        Shift and scale.
    """
    x_, b_, loc_, scale_ = floats("pareto.logsf", x, b, loc, scale)
    z = (x_ - loc_) / scale_
    return choose(z < 1, 0, -b_ * tnp.log(choose(z < 1, 1, z)))


def sf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of more than x, 1 - cdf.

    Parameters
    ----------
    x : array_like
        Where.
    b : array_like
        The exponent, positive.
    loc, scale : array_like
        Shift and scale.
    """
    return tnp.exp(logsf(x, b, loc, scale))


def cdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of at most x.

    Parameters
    ----------
    x : array_like
        Where.
    b : array_like
        The exponent, positive.
    loc, scale : array_like
        Shift and scale.
    """
    x_, b_, loc_, scale_ = floats("pareto.cdf", x, b, loc, scale)
    z = (x_ - loc_) / scale_
    return choose(z < 1, 0, -tnp.expm1(-b_ * tnp.log(choose(z < 1, 1, z))))


def logcdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of `cdf`.

    Parameters
    ----------
    x : array_like
        Where.
    b : array_like
        The exponent, positive.
    loc, scale : array_like
        Shift and scale.
    """
    return tnp.log(cdf(x, b, loc, scale))


def ppf(q: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Quantile: where `cdf` is q.

    Parameters
    ----------
    q : array_like
        Probabilities.
    b : array_like
        The exponent, positive.
    loc, scale : array_like
        Shift and scale.
    """
    q_, b_, loc_, scale_ = floats("pareto.ppf", q, b, loc, scale)
    inside = (q_ >= 0) & (q_ <= 1)
    return choose(inside, loc_ + scale_ * tnp.exp(-tnp.log1p(-choose(inside, q_, 0)) / b_), tnp.nan)


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
