"""Both tails of the gamma distribution, and their derivatives with respect to its parameter.

References
----------
Cephes (Moshier 1989), igam.c: the power series below max(1, a), with its derivative carried along,
as in JAX. Elsewhere the smaller tail is integrated by Gauss and Legendre's rule, from x as far as
the density is above the last digit of its value at x; Press et al., Numerical Recipes, section 6.2,
do so for large parameters. DLMF 5.11.1 and 5.11.2: Stirling's series and that of digamma.

All is relative to x**a exp(-x) / gamma(a + 1), and no differences of large numbers are taken: so
digits are kept for parameters of any size.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import tracer.numpy as tnp
from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import convert
from tracer.array.dispatch import apply, compound, from_host
from tracer.array.recording import CONSTANT_SIZE
from tracer.ir import as_dtype
from tracer.scipy.choice import choose
from tracer.scipy.floats import in_float32, polynomial
from tracer.scipy.iteration import repeat

_LOG_CIRCLE = math.log(2 * math.pi)
LARGE = 10
"""From this parameter on both tails are integrated, and the asymptotic series have all digits."""
_TERMS = {4: 28, 8: 42}
"""Of the power series below that parameter, by the bytes of a float."""
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)


_SMALL = 0.05
_LOG_GAMMA = (
    -0.5772156649015329,
    0.8224670334241132,
    -0.40068563438653143,
    0.27058080842778454,
    -0.207385551028674,
    0.16955717699740822,
    -0.14404989676884614,
    0.12550966952474304,
    -0.11133426586956469,
    0.10009945751278179,
    -0.09095401714582904,
    0.083353840546109,
)
"""Of log gamma(1 + a) / a in powers of a: zeta(k) / k with alternating signs (DLMF 5.7.3)."""
_LEAST_TERMS = 20
"""Of an alternating series up to x = 1: the first one left out is below 1 / 20!."""


@compound
def tails(a: Array, x: Array) -> tuple[Array, ...]:
    """Return P(a, x), Q(a, x) and dP/da; 16 bits are computed in 32.

    The derivative is 0 at a = 0.
    """
    if a.dtype.itemsize < 4:
        wide = [convert(y, as_dtype("float32")) for y in (a, x)]
        return tuple(convert(y, a.dtype) for y in tails(*wide))
    inside = (a > 0) & (x > 0) & (a < tnp.inf) & (x < tnp.inf)
    safe_a, safe_x = choose(inside, a, 1), choose(inside, x, 0.5)
    power = tnp.exp(_log_power(safe_a, safe_x))
    value, slope = _over_power(safe_a, safe_x)
    tail = power * value
    is_lower = _takes_lower(safe_a, safe_x)
    small = _upper_of_small(choose(safe_x <= 1, safe_a, 1), choose(safe_x <= 1, safe_x, 1))
    is_small = (safe_x <= 1) & (safe_a <= 1)
    found = (
        choose(is_lower, tail, 1 - tail),
        choose(is_small, small, choose(is_lower, 1 - tail, tail)),
        choose(power > 0, -power * slope, 0),
    )
    # a = 0 and x = infinity are 1, x = 0 and a = infinity are 0; both at once and negative are NaN.
    bad = _outside(a, x) | ((a == 0) & (x == 0))
    full = choose((a == 0) | (x == tnp.inf), tnp.ones_like(x), 0)
    edge = choose(bad, tnp.nan, full)
    edges = (edge, 1 - edge, choose(bad, tnp.nan, 0 * full))
    return tuple(choose(inside, value, end) for value, end in zip(found, edges, strict=True))


@in_float32
@compound
def sample_slope(a: Array, x: Array) -> Array:
    """Return -(dP/da) / (dP/dx), of which no factor over- or underflows."""
    inside = (a > 0) & (x > 0) & (a < tnp.inf) & (x < tnp.inf)
    safe_a, safe_x = choose(inside, a, 1), choose(inside, x, 0.5)
    found = _over_power(safe_a, safe_x)[1] * (safe_x / safe_a)
    at_end = choose(x == tnp.inf, tnp.inf, tnp.zeros_like(x))
    return choose(inside, found, choose(_outside(a, x) | (a == 0), tnp.nan, at_end))


@in_float32
@compound
def log_sample_slope(a: Array, log_x: Array) -> Array:
    """Return `sample_slope` over x, of its logarithm: small parameters have samples that underflow.

    There P(a, x) is x**a / gamma(a + 1), and x**a alone need not underflow.
    """
    least = math.log(float(tnp.finfo(log_x.dtype).tiny))
    is_tiny = log_x < least
    inside = (a > 0) & (a < tnp.inf) & ~tnp.isnan(log_x) & (log_x < tnp.inf)
    safe = choose(inside, a, 1)
    plain = _over_power(safe, tnp.exp(choose(inside & ~is_tiny, log_x, 0)))[1]
    tiny = apply(ops.digamma, safe + 1) - choose(is_tiny, log_x, 0)
    return choose(inside, choose(is_tiny, tiny, plain) / safe, tnp.nan)


def density(a: Array, x: Array) -> Array:
    """Return dP/dx."""
    inside = (x > 0) & (a > 0)
    safe_a, safe_x = choose(inside, a, 1), choose(inside, x, 1)
    direct = (safe_a - 1) * tnp.log(safe_x) - safe_x - apply(ops.lgamma, safe_a)
    is_large = safe_a >= LARGE
    large = _log_power(choose(is_large, safe_a, LARGE), choose(is_large, safe_x, LARGE))
    found = tnp.exp(choose(is_large, large, direct)) * choose(is_large, safe_a / safe_x, 1)
    # At 0 it is 1 for a = 1 and infinite below; elsewhere it is 0.
    at_zero = choose(a == 1, 1, choose((a > 0) & (a < 1), tnp.inf, 0))
    return choose(inside, found, choose(x == 0, at_zero, 0).astype(x.dtype))


def _outside(a: Array, x: Array) -> Array:
    """Tell where there is no value; not a number is not at least 0."""
    return ~((a >= 0) & (x >= 0)) | ((a == tnp.inf) & (x == tnp.inf))


def _takes_lower(a: Array, x: Array) -> Array:
    return (x <= 1) | (x <= a)


def _upper_of_small(a: Array, x: Array) -> Array:
    """Return Q(a, x) for both up to 1, with the digits that 1 - P(a, x) loses for small a.

    DLMF 8.7.1: P is x**a / gamma(a + 1), times 1 + a times the sum of (-x)**k / (k! (a + k)).
    """
    near = choose(a < _SMALL, a, _SMALL)
    log_gamma = choose(a < _SMALL, near * polynomial(near, _LOG_GAMMA), apply(ops.lgamma, a + 1))
    logarithm = a * tnp.log(x) - log_gamma
    total, term = tnp.zeros_like(x), -tnp.ones_like(x)
    for k in range(1, _LEAST_TERMS):
        term = term * (-x / k)
        total = total + term / (a + k)
    return tnp.exp(logarithm) * a * total - tnp.expm1(logarithm)


def _log_power(a: Array, x: Array) -> Array:
    """Return the logarithm of x**a exp(-x) / gamma(a + 1)."""
    is_large = a >= LARGE
    large = choose(is_large, a, LARGE)
    other = choose(is_large, x, LARGE)
    exponent = log_of_fall(large, other / large, other - large)
    by_stirling = exponent - stirling(large) - (tnp.log(large) + _LOG_CIRCLE) / 2
    return choose(is_large, by_stirling, a * tnp.log(x) - x - apply(ops.lgamma, a + 1))


def log_of_fall(a: Array, ratio: Array, distance: Array) -> Array:
    """Return a log(ratio) - distance, which is a (ratio - 1), with its digits at ratios near 1."""
    is_far = ratio < 0.5
    near = distance * _bend(choose(is_far, 0, distance / a))
    return choose(is_far, a * tnp.log(choose(is_far, ratio, 1)) - distance, near)


def stirling(a: Array) -> Array:
    """Return log gamma(a) less Stirling's formula, for a from 10 on."""
    inverse = 1 / a
    return polynomial(inverse * inverse, _STIRLING) * inverse


def _log_ratio(a: Array, x: Array) -> Array:
    """Return log(x) - digamma(a + 1), with its digits where both are large and alike."""
    is_near = (a >= LARGE) & (abs(x - a) < a / 2)
    large = choose(is_near, a, LARGE)
    apart = choose(is_near, (x - a) / large, 0)
    inverse = 1 / large
    square = inverse * inverse
    near = tnp.log1p(apart) - inverse / 2 + polynomial(square, _DIGAMMA) * square
    return choose(is_near, near, tnp.log(x) - apply(ops.digamma, a + 1))


def _bend(u: Array) -> Array:
    """Return log(1 + u) / u - 1: by the series of the inverse hyperbolic tangent for small u."""
    is_small = abs(u) < 0.5
    safe = choose(is_small, u, 0)
    v = safe / (2 + safe)
    square = v * v
    series = polynomial(square, tuple(1 / k for k in range(3, 27, 2)))
    large = choose(is_small, 1, u)
    return choose(is_small, 2 * square * series / (2 + safe) - v, tnp.log1p(large) / large - 1)


def _over_power(a: Array, x: Array) -> tuple[Array, Array]:
    """Return a tail and -dP/da over x**a exp(-x) / gamma(a + 1).

    The tail is the lower one where `_takes_lower` says so. Both are positive.
    """
    by_series = _takes_lower(a, x) & (a < LARGE)
    series = _series(choose(by_series, a, 1), choose(by_series, x, 0.5))
    integral = _integral(choose(by_series, 1, a), choose(by_series, 2, x))
    pairs = zip(series, integral, strict=True)
    value, slope = (choose(by_series, one, other) for one, other in pairs)
    return value, slope


def _series(a: Array, x: Array) -> tuple[Array, Array]:
    """Return the sum of x**n / ((a + 1) ... (a + n)), and -dP/da."""
    one = tnp.ones_like(x)

    def step(place: Any, term: Any, total: Any, slope: Any, slopes: Any) -> Any:
        below = a + convert(place + 1, a.dtype)
        ratio = x / below
        slope = ratio * (slope - term / below)
        term = term * ratio
        return term, total + term, slope, slopes + slope

    carry = [one, one, 0 * one, 0 * one]
    _, total, _, slopes = repeat(_TERMS[x.dtype.itemsize], step, carry)
    return total, -(total * _log_ratio(a, x) + slopes)


def _integral(a: Array, x: Array) -> tuple[Array, Array]:
    """Return the integrals of the density from x outwards, and of it times its slope in a.

    The variable u is the distance from x over x, to the side of the tail. A node at t stands for
    u = reach * t * t, which leads away from the singularity at u = -1.
    """
    is_lower = _takes_lower(a, x)
    side = choose(is_lower, -1, tnp.ones_like(x))
    reach = choose(is_lower, *_reaches(a, x))
    # The exponent is linear and curved in u; rate is x minus the mode of the density.
    rate = (x - a) + 1
    ratio = _log_ratio(a, x) + 1 / a
    nodes, weights = _rule(x.dtype)

    def step(place: Any, total: Any, slopes: Any) -> Any:
        node = nodes[place]
        u = side * (reach * (node * node))
        part = tnp.exp(((a - 1) * u) * _bend(u) - rate * u) * (weights[place] * node)
        return total + part, slopes + part * (side * (tnp.log1p(u) + ratio))

    total, slopes = repeat(nodes.shape[0], step, [0 * x, 0 * x])
    scale = 2 * reach * a
    return scale * total, scale * slopes


def _rule(dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """Return the nodes and weights on (0, 1) that give all digits of a dtype."""
    parts = 3 if dtype.itemsize > 4 else 1
    nodes, weights = np.polynomial.legendre.leggauss(parts * CONSTANT_SIZE)
    return _constants((nodes + 1) / 2, dtype), _constants(weights / 2, dtype)


def _constants(values: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> Array:
    """Return numbers as constants of the program: longer ones would be arguments."""
    parts = values.astype(dtype).reshape(-1, CONSTANT_SIZE)
    result: Array = tnp.concatenate([from_host(part) for part in parts])
    return result


def _reaches(a: Array, x: Array) -> tuple[Array, Array]:
    """Return how far the lower and the upper tail reach, over x.

    There the density is exp(-bound) of that at x, by log(1 - u) + u <= -u**2 / 2 below, and by
    log(1 + u) - u <= -3 u**2 / (6 + 4 u) above.
    """
    bound = 38.0 if x.dtype.itemsize > 4 else 18.0
    curved = tnp.maximum(a - 1, 0)
    scale = tnp.maximum(curved, 1)
    rate, ratio = tnp.maximum((a - x) - 1, -1) / scale, 2 * bound / scale
    below = ratio / (rate + tnp.sqrt(rate * rate + ratio))
    rate = choose(a > 1, (x - a) + 1, x)
    square, linear = 4 * rate + 3 * curved, 3 * rate - 2 * bound
    is_steep = linear > 0
    steep = choose(is_steep, linear, 1)
    root = tnp.sqrt(1 + 6 * bound * (square / steep) / steep)
    far = 6 * bound / (steep * (1 + root))
    flat = choose(is_steep, 0, linear)
    near = tnp.sqrt(flat * flat / square + 6 * bound) / tnp.sqrt(square) - flat / square
    return tnp.minimum(below, 1), choose(is_steep, far, near)


__all__ = [
    "LARGE",
    "density",
    "log_of_fall",
    "log_sample_slope",
    "sample_slope",
    "stirling",
    "tails",
]
