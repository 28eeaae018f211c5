"""The uniform distribution from loc to loc + scale: `tracer.scipy.stats.uniform`."""

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
    x_, loc_, scale_ = floats_together("uniform.logpdf", x, loc, scale)
    inside = (x_ >= loc_) & (x_ <= loc_ + scale_)
    value = choose(inside, -tnp.log(scale_), -tnp.inf)
    return choose((x_ == x_) & (loc_ == loc_) & (scale_ == scale_), value, tnp.nan)


@_described
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density."""
    return tnp.exp(logpdf(x, loc, scale))


@_described
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of at most x."""
    x_, loc_, scale_ = floats_together("uniform.cdf", x, loc, scale)
    z = (x_ - loc_) / scale_
    return choose(z <= 0, 0, choose(z >= 1, 1, z))


@_described
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Quantile: where `cdf` is q."""
    q_, loc_, scale_ = floats_together("uniform.ppf", q, loc, scale)
    return choose((q_ >= 0) & (q_ <= 1), q_ * scale_ + loc_, tnp.nan)


__all__ = ["cdf", "logpdf", "pdf", "ppf"]
