"""The logarithm of gamma with its digits near its zeros.

XLA's formula (Lanczos) is off by units in the last place of one, whatever is left of the logarithm:
at 1.0000000001 of float64 no more than five digits are right, and at 1 of float32 it is not 0.
Around both zeros a power series is taken instead.

Source: Abramowitz & Stegun, *Handbook of Mathematical Functions* (1964), 6.1.33: with t = x - 2,
lgamma(x) = (1 - Euler's constant) t + the sum of (-1)^k (zeta(k) - 1) t^k / k from k = 2. One less,
x = 1 + t, is log(1 + t) below.
"""

from __future__ import annotations

import math

import numpy as np

from tracer.ir import ShapeDtype
from tracer.lowering.emit.context import ModuleContext
from tracer.lowering.emit.dialect import add, and_, compare, multiply, select, splat, subtract
from tracer.lowering.emit.functions import log_plus_one
from tracer.lowering.emit.values import Operand
from tracer.lowering.shims import chlo

_EULER = 0.5772156649015329
_RATIO = math.log2(4)
"""Bits that each term of the series adds where |t| is a half."""
_SERIES = (
    0.3224670334241132,
    -0.0673523010531981,
    0.020580808427784546,
    -0.007385551028673986,
    0.0028905103307415234,
    -0.001192753911703261,
    0.0005096695247430425,
    -0.00022315475845357936,
    9.945751278180853e-05,
    -4.492623673813314e-05,
    2.0507212775670694e-05,
    -9.439488275268395e-06,
    4.374866789907487e-06,
    -2.039215753801366e-06,
    9.55141213040742e-07,
    -4.492469198764566e-07,
    2.1207184805554667e-07,
    -1.00432248239681e-07,
    4.769810169363981e-08,
    -2.2711094608943164e-08,
    1.0838659214896955e-08,
    -5.183475041970047e-09,
    2.4836745438024785e-09,
    -1.1921401405860912e-09,
    5.731367241678862e-10,
    -2.7595228851242334e-10,
    1.3304764374244491e-10,
)
"""(-1)^k (zeta(k) - 1) / k from k = 2."""


def lgamma(b: ModuleContext, x: Operand) -> Operand:
    """Emit `lgamma`."""
    found = Operand(chlo.lgamma(x.raw))
    if x.dtype not in (np.float32, np.float64):
        return found
    type, bits = x.type, np.finfo(x.dtype).nmant

    def is_between(low: float, high: float) -> Operand:
        above = compare(b, "GE", x, splat(b, low, type))
        return and_(above, compare(b, "LE", x, splat(b, high, type)))

    is_near, is_first = is_between(0.5, 2.5), is_between(0.5, 1.5)
    one, zero = splat(b, 1, type), splat(b, 0, type)
    apart = subtract(x, select(b, is_first, one, splat(b, 2, type)))
    # Far from both the result is not used: there the series would overflow.
    apart = select(b, is_near, apart, zero)
    series = _polynomial(b, apart, (1 - _EULER, *_SERIES[: 1 + round(bits / _RATIO)]), type)
    below = select(b, is_first, log_plus_one(b, apart), zero)
    return select(b, is_near, subtract(multiply(series, apart), below), found)


def _polynomial(
    b: ModuleContext, x: Operand, coefficients: tuple[float, ...], type: ShapeDtype
) -> Operand:
    total = splat(b, coefficients[-1], type)
    for coefficient in coefficients[-2::-1]:
        total = add(multiply(total, x), splat(b, coefficient, type))
    return total
