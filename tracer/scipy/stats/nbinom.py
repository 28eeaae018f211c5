"""The negative binomial distribution: `tracer.scipy.stats.nbinom`."""

from __future__ import annotations

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.scipy import special
from tracer.scipy.choice import choose
from tracer.scipy.floats import floats_together
from tracer.scipy.stats.arguments import is_whole, supported
from tracer.scipy.stats.docstrings import parameters

_described = parameters(n="How many successes end the trials.", p="The probability of success.")


@_described
def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Logarithm of the probability."""
    k_, n_, p_, loc_ = floats_together("nbinom.logpmf", k, n, p, loc)
    x = k_ - loc_
    inside = (x >= 0) & is_whole(x)
    safe = choose(inside, x, 0)
    ways = special.gammaln(safe + n_) - special.gammaln(n_) - special.gammaln(safe + 1)
    value = ways + special.xlogy(n_, p_) + special.xlog1py(safe, -p_)
    good = (n_ > 0) & (p_ > 0) & (p_ <= 1)
    return choose(good, supported(inside, value, x), tnp.nan)


@_described
def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Probability."""
    return tnp.exp(logpmf(k, n, p, loc))


__all__ = ["logpmf", "pmf"]
