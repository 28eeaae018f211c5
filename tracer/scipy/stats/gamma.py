"""The gamma distribution: `tracer.scipy.stats.gamma`."""

from __future__ import annotations

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.scipy import special
from tracer.scipy.choice import choose
from tracer.scipy.stats.arguments import floats


def logpdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density.

    Parameters
    ----------
    x : array_like
        Where.
    a : array_like
        The shape, positive.
    loc, scale : array_like
        Shift and scale.
    """
    x_, a_, loc_, scale_ = floats("gamma.logpdf", x, a, loc, scale)
    z = (x_ - loc_) / scale_
    safe = choose(z < 0, 1, z)
    value = special.xlogy(a_ - 1, safe) - safe - special.gammaln(a_) - tnp.log(scale_)
    return choose(z < 0, -tnp.inf, value)


def pdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density.

    Parameters
    ----------
    x : array_like
        Where.
    a : array_like
        The shape, positive.
    loc, scale : array_like
        Shift and scale.
    """
    return tnp.exp(logpdf(x, a, loc, scale))


def cdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of at most x.

    Parameters
    ----------
    x : array_like
        Where.
    a : array_like
        The shape, positive.
    loc, scale : array_like
        Shift and scale.
    """
    x_, a_, loc_, scale_ = floats("gamma.cdf", x, a, loc, scale)
    z = (x_ - loc_) / scale_
    return special.gammainc(a_, choose(z < 0, 0, z))


def logcdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of `cdf`.

    Parameters
    ----------
    x : array_like
        Where.
    a : array_like
        The shape, positive.
    loc, scale : array_like
        Shift and scale.
    """
    return tnp.log(cdf(x, a, loc, scale))


def sf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of more than x, 1 - cdf.

    Parameters
    ----------
    x : array_like
        Where.
    a : array_like
        The shape, positive.
    loc, scale : array_like
        Shift and scale.
    """
    x_, a_, loc_, scale_ = floats("gamma.sf", x, a, loc, scale)
    z = (x_ - loc_) / scale_
    return special.gammaincc(a_, choose(z < 0, 0, z))


def logsf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of `sf`.

    Parameters
    ----------
    x : array_like
        Where.
    a : array_like
        The shape, positive.
    loc, scale : array_like
        Shift and scale.
    """
    return tnp.log(sf(x, a, loc, scale))


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]
