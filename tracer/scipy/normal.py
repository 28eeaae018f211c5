"""The standard normal distribution: `ndtr`, its logarithm, its quantile."""

from __future__ import annotations

import math
from typing import Any

import tracer.numpy as tnp
from tracer import ops
from tracer.array.array import Array
from tracer.array.dispatch import apply
from tracer.autodiff.transforms import custom_jvp
from tracer.numpy.ufunc import full_like, select, unary
from tracer.scipy.choice import choose
from tracer.scipy.floats import floats, in_float32


def _ndtr(x: Array) -> Array:
    x = floats("ndtr", x)
    scaled = apply(ops.multiply, x, full_like(x, -math.sqrt(0.5)))
    return apply(ops.multiply, full_like(x, 0.5), apply(ops.erfc, scaled))


ndtr = unary("ndtr", _ndtr, "Cumulative distribution of the standard normal.", returns="Floats.")


_TERMS = 10
"""Of the series: the first one left out is 4e-19 at -20, 1e-10 at -10."""


def _log_ndtr(x: Array) -> Array:
    return _logarithm(floats("log_ndtr", x))


@in_float32
def _logarithm(x: Array) -> Array:
    """Take three forms: log1p above 0, the logarithm between, a series below (DLMF 7.12.1)."""
    lowest = -20.0 if x.dtype.itemsize == 8 else -10.0
    # `where`, as the gradients of maximum and clip are halved at the borders themselves.
    above = tnp.log1p(-_ndtr(-tnp.where(x > 0.0, x, 0.0)))
    between = tnp.log(_ndtr(tnp.where((x < lowest) | (x > 0.0), 0.0, x)))
    far = tnp.where(x < lowest, x, lowest)
    inverse = 1 / (far * far)
    series: Any = 1
    for factor in range(2 * _TERMS - 1, 0, -2):
        series = 1 - factor * inverse * series
    below = -0.5 * far * far - tnp.log(-far) - 0.5 * math.log(2 * math.pi) + tnp.log(series)
    return select(x > 0.0, above, select(x < lowest, below, between))


log_ndtr = unary(
    "log_ndtr", _log_ndtr, "Logarithm of ndtr, accurate in both tails.", returns="Floats."
)


_BORDER = 0.05
_STEPS = 4


def _lower_tail(p: Array) -> Array:
    """Solve log(ndtr(y)) = log(p) by Newton's method, which converges from the far side.

    The tail is a logarithm and its ratio to the density an exponential of a small number: both
    underflow where p is among the smallest numbers.
    """
    goal = tnp.log(p)
    distance = tnp.sqrt(-2 * goal)
    y = -(distance - (tnp.log(distance) + math.log(2 * math.pi) / 2) / distance)
    for _ in range(_STEPS):
        tail = _logarithm(y)
        ratio = tnp.exp(tail + y * y / 2 + math.log(2 * math.pi) / 2)
        y = y - (tail - goal) * ratio
    return y


@custom_jvp
def _quantile(p: Array) -> Array:
    upper = p > 0.5
    small = choose(upper, 1 - p, p)
    in_tail = (small > 0) & (small < _BORDER)
    tail = _lower_tail(choose(in_tail, small, 0.01))
    middle = math.sqrt(2) * apply(ops.erf_inv, 2 * choose(in_tail, 0.5, small) - 1)
    value = choose(in_tail, tail, middle)
    inside = choose(small < 0, tnp.nan, value)  # 2 p - 1 rounds to -1, of which erf_inv is -inf
    return choose(upper, -inside, inside)


def _quantile_rule(primals: Any, tangents: Any) -> Any:
    value = _quantile(*primals)
    return value, tangents[0] * tnp.exp(value * value / 2) * math.sqrt(2 * math.pi)


_quantile.defjvp(_quantile_rule)


def _ndtri(p: Array) -> Array:
    return in_float32(_quantile)(floats("ndtri", p))


ndtri = unary("ndtri", _ndtri, "Quantile of the standard normal distribution.", returns="Floats.")
