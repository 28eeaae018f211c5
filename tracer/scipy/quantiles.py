"""The quantile of the normal distribution, unscaled Bessel functions, divergences, Box and Cox."""

from __future__ import annotations

import math
from typing import Any

import tracer.numpy as tnp
from tracer import ops
from tracer.array import promotion
from tracer.array.array import Array
from tracer.array.convert import convert
from tracer.array.dispatch import apply
from tracer.autodiff.transforms import custom_jvp
from tracer.ir import as_dtype
from tracer.numpy.ufunc import align, binary, real_floats, unary
from tracer.scipy.bessel import i0e, i1e
from tracer.scipy.choice import choose


def _floats(name: str, x: Array) -> Array:
    return real_floats(name, convert(x, promotion.division_dtype(x.dtype)))


_BORDER = 0.05
_STEPS = 4


def _lower_tail(p: Array) -> Array:
    """Solve log(ndtr(y)) = log(p) by Newton's method, which converges from the far side."""
    goal = tnp.log(p)
    distance = tnp.sqrt(-2 * goal)
    y = -(distance - (tnp.log(distance) + math.log(2 * math.pi) / 2) / distance)
    for _ in range(_STEPS):
        tail = apply(ops.erfc, -y * math.sqrt(0.5)) / 2
        density = tnp.exp(-y * y / 2) / math.sqrt(2 * math.pi)
        y = y - (tnp.log(tail) - goal) * tail / density
    return y


@custom_jvp
def _quantile(p: Array) -> Array:
    if p.dtype.itemsize < 4:
        return convert(_quantile(convert(p, as_dtype("float32"))), p.dtype)
    upper = p > 0.5
    small = choose(upper, 1 - p, p)
    in_tail = (small > 0) & (small < _BORDER)
    tail = _lower_tail(choose(in_tail, small, 0.01))
    middle = math.sqrt(2) * apply(ops.erf_inv, 2 * choose(in_tail, 0.5, small) - 1)
    value = choose(in_tail, tail, middle)
    return choose(upper, -value, value)


def _quantile_rule(primals: Any, tangents: Any) -> Any:
    value = _quantile(*primals)
    return value, tangents[0] * tnp.exp(value * value / 2) * math.sqrt(2 * math.pi)


_quantile.defjvp(_quantile_rule)


def _ndtri(p: Array) -> Array:
    result: Array = _quantile(_floats("ndtri", p))
    return result


def _kl_div(x: Array, y: Array) -> Array:
    x, y = _aligned("kl_div", x, y)
    both = (x > 0) & (y > 0)
    first, second = choose(both, x, 1), choose(both, y, 1)
    value = first * tnp.log(first / second) - first + second
    edge = choose((x == 0) & (y >= 0), y, tnp.inf)
    bad = (x != x) | (y != y)
    return choose(both, value, choose(bad, tnp.nan, edge))


def _aligned(name: str, x: Array, y: Array) -> tuple[Array, Array]:
    dtype = promotion.division_dtype(promotion.promote_types(x.dtype, y.dtype))
    first, second = align(name, x, y, dtype)
    return real_floats(name, first), real_floats(name, second)


def _boxcox(x: Array, y: Array) -> Array:
    x, power = _aligned("boxcox", x, y)
    return _power_less_one(tnp.log(x), power)


def _boxcox1p(x: Array, y: Array) -> Array:
    x, power = _aligned("boxcox1p", x, y)
    return _power_less_one(tnp.log1p(x), power)


def _power_less_one(logarithm: Array, power: Array) -> Array:
    at_zero = power == 0
    safe = choose(at_zero, 1, power)
    return choose(at_zero, logarithm, tnp.expm1(safe * logarithm) / safe)


def _i0(x: Array) -> Array:
    x = _floats("i0", x)
    return tnp.exp(abs(x)) * i0e(x)


def _i1(x: Array) -> Array:
    x = _floats("i1", x)
    return tnp.exp(abs(x)) * i1e(x)


_FLOATS = "Floats."
ndtri = unary("ndtri", _ndtri, "Quantile of the standard normal distribution.", returns=_FLOATS)
i0 = unary("i0", _i0, "Modified Bessel function of order 0.", returns=_FLOATS)
i1 = unary("i1", _i1, "Modified Bessel function of order 1.", returns=_FLOATS)
kl_div = binary("kl_div", _kl_div, "x log(x / y) - x + y, a divergence's terms.", returns=_FLOATS)
boxcox = binary("boxcox", _boxcox, "(x^y - 1) / y, log(x) for y = 0.", returns=_FLOATS)
boxcox1p = binary("boxcox1p", _boxcox1p, "boxcox(1 + x, y), exact for small x.", returns=_FLOATS)

__all__ = ["boxcox", "boxcox1p", "i0", "i1", "kl_div", "ndtri"]
