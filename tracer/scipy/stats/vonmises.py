"""The von Mises distribution: `tracer.scipy.stats.vonmises`."""

from __future__ import annotations

import math

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.scipy import special
from tracer.scipy.choice import choose
from tracer.scipy.stats.arguments import floats


def logpdf(x: ArrayLike, kappa: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density.

    Parameters
    ----------
    x : array_like
        Where.
    kappa : array_like
        The concentration, positive.
    loc, scale : array_like
        Shift and scale.
    """
    x_, kappa_, loc_, scale_ = floats("vonmises.logpdf", x, kappa, loc, scale)
    z = (x_ - loc_) / scale_
    value = kappa_ * (tnp.cos(z) - 1) - tnp.log(2 * math.pi * special.i0e(kappa_)) - tnp.log(scale_)
    return choose(kappa_ > 0, value, tnp.nan)


def pdf(x: ArrayLike, kappa: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density.

    Parameters
    ----------
    x : array_like
        Where.
    kappa : array_like
        The concentration, positive.
    loc, scale : array_like
        Shift and scale.
    """
    return tnp.exp(logpdf(x, kappa, loc, scale))


__all__ = ["logpdf", "pdf"]
