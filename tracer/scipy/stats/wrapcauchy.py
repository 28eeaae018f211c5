"""The wrapped Cauchy distribution: `tracer.scipy.stats.wrapcauchy`."""

from __future__ import annotations

import math

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.scipy.choice import choose
from tracer.scipy.floats import floats_together
from tracer.scipy.stats.arguments import supported
from tracer.scipy.stats.docstrings import parameters

_described = parameters(c="The concentration, between 0 and 1.")


@_described
def logpdf(x: ArrayLike, c: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density."""
    x_, c_, loc_, scale_ = floats_together("wrapcauchy.logpdf", x, c, loc, scale)
    z = (x_ - loc_) / scale_
    # 1 + c^2 - 2 c cos(z), with the digits of small angles and of c close to 1.
    distance = (1 - c_) ** 2 + 4 * c_ * tnp.sin(z / 2) ** 2
    value = tnp.log((1 - c_) * (1 + c_) / (2 * math.pi * distance)) - tnp.log(scale_)
    inside = (z >= 0) & (z <= 2 * math.pi)
    return choose((c_ > 0) & (c_ < 1), supported(inside, value, z), tnp.nan)


@_described
def pdf(x: ArrayLike, c: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density."""
    return tnp.exp(logpdf(x, c, loc, scale))


__all__ = ["logpdf", "pdf"]
