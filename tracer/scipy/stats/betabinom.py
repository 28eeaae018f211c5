"""The beta-binomial distribution: `tracer.scipy.stats.betabinom`."""

from __future__ import annotations

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.autodiff.transforms import stop_gradient
from tracer.scipy import special
from tracer.scipy.beta_function import log_weight
from tracer.scipy.choice import choose
from tracer.scipy.floats import floats_together
from tracer.scipy.stats.arguments import is_whole, supported
from tracer.scipy.stats.docstrings import parameters

_described = parameters(
    n="How many trials.", a="The first parameter, positive.", b="The second parameter, positive."
)


def _by_bayes(k: Array, n: Array, a: Array, b: Array) -> Array:
    """Return the logarithm of prior times likelihood over posterior, for 0 <= k <= n.

    The share at which they are taken does not matter; at the posterior's mean none is small, so
    they are not differences of huge numbers, as the logarithms of the beta functions alone are.
    """
    least = float(tnp.finfo(a.dtype).tiny)
    share = tnp.clip((k + a) / (n + a + b), least, 1 - float(tnp.finfo(a.dtype).epsneg))
    share = stop_gradient(share)

    def density(first: Array, second: Array) -> Array:
        powers = special.xlogy(first - 1, share) + special.xlog1py(second - 1, -share)
        return log_weight(first, second, share, powers, less=1)

    prior, posterior = density(a, b), density(k + a, n - k + b)
    return prior - posterior + density(k + 1, n - k + 1) - tnp.log1p(n)


@_described
def logpmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Logarithm of the probability."""
    k_, n_, a_, b_, loc_ = floats_together("betabinom.logpmf", k, n, a, b, loc)
    x = k_ - loc_
    inside = (x >= 0) & (x <= n_) & is_whole(x)
    safe = choose(inside, x, 0)
    value = _by_bayes(safe, n_, a_, b_)
    good = (n_ >= 0) & (a_ > 0) & (b_ > 0)
    return choose(good, supported(inside, value, x), tnp.nan)


@_described
def pmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Probability."""
    return tnp.exp(logpmf(k, n, a, b, loc))


__all__ = ["logpmf", "pmf"]
