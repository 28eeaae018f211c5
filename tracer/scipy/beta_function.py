"""The logarithm of the beta function.

References
----------
DiDonato and Morris, Algorithm 708: Significant digit computation of the incomplete beta function
ratios, ACM Transactions on Mathematical Software 18(3), 1992: ALGDIV, for log(gamma(b) /
gamma(a + b)) with b from 8 on. As the difference of two logarithms it loses all digits where b is
large and a is not.
"""

from __future__ import annotations

import math

import tracer.numpy as tnp
from tracer import ops
from tracer.array.array import Array
from tracer.array.dispatch import apply
from tracer.scipy.choice import choose
from tracer.scipy.floats import polynomial
from tracer.scipy.gamma_tails import LARGE, log_of_fall, stirling

_LARGE = 8.0
_STIRLING = (
    0.0833333333333333,
    -0.00277777777760991,
    0.00079365066682539,
    -0.00059520293135187,
    0.000837308034031215,
    -0.00165322962780713,
)
"""Of the remainder of Stirling's formula, in odd powers of 1 / b."""


def log_beta(x: Array, y: Array) -> Array:
    """Return log |gamma(x) gamma(y) / gamma(x + y)| of floats of one dtype and shape.

    At a pole of one gamma it is infinite, but where the sum is one too and the other number whole:
    there the limit is that of (1 - x - y, y).
    """
    poles = [_is_pole(x), _is_pole(y)]
    other = choose(poles[0], y, x)
    turned = 1 - x - y
    is_limit = (poles[0] ^ poles[1]) & (other == tnp.floor(other)) & (turned > 0)
    value = _log_beta(choose(is_limit, turned, x), choose(is_limit, other, y))
    is_nan = (x != x) | (y != y)
    result: Array = choose((poles[0] | poles[1]) & ~is_limit & ~is_nan, tnp.inf, value)
    return result


def _is_pole(x: Array) -> Array:
    result: Array = (x <= 0) & (x == tnp.floor(x)) & (x > -tnp.inf)
    return result


def _log_beta(x: Array, y: Array) -> Array:
    # Chosen as a pair, not by minimum and maximum, whose second derivatives are wrong at x = y.
    is_first = x <= y
    least, most = choose(is_first, x, y), choose(is_first, y, x)
    both = x + y
    is_finite = most < tnp.inf
    is_large = is_finite & (most >= _LARGE) & (least > 0)
    # Of a negative number and a large one, the large one and their sum change places.
    is_turned = is_finite & (both >= _LARGE) & (least < 0) & (-least <= both)
    plain = apply(ops.lgamma, x) + apply(ops.lgamma, y) - apply(ops.lgamma, both)
    a = choose(is_large, least, choose(is_turned, -least, 1.0))
    b = choose(is_large, most, choose(is_turned, both, _LARGE))
    ratio = _log_ratio(a, b)
    first = apply(ops.lgamma, choose(is_large | is_turned, least, 1.0))
    value = choose(is_large | is_turned, first + choose(is_large, ratio, -ratio), plain)
    value = choose((least > 0) & (most == tnp.inf), -tnp.inf, value)
    result: Array = choose((x != x) | (y != y), tnp.nan, value)
    return result


def _log_ratio(a: Array, b: Array) -> Array:
    """Return log(gamma(b) / gamma(a + b)) for 0 < a <= b and b from 8 on."""
    share = a / b
    c, x = share / (1 + share), 1 / (1 + share)
    # (1 - x^n) / (1 - x) for odd n.
    sums = [tnp.ones_like(x)]
    for _ in _STIRLING[1:]:
        sums.append(1 + x + x * x * sums[-1])
    terms = [coefficient * s for coefficient, s in zip(_STIRLING, sums, strict=True)]
    rest = polynomial((1 / b) ** 2, terms) * (c / b)
    turned = (b + (a - 0.5)) * tnp.log1p(share)
    return rest - a * (tnp.log(b) - 1) - turned


def log_weight(a: Array, b: Array, x: Array, powers: Array, less: int = 0) -> Array:
    """Return log(x^(a - less) (1 - x)^(b - less) / B(a, b)), for x from 0 to 1.

    Where a and b are large, the powers and the beta function are huge and differ by little, so
    they are taken together: both powers relative to what they are at the mean, and of the three
    logarithms of gamma what Stirling's formula leaves (DiDonato and Morris, BRCOMP).

    Parameters
    ----------
    a, b, x : Array
        Of one dtype and shape.
    powers : Array
        The logarithm of the powers alone, which is right elsewhere.
    less : int
        What the exponents are less than a and b.
    """
    is_large = (a >= LARGE) & (b >= LARGE) & (a + b < tnp.inf) & (x > 0) & (x < 1)
    large_a, large_b = choose(is_large, a, LARGE), choose(is_large, b, LARGE)
    place = choose(is_large, x, 0.5)
    rest, both = 1 - place, large_a + large_b
    distance = large_b * place - large_a * rest
    value = log_of_fall(large_a, place * (both / large_a), distance)
    value = value + log_of_fall(large_b, rest * (both / large_b), -distance)
    value = value - (stirling(large_a) + stirling(large_b) - stirling(both))
    value = value + tnp.log(large_a * (large_b / both) / (2 * math.pi)) / 2
    if less:
        value = value - less * (tnp.log(place) + tnp.log1p(-place))
    result: Array = choose(is_large, value, powers - log_beta(a, b))
    return result


def log_gamma_step(a: Array, step: Array) -> Array:
    """Return log(gamma(a) / gamma(a + step)) with its digits, for positive a and steps up to 8."""
    steps = int(_LARGE)
    factors = [tnp.log1p(step / (a + place)) for place in range(steps)]
    return sum(factors, _log_ratio(step, a + steps))


__all__ = ["log_beta", "log_gamma_step", "log_weight"]
