"""The beta distribution: `tracer.scipy.stats.beta`."""

from __future__ import annotations

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.scipy import special
from tracer.scipy.choice import choose
from tracer.scipy.stats.arguments import floats


def logpdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Logarithm of the density.

    Parameters
    ----------
    x : array_like
        Where.
    a : array_like
        The first parameter, positive.
    b : array_like
        The second parameter, positive.
    loc, scale : array_like
        Shift and scale.
    """
    x_, a_, b_, loc_, scale_ = floats("beta.logpdf", x, a, b, loc, scale)
    z = (x_ - loc_) / scale_
    inside = (z >= 0) & (z <= 1)
    safe = choose(inside, z, 0.5)
    powers = special.xlogy(a_ - 1, safe) + special.xlog1py(b_ - 1, -safe)
    value = powers - special.betaln(a_, b_) - tnp.log(scale_)
    return choose(inside, value, choose(z != z, z, -tnp.inf))


def pdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Density.

    Parameters
    ----------
    x : array_like
        Where.
    a : array_like
        The first parameter, positive.
    b : array_like
        The second parameter, positive.
    loc, scale : array_like
        Shift and scale.
    """
    return tnp.exp(logpdf(x, a, b, loc, scale))


def cdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Probability of at most x.

    Parameters
    ----------
    x : array_like
        Where.
    a : array_like
        The first parameter, positive.
    b : array_like
        The second parameter, positive.
    loc, scale : array_like
        Shift and scale.
    """
    x_, a_, b_, loc_, scale_ = floats("beta.cdf", x, a, b, loc, scale)
    z = (x_ - loc_) / scale_
    return special.betainc(a_, b_, tnp.clip(z, 0, 1))


def logcdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Logarithm of `cdf`.

    Parameters
    ----------
    x : array_like
        Where.
    a : array_like
        The first parameter, positive.
    b : array_like
        The second parameter, positive.
    loc, scale : array_like
        Shift and scale.
    """
    return tnp.log(cdf(x, a, b, loc, scale))


def sf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of more than x, 1 - cdf.

    Parameters
    ----------
    x : array_like
        Where.
    a : array_like
        The first parameter, positive.
    b : array_like
        The second parameter, positive.
    loc, scale : array_like
        Shift and scale.
    """
    x_, a_, b_, loc_, scale_ = floats("beta.sf", x, a, b, loc, scale)
    z = (x_ - loc_) / scale_
    return special.betainc(b_, a_, 1 - tnp.clip(z, 0, 1))


def logsf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Logarithm of `sf`.

    Parameters
    ----------
    x : array_like
        Where.
    a : array_like
        The first parameter, positive.
    b : array_like
        The second parameter, positive.
    loc, scale : array_like
        Shift and scale.
    """
    return tnp.log(sf(x, a, b, loc, scale))


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]
