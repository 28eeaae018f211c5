"""The generalised normal distribution: `tracer.scipy.stats.gennorm`."""

from __future__ import annotations

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.scipy import special
from tracer.scipy.stats.arguments import floats


def logpdf(x: ArrayLike, beta: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density.

    Parameters
    ----------
    x : array_like
        Where.
    beta : array_like
        The exponent, positive.
    loc, scale : array_like
        Shift and scale.
    """
    x_, beta_, loc_, scale_ = floats("gennorm.logpdf", x, beta, loc, scale)
    z = (x_ - loc_) / scale_
    return tnp.log(beta_ / 2) - special.gammaln(1 / beta_) - abs(z) ** beta_ - tnp.log(scale_)


def pdf(x: ArrayLike, beta: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density.

    Parameters
    ----------
    x : array_like
        Where.
    beta : array_like
        The exponent, positive.
    loc, scale : array_like
        Shift and scale.
    """
    return tnp.exp(logpdf(x, beta, loc, scale))


def cdf(x: ArrayLike, beta: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of at most x.

    Parameters
    ----------
    x : array_like
        Where.
    beta : array_like
        The exponent, positive.
    loc, scale : array_like
        Shift and scale.
    """
    x_, beta_, loc_, scale_ = floats("gennorm.cdf", x, beta, loc, scale)
    z = (x_ - loc_) / scale_
    return (1 + tnp.sign(z) * special.gammainc(1 / beta_, abs(z) ** beta_)) / 2


__all__ = ["cdf", "logpdf", "pdf"]
