"""The exponential function as a polynomial: what a pass writes for float64 on CPUs.

XLA:CPU computes a float64 exponential with a quotient of polynomials in 256-bit vectors. A single
polynomial of additions and multiplications works with vectors of any width: a kernel product takes
0.72 of the time with it (docs/memory-model.md).

Source: Cody & Waite, *Software Manual for the Elementary Functions* (1980), chapter 6: `exp(x) =
2**k * exp(r)` with `r = x - k ln 2` and `|r| <= ln(2) / 2`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer import ops
from tracer.ir import Op, ShapeDtype
from tracer.ops.elementwise import elementwise

_LOG2_E = 1.4426950408889634
# ln 2 in two parts; of the first the last eleven bits are 0, so its product with k is exact.
_LN2_HIGH, _LN2_LOW = 0.6931471805598903, 5.497923018708371e-14
# Of (exp(r) - 1 - r) / r**2, from r**0 on: interpolated at the ten Chebyshev points of
# |r| <= ln(2) / 2. Their error is 1.7e-17 of exp(r), a seventh of half a unit in the last place.
_COEFFICIENTS = (
    0.5000000000000001,
    0.16666666666666669,
    0.04166666666662413,
    0.008333333333330062,
    0.0013888888917213717,
    0.00019841269863053618,
    2.4801521295954376e-05,
    2.7557268459997064e-06,
    2.7620088445409746e-07,
    2.510038549551032e-08,
)
# Above the largest the result is infinite; below the least it is no normal number, which is 0 in
# XLA:CPU (its threads flush them).
_LARGEST, _LEAST = 709.782712893384, -708.3964185322641
# Added to a small integer in float64, this leaves the integer in the lowest bits.
_TO_LOW_BITS = 1.5 * 2.0**52
_EXPONENT_PLACE = 52


def _lower(b: Any, x: Any) -> Any:
    if x.dtype != np.float64:
        return b.exponential(x)
    type = ShapeDtype(x.shape, x.dtype)

    def number(value: float) -> Any:
        return b.splat(value, type)

    k = b.round_nearest_even(b.multiply(x, number(_LOG2_E)))
    r = b.subtract(x, b.multiply(k, number(_LN2_HIGH)))
    r = b.subtract(r, b.multiply(k, number(_LN2_LOW)))
    *rest, polynomial = map(number, _COEFFICIENTS)
    for coefficient in reversed(rest):
        polynomial = b.add(b.multiply(polynomial, r), coefficient)
    reduced = b.add(number(1), b.add(r, b.multiply(b.multiply(r, r), polynomial)))
    bits = _scaled(b, reduced, b.add(k, number(_TO_LOW_BITS)))
    # Infinity and zero are put in as bits: as numbers they would be masks (`emit/stored.py`).
    # The first comparison is false for NaN too, whose own bits the scaling has changed.
    is_finite, is_zero = b.compare("LE", x, number(_LARGEST)), b.compare("LT", x, number(_LEAST))
    infinite_or_nan = b.bitcast_convert(bits.type, b.multiply(x, number(np.inf)))
    bits = b.select(is_finite, bits, infinite_or_nan)
    return b.bitcast_convert(type, b.select(is_zero, b.splat(0, bits.type), bits))


def _scaled(b: Any, x: Any, in_low_bits: Any) -> Any:
    """Return the bits of x * 2**k: k is added to the exponent, so 2**k need not be a number."""
    type = ShapeDtype(x.shape, np.int64)
    exponent = b.shift_left(b.bitcast_convert(type, in_low_bits), b.splat(_EXPONENT_PLACE, type))
    return b.add(b.bitcast_convert(type, x), exponent)


polynomial_exponential: Op = elementwise(
    "polynomial_exponential",
    1,
    np.exp,
    lambda g, out, x: (ops.multiply(g, out),),
    doc="e to the power x, of float64 by additions and multiplications: within 1.1 units in the "
    "last place. Results below the least normal number are 0. Other dtypes as exponential.",
    kinds="f",
    flops=12,
    composed=_lower,
)
