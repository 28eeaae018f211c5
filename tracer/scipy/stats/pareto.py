"""The Pareto distribution: `tracer.scipy.stats.pareto`."""

from __future__ import annotations

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.scipy.choice import choose
from tracer.scipy.floats import floats_together
from tracer.scipy.stats.arguments import supported
from tracer.scipy.stats.docstrings import parameters
from tracer.scipy.tails import log1mexp

_described = parameters(b="The exponent, positive.")


def _of_positive(b: Array, value: Array) -> Array:
    """Return a value, or NaN where the exponent is none."""
    return choose(b > 0, value, tnp.nan)


@_described
def logpdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density."""
    x_, b_, loc_, scale_ = floats_together("pareto.logpdf", x, b, loc, scale)
    z = (x_ - loc_) / scale_
    inside = z >= 1
    safe = choose(inside, z, 1)
    value = tnp.log(b_ / scale_) - (b_ + 1) * tnp.log(safe)
    return _of_positive(b_, supported(inside, value, z))


@_described
def pdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density."""
    return tnp.exp(logpdf(x, b, loc, scale))


@_described
def logsf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of `sf`."""
    x_, b_, loc_, scale_ = floats_together("pareto.logsf", x, b, loc, scale)
    z = (x_ - loc_) / scale_
    return _of_positive(b_, choose(z < 1, 0, -b_ * tnp.log(choose(z < 1, 1, z))))


@_described
def sf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of more than x, 1 - cdf."""
    return tnp.exp(logsf(x, b, loc, scale))


@_described
def cdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of at most x."""
    x_, b_, loc_, scale_ = floats_together("pareto.cdf", x, b, loc, scale)
    z = (x_ - loc_) / scale_
    value = -tnp.expm1(-b_ * tnp.log(choose(z < 1, 1, z)))
    return _of_positive(b_, choose(z < 1, 0, value))


@_described
def logcdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of `cdf`."""
    x_, b_, loc_, scale_ = floats_together("pareto.logcdf", x, b, loc, scale)
    z = (x_ - loc_) / scale_
    value = log1mexp(b_ * tnp.log(choose(z <= 1, 2, z)))
    return _of_positive(b_, choose(z <= 1, -tnp.inf, value))


@_described
def ppf(q: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Quantile: where `cdf` is q."""
    q_, b_, loc_, scale_ = floats_together("pareto.ppf", q, b, loc, scale)
    inside = (q_ >= 0) & (q_ <= 1)
    inside = inside & (b_ > 0)
    return choose(inside, loc_ + scale_ * tnp.exp(-tnp.log1p(-choose(inside, q_, 0)) / b_), tnp.nan)


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
