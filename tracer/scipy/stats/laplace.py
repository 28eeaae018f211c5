"""The Laplace distribution: `tracer.scipy.stats.laplace`."""

from __future__ import annotations

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.scipy.choice import choose
from tracer.scipy.floats import floats_together
from tracer.scipy.stats.docstrings import parameters

_described = parameters()


@_described
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density."""
    x_, loc_, scale_ = floats_together("laplace.logpdf", x, loc, scale)
    z = (x_ - loc_) / scale_
    return -abs(z) - tnp.log(2 * scale_)


@_described
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density."""
    return tnp.exp(logpdf(x, loc, scale))


@_described
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of at most x."""
    x_, loc_, scale_ = floats_together("laplace.cdf", x, loc, scale)
    z = (x_ - loc_) / scale_
    half = tnp.exp(-abs(z)) / 2
    return choose(z <= 0, half, 1 - half)


__all__ = ["cdf", "logpdf", "pdf"]
