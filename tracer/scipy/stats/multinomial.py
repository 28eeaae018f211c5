"""The multinomial distribution: `tracer.scipy.stats.multinomial`."""

from __future__ import annotations

import tracer.numpy as tnp
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, convert
from tracer.scipy import special
from tracer.scipy.choice import choose


def logpmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """Logarithm of the probability.

    Parameters
    ----------
    x : array_like, shape (..., k)
        How often each of k things comes.
    n : array_like
        How many trials; elsewhere than at sums of `n` the probability is 0.
    p : array_like, shape (..., k)
        The probabilities of the things.
    """
    shares = as_array(p)
    dtype = promotion.division_dtype(shares.dtype)
    shares, counts = convert(shares, dtype), convert(as_array(x), dtype)
    total = convert(as_array(n), dtype)
    terms = special.xlogy(counts, shares) - special.gammaln(counts + 1)
    value = special.gammaln(total + 1) + terms.sum(-1)
    return choose(counts.sum(-1) == total, value, -tnp.inf)


def pmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """Probability; see `logpmf`."""
    return tnp.exp(logpmf(x, n, p))


__all__ = ["logpmf", "pmf"]
