"""Where the upper tail of the normal distribution has a share of the way between two tails."""

from __future__ import annotations

import math
from typing import Any

import tracer.numpy as tnp
from tracer.array.array import Array
from tracer.autodiff.transforms import custom_jvp
from tracer.scipy.choice import choose
from tracer.scipy.faddeeva import erfcx
from tracer.scipy.floats import in_float32

_ROOT_2 = math.sqrt(2)
_WIDEST = 60.0
"""So far above 1 the density is below the last digit of a float64."""
_STEPS = 5


@in_float32
def normal_above(low: Array, high: Array, unit: Array) -> Array:
    """Return where the tail above is a share of the way from that of `low` to that of `high`."""
    width = choose(high - low < _WIDEST, high - low, _WIDEST)
    far = low + width
    # Logarithms of tails, but for the square of `low`, in which all digits would be lost.
    ends = tnp.log(_mills(far) / _mills(low)) - width * (low + width / 2)
    beyond: Array = _beyond(low, -tnp.log1p(unit * tnp.expm1(ends)))
    return beyond


def _mills(x: Array) -> Array:
    """Return the tail above over the density."""
    return erfcx(x / _ROOT_2) * math.sqrt(math.pi / 2)


@custom_jvp
def _beyond(low: Array, drop: Array) -> Array:
    """Return where the logarithm of the tail is `drop` less than at `low`, by Newton's method.

    The start is not below, and the logarithm is concave: so the steps come from one side.
    """
    first = _mills(low)
    way = 2 * drop / (low + tnp.sqrt(low * low + 2 * drop))
    for _ in range(_STEPS):
        there = _mills(low + way)
        way = way - (way * (low + way / 2) - tnp.log(there / first) - drop) * there
    return low + way


def _beyond_rule(primals: Any, tangents: Any) -> Any:
    (low, drop), (of_low, of_drop) = primals, tangents
    value = _beyond(low, drop)
    return value, _mills(value) * (of_low / _mills(low) + of_drop)


_beyond.defjvp(_beyond_rule)


__all__ = ["normal_above"]
