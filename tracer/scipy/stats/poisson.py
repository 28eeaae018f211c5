"""The Poisson distribution: `tracer.scipy.stats.poisson`."""

from __future__ import annotations

import math

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.scipy import special
from tracer.scipy.choice import choose
from tracer.scipy.floats import floats_together, in_float32
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
    return choose(mu_ >= 0, supported(inside, value, x), tnp.nan)


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


_DIRECT_BELOW, _MOST = 100.0, 256
"""Up to this mean the terms are summed, as many; the rest is below 1e-35."""


@_described
def entropy(mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Entropy, of natural logarithms: a sum, and above a mean of 100 an asymptotic series.

    References
    ----------
    Evans, Boersma, Blachman and Jagers, The entropy of a Poisson distribution, SIAM Review 30
    (1988), problem 87-6. Relative errors, measured: 4e-10, in float32 7e-5.
    """
    mean, shift = floats_together("poisson.entropy", mu, loc)
    result: Array = in_float32(_entropy)(mean)
    return choose((mean >= 0) & (shift == shift), result, tnp.full_like(mean, tnp.nan))


def _entropy(mean: Array) -> Array:
    is_small = mean < _DIRECT_BELOW
    positive = is_small & (mean > 0)
    small = choose(positive, mean, 1)[..., None]
    k = tnp.arange(_MOST).astype(mean.dtype)
    logarithm = k * tnp.log(small) - small - special.gammaln(k + 1)
    total = choose(positive, -(tnp.exp(logarithm) * logarithm).sum(-1), 0)
    large = choose(is_small, _DIRECT_BELOW, mean)
    inverse = 1 / large
    series = inverse * (1 / 12 + inverse * (1 / 24 + inverse * (19 / 360)))
    return choose(is_small, total, tnp.log(2 * math.pi * math.e * large) / 2 - series)


__all__ = ["cdf", "entropy", "logpmf", "pmf"]
