"""The generalised normal distribution: `tracer.scipy.stats.gennorm`."""

from __future__ import annotations

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.scipy import special
from tracer.scipy.floats import floats_together
from tracer.scipy.stats.docstrings import parameters

_described = parameters(beta="The exponent, positive.")


@_described
def logpdf(x: ArrayLike, beta: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density."""
    x_, beta_, loc_, scale_ = floats_together("gennorm.logpdf", x, beta, loc, scale)
    z = (x_ - loc_) / scale_
    return tnp.log(beta_ / 2) - special.gammaln(1 / beta_) - abs(z) ** beta_ - tnp.log(scale_)


@_described
def pdf(x: ArrayLike, beta: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density."""
    return tnp.exp(logpdf(x, beta, loc, scale))


@_described
def cdf(x: ArrayLike, beta: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of at most x."""
    x_, beta_, loc_, scale_ = floats_together("gennorm.cdf", x, beta, loc, scale)
    z = (x_ - loc_) / scale_
    return (1 + tnp.sign(z) * special.gammainc(1 / beta_, abs(z) ** beta_)) / 2


__all__ = ["cdf", "logpdf", "pdf"]
