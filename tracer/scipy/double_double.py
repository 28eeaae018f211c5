"""Numbers of two float64: a rounded sum and what it lost, about 31 digits.

References
----------
Dekker, A floating-point technique for extending the available precision, 1971; Hida, Li and Bailey,
Library for double-double arithmetic, 2000. Factors are cut by their bits, so that every product
below is exact: whether a compiler contracts it with a sum then makes no difference.
"""

from __future__ import annotations

import tracer.numpy as tnp
from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import convert
from tracer.array.dispatch import apply
from tracer.ir import as_dtype
from tracer.numpy.ufunc import full_like

Pair = tuple[Array, Array]
_UPPER = (1 << 64) - (1 << 27)
"""The sign, the exponent and the first 26 digits."""


def pair(x: Array) -> Pair:
    """Return a float64 as a pair."""
    return x, tnp.zeros_like(x)


def two_sum(x: Array, y: Array) -> Pair:
    """Return x + y exactly."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def _quick(x: Array, y: Array) -> Pair:
    """Return x + y exactly, where y is the smaller one."""
    total = x + y
    return total, y - (total - x)


def plus(x: Pair, y: Pair) -> Pair:
    """Return x + y, right to the last digits of the larger one."""
    total, rest = two_sum(x[0], y[0])
    return _quick(total, rest + x[1] + y[1])


def minus(x: Pair) -> Pair:
    """Return -x."""
    return -x[0], -x[1]


def _cut(x: Array) -> Pair:
    bits = apply(ops.bitcast_convert, x, dtype=as_dtype("uint64"))
    upper = apply(ops.and_, bits, full_like(bits, _UPPER))
    high = apply(ops.bitcast_convert, upper, dtype=x.dtype)
    return high, x - high


def times(x: Pair, y: Pair) -> Pair:
    """Return x * y."""
    (x_high, x_low), (y_high, y_low) = _cut(x[0]), _cut(y[0])
    first, lost = two_sum(x_high * y_high, x_high * y_low)
    total, also = two_sum(first, x_low * y_high)
    return _quick(total, lost + also + (x_low * y_low + (x[0] * y[1] + x[1] * y[0])))


def over(x: Pair, y: Pair) -> Pair:
    """Return x / y."""
    first = x[0] / y[0]
    rest = plus(x, minus(times(pair(first), y)))
    return _quick(first, rest[0] / y[0])


def wide(x: Array) -> Array:
    """Return an array as float64."""
    return convert(x, as_dtype("float64"))


__all__ = ["Pair", "minus", "over", "pair", "plus", "times", "two_sum", "wide"]
