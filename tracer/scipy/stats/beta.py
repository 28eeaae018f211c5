"""The beta distribution: `tracer.scipy.stats.beta`."""

from __future__ import annotations

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.scipy import special
from tracer.scipy.beta_function import log_weight
from tracer.scipy.choice import choose
from tracer.scipy.floats import floats_together
from tracer.scipy.stats.docstrings import parameters
from tracer.scipy.tails import log_of_share

_described = parameters(a="The first parameter, positive.", b="The second parameter, positive.")


@_described
def logpdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Logarithm of the density."""
    x_, a_, b_, loc_, scale_ = floats_together("beta.logpdf", x, a, b, loc, scale)
    z = (x_ - loc_) / scale_
    inside = (z >= 0) & (z <= 1)
    safe = choose(inside, z, 0.5)
    powers = special.xlogy(a_ - 1, safe) + special.xlog1py(b_ - 1, -safe)
    value = log_weight(a_, b_, safe, powers, less=1) - tnp.log(scale_)
    good = (a_ > 0) & (b_ > 0)
    return choose(good, choose(inside, value, choose(z != z, z, -tnp.inf)), tnp.nan)


@_described
def pdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Density."""
    return tnp.exp(logpdf(x, a, b, loc, scale))


@_described
def cdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Probability of at most x."""
    x_, a_, b_, loc_, scale_ = floats_together("beta.cdf", x, a, b, loc, scale)
    z = (x_ - loc_) / scale_
    return special.betainc(a_, b_, tnp.clip(z, 0, 1))


@_described
def logcdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Logarithm of `cdf`."""
    return log_of_share(cdf(x, a, b, loc, scale), sf(x, a, b, loc, scale))


@_described
def sf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of more than x, 1 - cdf."""
    x_, a_, b_, loc_, scale_ = floats_together("beta.sf", x, a, b, loc, scale)
    z = tnp.clip((x_ - loc_) / scale_, 0, 1)
    # Below the mean 1 - z has lost the digits of z, on which it depends where a is small.
    is_low = z < a_ / (a_ + b_)
    return choose(is_low, 1 - special.betainc(a_, b_, z), special.betainc(b_, a_, 1 - z))


@_described
def logsf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Logarithm of `sf`."""
    return log_of_share(sf(x, a, b, loc, scale), cdf(x, a, b, loc, scale))


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]
