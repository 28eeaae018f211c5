"""The binomial distribution: `tracer.scipy.stats.binom`."""

from __future__ import annotations

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.scipy import special
from tracer.scipy.choice import choose
from tracer.scipy.floats import floats_together
from tracer.scipy.stats.arguments import is_whole, supported
from tracer.scipy.stats.docstrings import parameters

_described = parameters(n="How many trials.", p="The probability of success.")


@_described
def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Logarithm of the probability."""
    k_, n_, p_, loc_ = floats_together("binom.logpmf", k, n, p, loc)
    x = k_ - loc_
    inside = (x >= 0) & (x <= n_) & is_whole(x)
    safe = choose(inside, x, 0)
    ways = special.gammaln(n_ + 1) - special.gammaln(safe + 1) - special.gammaln(n_ - safe + 1)
    value = ways + special.xlogy(safe, p_) + special.xlog1py(n_ - safe, -p_)
    good = (n_ >= 0) & (p_ >= 0) & (p_ <= 1)
    return choose(good, supported(inside, value, x), tnp.nan)


@_described
def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Probability."""
    return tnp.exp(logpmf(k, n, p, loc))


__all__ = ["logpmf", "pmf"]
