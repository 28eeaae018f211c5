"""The Poisson distribution: `tracer.scipy.stats.poisson`."""

from __future__ import annotations

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.scipy import special
from tracer.scipy.choice import choose
from tracer.scipy.floats import floats_together
from tracer.scipy.stats.arguments import is_whole, supported
from tracer.scipy.stats.docstrings import parameters

_described = parameters(mu="The mean, not negative.")


@_described
def logpmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Logarithm of the probability."""
    k_, mu_, loc_ = floats_together("poisson.logpmf", k, mu, loc)
    x = k_ - loc_
    inside = (x >= 0) & is_whole(x)
    safe = choose(inside, x, 0)
    value = special.xlogy(safe, mu_) - special.gammaln(safe + 1) - mu_
    return supported(inside, value, x)


@_described
def pmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Probability."""
    return tnp.exp(logpmf(k, mu, loc))


@_described
def cdf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Probability of at most k."""
    k_, mu_, loc_ = floats_together("poisson.cdf", k, mu, loc)
    x = tnp.floor(k_ - loc_)
    return choose(x < 0, 0, special.gammaincc(choose(x < 0, 0, x) + 1, mu_))


__all__ = ["cdf", "logpmf", "pmf"]
