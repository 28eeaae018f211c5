"""The normal distribution: `tracer.scipy.stats.norm`."""

from __future__ import annotations

import math

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.scipy import special
from tracer.scipy.floats import floats_together
from tracer.scipy.stats.docstrings import parameters

_described = parameters()


@_described
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density."""
    x_, loc_, scale_ = floats_together("norm.logpdf", x, loc, scale)
    z = (x_ - loc_) / scale_
    return -0.5 * z * z - tnp.log(scale_) - math.log(2 * math.pi) / 2


@_described
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density."""
    return tnp.exp(logpdf(x, loc, scale))


@_described
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of at most x."""
    x_, loc_, scale_ = floats_together("norm.cdf", x, loc, scale)
    return special.ndtr((x_ - loc_) / scale_)


@_described
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of `cdf`."""
    x_, loc_, scale_ = floats_together("norm.logcdf", x, loc, scale)
    return special.log_ndtr((x_ - loc_) / scale_)


@_described
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of more than x, 1 - cdf."""
    x_, loc_, scale_ = floats_together("norm.sf", x, loc, scale)
    return special.ndtr((loc_ - x_) / scale_)


@_described
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of `sf`."""
    x_, loc_, scale_ = floats_together("norm.logsf", x, loc, scale)
    return special.log_ndtr((loc_ - x_) / scale_)


@_described
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Quantile: where `cdf` is q."""
    q_, loc_, scale_ = floats_together("norm.ppf", q, loc, scale)
    return special.ndtri(q_) * scale_ + loc_


@_described
def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Where `sf` is q."""
    q_, loc_, scale_ = floats_together("norm.isf", q, loc, scale)
    return loc_ - special.ndtri(q_) * scale_


__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
