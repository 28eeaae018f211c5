"""The exponential distribution: `tracer.scipy.stats.expon`."""

from __future__ import annotations

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.scipy.choice import choose
from tracer.scipy.floats import floats_together
from tracer.scipy.stats.docstrings import parameters
from tracer.scipy.tails import log1mexp

_described = parameters()


@_described
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density."""
    x_, loc_, scale_ = floats_together("expon.logpdf", x, loc, scale)
    z = (x_ - loc_) / scale_
    return choose(z < 0, -tnp.inf, -z - tnp.log(scale_))


@_described
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density."""
    return tnp.exp(logpdf(x, loc, scale))


@_described
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of at most x."""
    x_, loc_, scale_ = floats_together("expon.cdf", x, loc, scale)
    z = (x_ - loc_) / scale_
    return choose(z < 0, 0, -tnp.expm1(-choose(z < 0, 0, z)))


@_described
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of `cdf`."""
    x_, loc_, scale_ = floats_together("expon.logcdf", x, loc, scale)
    z = (x_ - loc_) / scale_
    safe = choose(z <= 0, 1, z)
    return choose(z <= 0, -tnp.inf, log1mexp(safe))


@_described
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of more than x, 1 - cdf."""
    return tnp.exp(logsf(x, loc, scale))


@_described
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of `sf`."""
    x_, loc_, scale_ = floats_together("expon.logsf", x, loc, scale)
    z = (x_ - loc_) / scale_
    return choose(z < 0, 0, -z)


@_described
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Quantile: where `cdf` is q."""
    q_, loc_, scale_ = floats_together("expon.ppf", q, loc, scale)
    inside = (q_ >= 0) & (q_ <= 1)
    return choose(inside, loc_ - scale_ * tnp.log1p(-choose(inside, q_, 0)), tnp.nan)


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
