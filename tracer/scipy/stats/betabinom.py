"""The beta-binomial distribution: `tracer.scipy.stats.betabinom`."""

from __future__ import annotations

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.scipy import special
from tracer.scipy.choice import choose
from tracer.scipy.floats import floats_together
from tracer.scipy.stats.arguments import is_whole, supported
from tracer.scipy.stats.docstrings import parameters

_described = parameters(
    n="How many trials.", a="The first parameter, positive.", b="The second parameter, positive."
)


@_described
def logpmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Logarithm of the probability."""
    k_, n_, a_, b_, loc_ = floats_together("betabinom.logpmf", k, n, a, b, loc)
    x = k_ - loc_
    inside = (x >= 0) & (x <= n_) & is_whole(x)
    safe = choose(inside, x, 0)
    ways = -tnp.log1p(n_) - special.betaln(n_ - safe + 1, safe + 1)
    value = ways + special.betaln(safe + a_, n_ - safe + b_) - special.betaln(a_, b_)
    good = (n_ >= 0) & (a_ > 0) & (b_ > 0)
    return choose(good, supported(inside, value, x), tnp.nan)


@_described
def pmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Probability."""
    return tnp.exp(logpmf(k, n, a, b, loc))


__all__ = ["logpmf", "pmf"]
