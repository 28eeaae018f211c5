"""The geometric distribution: `tracer.scipy.stats.geom`."""

from __future__ import annotations

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.scipy import special
from tracer.scipy.choice import choose
from tracer.scipy.floats import floats_together
from tracer.scipy.stats.arguments import is_whole, supported
from tracer.scipy.stats.docstrings import parameters

_described = parameters(p="The probability of success.")


@_described
def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Logarithm of the probability."""
    k_, p_, loc_ = floats_together("geom.logpmf", k, p, loc)
    x = k_ - loc_
    inside = (x >= 1) & is_whole(x)
    safe = choose(inside, x, 1)
    value = special.xlog1py(safe - 1, -p_) + tnp.log(p_)
    return choose((p_ > 0) & (p_ <= 1), supported(inside, value, x), tnp.nan)


@_described
def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Probability."""
    return tnp.exp(logpmf(k, p, loc))


__all__ = ["logpmf", "pmf"]
