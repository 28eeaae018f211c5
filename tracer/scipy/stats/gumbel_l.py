"""The Gumbel distribution of smallest values: `tracer.scipy.stats.gumbel_l`."""

from __future__ import annotations

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.scipy.floats import floats_together
from tracer.scipy.stats.docstrings import parameters
from tracer.scipy.tails import log1mexp

_described = parameters()


@_described
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density."""
    x_, loc_, scale_ = floats_together("gumbel_l.logpdf", x, loc, scale)
    z = (x_ - loc_) / scale_
    return z - tnp.exp(z) - tnp.log(scale_)


@_described
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density."""
    return tnp.exp(logpdf(x, loc, scale))


@_described
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of at most x."""
    x_, loc_, scale_ = floats_together("gumbel_l.cdf", x, loc, scale)
    z = (x_ - loc_) / scale_
    return -tnp.expm1(-tnp.exp(z))


@_described
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of `cdf`."""
    x_, loc_, scale_ = floats_together("gumbel_l.logcdf", x, loc, scale)
    return log1mexp(tnp.exp((x_ - loc_) / scale_))


@_described
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of `sf`."""
    x_, loc_, scale_ = floats_together("gumbel_l.logsf", x, loc, scale)
    z = (x_ - loc_) / scale_
    return -tnp.exp(z)


@_described
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of more than x, 1 - cdf."""
    return tnp.exp(logsf(x, loc, scale))


@_described
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Quantile: where `cdf` is q."""
    q_, loc_, scale_ = floats_together("gumbel_l.ppf", q, loc, scale)
    return loc_ + scale_ * tnp.log(-tnp.log1p(-q_))


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
