"""The Bernoulli distribution: `tracer.scipy.stats.bernoulli`."""

from __future__ import annotations

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.scipy.choice import choose
from tracer.scipy.floats import floats_together
from tracer.scipy.stats.arguments import supported
from tracer.scipy.stats.docstrings import parameters

_described = parameters(p="The probability of 1.")


@_described
def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Logarithm of the probability."""
    k_, p_, loc_ = floats_together("bernoulli.logpmf", k, p, loc)
    x = k_ - loc_
    value = choose(x == 1, tnp.log(p_), tnp.log1p(-p_))
    return choose((p_ >= 0) & (p_ <= 1), supported((x == 0) | (x == 1), value, x), tnp.nan)


@_described
def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Probability."""
    return tnp.exp(logpmf(k, p, loc))


@_described
def cdf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Probability of at most k."""
    k_, p_, loc_ = floats_together("bernoulli.cdf", k, p, loc)
    x = k_ - loc_
    value = choose(x < 0, 0, choose(x < 1, 1 - p_, 1))
    return choose((p_ >= 0) & (p_ <= 1) & (x == x), value, tnp.nan)


@_described
def ppf(q: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Quantile: where `cdf` is q."""
    q_, p_, loc_ = floats_together("bernoulli.ppf", q, p, loc)
    good = (p_ >= 0) & (p_ <= 1) & (q_ >= 0) & (q_ <= 1)
    # Of 0 it is below all values, as of SciPy's other discrete distributions.
    step = choose(q_ == 0, -1 + 0 * q_, choose(q_ <= 1 - p_, 0 * q_, 1 + 0 * q_))
    return choose(good, step + loc_, tnp.nan)


__all__ = ["cdf", "logpmf", "pmf", "ppf"]
