"""The gamma distribution: `tracer.scipy.stats.gamma`."""

from __future__ import annotations

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.scipy import special
from tracer.scipy.choice import choose
from tracer.scipy.floats import floats_together
from tracer.scipy.stats.docstrings import parameters
from tracer.scipy.tails import log_of_share

_described = parameters(a="The shape, positive.")


@_described
def logpdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density."""
    x_, a_, loc_, scale_ = floats_together("gamma.logpdf", x, a, loc, scale)
    z = (x_ - loc_) / scale_
    safe = choose(z < 0, 1, z)
    value = special.xlogy(a_ - 1, safe) - safe - special.gammaln(a_) - tnp.log(scale_)
    return choose(a_ > 0, choose(z < 0, -tnp.inf, value), tnp.nan)


@_described
def pdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density."""
    return tnp.exp(logpdf(x, a, loc, scale))


@_described
def cdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of at most x."""
    x_, a_, loc_, scale_ = floats_together("gamma.cdf", x, a, loc, scale)
    z = (x_ - loc_) / scale_
    return special.gammainc(a_, choose(z < 0, 0, z))


@_described
def logcdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of `cdf`."""
    return log_of_share(cdf(x, a, loc, scale), sf(x, a, loc, scale))


@_described
def sf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of more than x, 1 - cdf."""
    x_, a_, loc_, scale_ = floats_together("gamma.sf", x, a, loc, scale)
    z = (x_ - loc_) / scale_
    return special.gammaincc(a_, choose(z < 0, 0, z))


@_described
def logsf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of `sf`."""
    return log_of_share(sf(x, a, loc, scale), cdf(x, a, loc, scale))


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]
