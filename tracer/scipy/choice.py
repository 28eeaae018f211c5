"""Choosing element by element, for files that only choose between arrays."""

from __future__ import annotations

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike


def choose(condition: ArrayLike, x: ArrayLike, y: ArrayLike) -> Array:
    """Return x where the condition holds, else y; `tracer.numpy.where` of three arguments."""
    result: Array = tnp.where(condition, x, y)
    return result
