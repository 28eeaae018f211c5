"""The exponential function as a polynomial: what a pass writes for float64 on CPUs.

XLA:CPU computes a float64 exponential with a quotient of polynomials in vectors of 256 bits. One
polynomial of additions and multiplications takes about half of that, in vectors of any width.

Source: Cody & Waite, *Software Manual for the Elementary Functions* (1980), chapter 6:
`exp(x) = 2**k * exp(r)` with `r = x - k ln 2` and `|r| <= ln(2) / 2`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer import ops
from tracer.ir import Op, ShapeDtype
from tracer.ir.combining import EXPONENTIAL
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
_INFINITY_BITS = 0x7FF << _EXPONENT_PLACE


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
    in_low_bits = b.add(k, number(_TO_LOW_BITS))
    # Of NaN both comparisons are false, and it has come through all of the above.
    is_infinite, is_zero = (
        b.compare("GT", x, number(_LARGEST)),
        b.compare("LT", x, number(_LEAST)),
    )
    return _scaled(b, reduced, in_low_bits, is_infinite, is_zero)


def _scaled(b: Any, x: Any, in_low_bits: Any, is_infinite: Any, is_zero: Any) -> Any:
    """Return x * 2**k: k is added to the exponent's bits, so 2**k itself need not be a number.

    Infinity and zero are put in as bits too: as numbers they would be masks (`builder_mask`).
    """
    type = ShapeDtype(x.shape, np.int64)
    place = b.splat(_EXPONENT_PLACE, type)
    exponent = b.shift_left(b.bitcast_convert(type, in_low_bits), place)
    bits = b.add(b.bitcast_convert(type, x), exponent)
    bits = b.select(is_infinite, b.splat(_INFINITY_BITS, type), bits)
    bits = b.select(is_zero, b.splat(0, type), bits)
    return b.bitcast_convert(ShapeDtype(x.shape, x.dtype), bits)


polynomial_exponential: Op = elementwise(
    "polynomial_exponential",
    1,
    np.exp,
    lambda g, out, x: (ops.multiply(g, out),),
    doc="e to the power x, of float64 by additions and multiplications: within a unit in the last "
    "place. Results below the least normal number are 0. Other dtypes as exponential.",
    kinds="f",
    flops=12,
    composed=_lower,
    response=EXPONENTIAL,
)
