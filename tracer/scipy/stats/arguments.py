"""What the distributions share: their support, and where numbers are whole."""

from __future__ import annotations

import tracer.numpy as tnp
from tracer.array.array import Array
from tracer.scipy.choice import choose


def supported(inside: Array, value: Array, x: Array) -> Array:
    """Return the logarithm of a density: -inf where x is outside of the support, NaN where NaN."""
    return choose(inside, value, choose(x == x, -tnp.inf, x))


def is_whole(x: Array) -> Array:
    """Tell where x is a whole number."""
    return x == tnp.floor(x)
