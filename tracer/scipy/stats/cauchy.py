"""The Cauchy distribution: `tracer.scipy.stats.cauchy`."""

from __future__ import annotations

import math

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.scipy.choice import choose
from tracer.scipy.floats import floats_together
from tracer.scipy.stats.docstrings import parameters
from tracer.scipy.tails import log_of_one_and_square, log_of_share

_described = parameters()


def _quantile(q: Array) -> Array:
    """Return -cot(pi q), from the nearer end, or as tan(pi (q - 1/2)) from the middle."""
    is_low, is_middle = q < 0.5, abs(q - 0.5) <= 0.25
    distance = 1 / tnp.tan(math.pi * choose(is_middle, 0.25, choose(is_low, q, 1 - q)))
    middle = tnp.tan(math.pi * choose(is_middle, q - 0.5, 0))
    inside = (q >= 0) & (q <= 1)
    found = choose(is_middle, middle, choose(is_low, -distance, distance))
    return choose(inside, found, tnp.nan)


@_described
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density."""
    x_, loc_, scale_ = floats_together("cauchy.logpdf", x, loc, scale)
    z = (x_ - loc_) / scale_
    return -tnp.log(math.pi * scale_) - log_of_one_and_square(z)


@_described
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density."""
    return tnp.exp(logpdf(x, loc, scale))


@_described
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of at most x."""
    x_, loc_, scale_ = floats_together("cauchy.cdf", x, loc, scale)
    z = (x_ - loc_) / scale_
    return tnp.arctan2(tnp.ones_like(z), -z) / math.pi


@_described
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of `cdf`."""
    return log_of_share(cdf(x, loc, scale), sf(x, loc, scale))


@_described
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of more than x, 1 - cdf."""
    x_, loc_, scale_ = floats_together("cauchy.sf", x, loc, scale)
    z = (x_ - loc_) / scale_
    return tnp.arctan2(tnp.ones_like(z), z) / math.pi


@_described
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of `sf`."""
    return log_of_share(sf(x, loc, scale), cdf(x, loc, scale))


@_described
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Quantile: where `cdf` is q."""
    q_, loc_, scale_ = floats_together("cauchy.ppf", q, loc, scale)
    return loc_ + scale_ * _quantile(q_)


@_described
def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Where `sf` is q."""
    q_, loc_, scale_ = floats_together("cauchy.isf", q, loc, scale)
    return loc_ - scale_ * _quantile(q_)


__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
