"""The normal distribution between two bounds: `tracer.scipy.stats.truncnorm`."""

from __future__ import annotations

import math

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.scipy import special
from tracer.scipy.choice import choose
from tracer.scipy.floats import floats_together
from tracer.scipy.stats import norm
from tracer.scipy.stats.docstrings import parameters

_described = parameters(
    a="The lower bound, in scales from loc.", b="The upper bound, in scales from loc."
)


def _log_mass(a: Array, b: Array) -> Array:
    """Return the logarithm of the normal probability between two bounds, in the better tail.

    Around the middle it is one less the tails, or a difference of `erf` where that keeps more.
    """
    swaps = a > 0
    low, high = choose(swaps, -b, a), choose(swaps, -a, b)
    is_left = high <= -1
    far, near = choose(is_left, low, -3), choose(is_left, high, -2)
    first, second = special.log_ndtr(near), special.log_ndtr(far)
    # So far out that both logarithms overflow, all of the mass is at the nearer bound.
    left = first + tnp.log1p(-tnp.exp(choose(second > -tnp.inf, second - first, -tnp.inf)))
    wide, end = choose(is_left, -1, low), choose(is_left, 1, high)
    tails = special.ndtr(wide) + special.ndtr(-end)
    is_wide = tails < 0.5
    mass = (special.erf(end / math.sqrt(2)) - special.erf(wide / math.sqrt(2))) / 2
    middle = choose(
        is_wide, tnp.log1p(-choose(is_wide, tails, 0)), tnp.log(choose(is_wide, 1, mass))
    )
    return choose(is_left, left, middle)


def _between(a: Array, b: Array, value: Array) -> Array:
    """Return what holds between two bounds: NaN where they are in no order, or NaN."""
    return choose(a < b, value, tnp.nan)


@_described
def logpdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Logarithm of the density."""
    x_, a_, b_, loc_, scale_ = floats_together("truncnorm.logpdf", x, a, b, loc, scale)
    z = (x_ - loc_) / scale_
    value = norm.logpdf(z) - tnp.log(scale_) - _log_mass(a_, b_)
    return _between(a_, b_, choose((z >= a_) & (z <= b_), value, choose(z != z, z, -tnp.inf)))


@_described
def pdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Density."""
    return tnp.exp(logpdf(x, a, b, loc, scale))


@_described
def logcdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Logarithm of `cdf`."""
    x_, a_, b_, loc_, scale_ = floats_together("truncnorm.logcdf", x, a, b, loc, scale)
    z = (x_ - loc_) / scale_
    inside = (z > a_) & (z < b_)
    value = _log_mass(a_, choose(inside, z, b_)) - _log_mass(a_, b_)
    outside = choose(z >= b_, 0, choose(z != z, z, -tnp.inf))
    return _between(a_, b_, choose(inside, value, outside))


@_described
def cdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Probability of at most x."""
    return tnp.exp(logcdf(x, a, b, loc, scale))


@_described
def logsf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Logarithm of `sf`."""
    x_, a_, b_, loc_, scale_ = floats_together("truncnorm.logsf", x, a, b, loc, scale)
    z = (x_ - loc_) / scale_
    inside = (z > a_) & (z < b_)
    value = _log_mass(choose(inside, z, a_), b_) - _log_mass(a_, b_)
    outside = choose(z <= a_, 0, choose(z != z, z, -tnp.inf))
    return _between(a_, b_, choose(inside, value, outside))


@_described
def sf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of more than x, 1 - cdf."""
    return tnp.exp(logsf(x, a, b, loc, scale))


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]
