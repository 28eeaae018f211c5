"""The Laplace distribution: `tracer.scipy.stats.laplace`."""

from __future__ import annotations

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.scipy.choice import choose
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
    x_, loc_, scale_ = floats("laplace.logpdf", x, loc, scale)
    z = (x_ - loc_) / scale_
    return -abs(z) - tnp.log(2 * scale_)


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
    x_, loc_, scale_ = floats("laplace.cdf", x, loc, scale)
    z = (x_ - loc_) / scale_
    half = tnp.exp(-abs(z)) / 2
    return choose(z <= 0, half, 1 - half)


__all__ = ["cdf", "logpdf", "pdf"]
