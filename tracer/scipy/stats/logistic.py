"""The logistic distribution: `tracer.scipy.stats.logistic`."""

from __future__ import annotations

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.scipy import special
from tracer.scipy.floats import floats_together
from tracer.scipy.stats.docstrings import parameters

_described = parameters()


@_described
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density."""
    x_, loc_, scale_ = floats_together("logistic.logpdf", x, loc, scale)
    z = (x_ - loc_) / scale_
    return -abs(z) - 2 * tnp.log1p(tnp.exp(-abs(z))) - tnp.log(scale_)


@_described
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density."""
    return tnp.exp(logpdf(x, loc, scale))


@_described
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of at most x."""
    x_, loc_, scale_ = floats_together("logistic.cdf", x, loc, scale)
    return special.expit((x_ - loc_) / scale_)


@_described
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of more than x, 1 - cdf."""
    x_, loc_, scale_ = floats_together("logistic.sf", x, loc, scale)
    return special.expit((loc_ - x_) / scale_)


@_described
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Quantile: where `cdf` is q."""
    q_, loc_, scale_ = floats_together("logistic.ppf", q, loc, scale)
    return special.logit(q_) * scale_ + loc_


@_described
def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Where `sf` is q."""
    q_, loc_, scale_ = floats_together("logistic.isf", q, loc, scale)
    return loc_ - special.logit(q_) * scale_


__all__ = ["cdf", "isf", "logpdf", "pdf", "ppf", "sf"]
