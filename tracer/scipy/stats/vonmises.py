"""The von Mises distribution: `tracer.scipy.stats.vonmises`."""

from __future__ import annotations

import math

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.scipy import special
from tracer.scipy.choice import choose
from tracer.scipy.floats import floats_together
from tracer.scipy.stats.docstrings import parameters

_described = parameters(kappa="The concentration, not negative.")


@_described
def logpdf(x: ArrayLike, kappa: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density."""
    x_, kappa_, loc_, scale_ = floats_together("vonmises.logpdf", x, kappa, loc, scale)
    z = (x_ - loc_) / scale_
    # cos(z) - 1, with the digits of small angles.
    fall = -2 * tnp.sin(z / 2) ** 2
    value = kappa_ * fall - tnp.log(2 * math.pi * special.i0e(kappa_)) - tnp.log(scale_)
    return choose(kappa_ >= 0, value, tnp.nan)


@_described
def pdf(x: ArrayLike, kappa: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density."""
    return tnp.exp(logpdf(x, kappa, loc, scale))


__all__ = ["logpdf", "pdf"]
