"""Terms of divergences, and Box and Cox's transformation."""

from __future__ import annotations

import tracer.numpy as tnp
from tracer.array.array import Array
from tracer.numpy.ufunc import binary
from tracer.scipy.choice import choose
from tracer.scipy.floats import aligned_floats


def _kl_div(x: Array, y: Array) -> Array:
    x, y = aligned_floats("kl_div", x, y)
    both = (x > 0) & (y > 0)
    first, second = choose(both, x, 1), choose(both, y, 1)
    value = first * tnp.log(first / second) - first + second
    edge = choose((x == 0) & (y >= 0), y, tnp.inf)
    bad = (x != x) | (y != y)
    return choose(both, value, choose(bad, tnp.nan, edge))


def _boxcox(x: Array, y: Array) -> Array:
    x, power = aligned_floats("boxcox", x, y)
    return _power_less_one(tnp.log(x), power)


def _boxcox1p(x: Array, y: Array) -> Array:
    x, power = aligned_floats("boxcox1p", x, y)
    return _power_less_one(tnp.log1p(x), power)


def _power_less_one(logarithm: Array, power: Array) -> Array:
    at_zero = power == 0
    safe = choose(at_zero, 1, power)
    return choose(at_zero, logarithm, tnp.expm1(safe * logarithm) / safe)


kl_div = binary("kl_div", _kl_div, "x log(x / y) - x + y, a divergence's terms.", returns="Floats.")
boxcox = binary("boxcox", _boxcox, "(x^y - 1) / y, log(x) for y = 0.", returns="Floats.")
boxcox1p = binary("boxcox1p", _boxcox1p, "boxcox(1 + x, y), exact for small x.", returns="Floats.")
