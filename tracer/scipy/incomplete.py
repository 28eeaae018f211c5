"""Incomplete gamma and beta functions.

References
----------
DiDonato and Morris, Algorithm 708, ACM Transactions on Mathematical Software 18(3), 1992: BFRAC,
the continued fraction of the incomplete beta function in x and 1 - x, here in Lentz's order.
The gamma functions are in `gamma_tails.py`.
"""

from __future__ import annotations

from typing import Any

import tracer.numpy as tnp
from tracer import ops
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import convert
from tracer.array.dispatch import apply_many, compound
from tracer.array.recording import recorded
from tracer.autodiff.transforms import custom_jvp
from tracer.errors import NotDifferentiableError
from tracer.ops.call import deferred
from tracer.scipy.beta_function import log_gamma_step, log_weight
from tracer.scipy.choice import choose
from tracer.scipy.floats import floats_together, in_float32
from tracer.scipy.gamma_tails import density, log_sample_slope, sample_slope, tails
from tracer.scipy.iteration import iterate

_MOST_STEPS = 2000
_SMALL, _NEAR_ONE = 0.05, 0.99
"""Up to this b the fraction is taken up to there, where it still takes less than 100 steps, and the
series of the other tail from there on."""
_TERMS = 20


def gammainc(a: ArrayLike, x: ArrayLike) -> Array:
    """Regularised lower incomplete gamma function.

    Parameters
    ----------
    a : array_like
        The parameter, not negative.
    x : array_like
        Where the integral ends, not negative.

    Returns
    -------
    Array of floats, the broadcast shape
        From 0 to 1; NaN for negative arguments. Both arguments have derivatives.

    Examples
    --------
    >>> import tracer.scipy.special as special
    >>> round(float(special.gammainc(1.0, 2.0)), 6)
    0.864665
    """
    result: Array = _lower(*floats_together("gammainc", a, x))
    return result


def gammaincc(a: ArrayLike, x: ArrayLike) -> Array:
    """Return 1 - gammainc(a, x), with its digits where that is small."""
    result: Array = _upper(*floats_together("gammaincc", a, x))
    return result


@custom_jvp
def _lower(a: Array, x: Array) -> Array:
    return tails(a, x)[0]


@custom_jvp
def _upper(a: Array, x: Array) -> Array:
    return tails(a, x)[1]


def _lower_rule(primals: Any, tangents: Any) -> Any:
    (a, x), (of_a, of_x) = primals, tangents
    return _lower(a, x), _slope(a, x) * of_a + density(a, x) * of_x


def _upper_rule(primals: Any, tangents: Any) -> Any:
    (a, x), (of_a, of_x) = primals, tangents
    return _upper(a, x), -_slope(a, x) * of_a - density(a, x) * of_x


_lower.defjvp(_lower_rule)
_upper.defjvp(_upper_rule)


def _slope(a: Array, x: Array) -> Array:
    """Return the derivative with respect to a; its own derivatives are not known."""
    return refusing(tails(a, x)[2], "second derivatives of gammainc in a are not known")


def refusing(x: Array, reason: str) -> Array:
    """Return the same array, of which no derivative may be asked."""
    graph, _ = recorded(lambda recording: recording.finish([recording.argument(x.type)]))
    error = NotDifferentiableError(
        reason,
        mend="differentiate with respect to other arguments; tracer.stop_gradient keeps this "
        "one constant",
    )
    return apply_many(ops.plain_call, x, body=graph, reason=deferred(error))[0]


def gamma_slope(a: Array, x: Array) -> Array:
    """Return the derivative of gammainc with respect to a; NaN where a is not positive."""
    return choose(a > 0, _slope(a, x), tnp.nan)


def gamma_sample_slope(a: Array, x: Array) -> Array:
    """Return the derivative of gamma(a)'s sample x with respect to a: its quantile is kept."""
    return refusing(sample_slope(a, x), "derivatives of random_gamma_grad are not known")


@custom_jvp
def gamma_of_parameter(a: Array, log_sample: Array) -> Array:
    """Return the logarithm of gamma(a)'s sample as a function of a: its quantile is kept."""
    return log_sample


def _of_parameter_rule(primals: Any, tangents: Any) -> Any:
    (a, log_sample), (of_a, of_sample) = primals, tangents
    reason = "second derivatives of gamma samples are not known"
    slope = refusing(log_sample_slope(a, log_sample), reason)
    return gamma_of_parameter(a, log_sample), slope * of_a + of_sample


gamma_of_parameter.defjvp(_of_parameter_rule)


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Regularised incomplete beta function.

    Parameters
    ----------
    a, b : array_like
        The parameters, not negative, and not both 0. There are no derivatives with respect to them.
    x : array_like
        Where the integral ends, from 0 to 1.

    Returns
    -------
    Array of floats, the broadcast shape
        From 0 to 1; NaN for other arguments.

    Examples
    --------
    >>> import tracer.scipy.special as special
    >>> round(float(special.betainc(2.0, 3.0, 0.5)), 6)
    0.6875
    """
    first, second, end = floats_together("betainc", a, b, x)
    reason = "betainc has no derivative with respect to a and b"
    result: Array = _beta(refusing(first, reason), refusing(second, reason), end)
    return result


@custom_jvp
def _beta(a: Array, b: Array, x: Array) -> Array:
    return _beta_value(a, b, x)


def _beta_rule(primals: Any, tangents: Any) -> Any:
    a, b, x = primals
    inside = (x > 0) & (x < 1)
    safe = choose(inside, x, 0.5)
    powers = (a - 1) * tnp.log(safe) + (b - 1) * tnp.log1p(-safe)
    density = tnp.exp(log_weight(a, b, safe, powers, less=1))
    return _beta(a, b, x), choose(inside, density, 0) * tangents[2]


_beta.defjvp(_beta_rule)


@in_float32
@compound
def _beta_value(a: Array, b: Array, x: Array) -> Array:
    good = (a >= 0) & (b >= 0) & (x >= 0) & (x <= 1) & (a < tnp.inf) & (b < tnp.inf)
    good, starts_full = good & ((a > 0) | (b > 0)), a == 0
    is_end = starts_full | (b == 0)
    inside = good & (x > 0) & (x < 1) & ~is_end
    a, b = choose(inside, a, 1), choose(inside, b, 1)
    place = choose(inside, x, 0.5)
    # The fraction is quick below the mean; above it the other tail is computed. Of a small b almost
    # all is in that tail, so one less it would have no digits left.
    is_above, is_small = place > (a + 1) / (a + b + 2), b <= _SMALL
    swaps, is_series = is_above & ~is_small, is_above & is_small & (place > _NEAR_ONE)
    place = choose(is_series, 0.5, place)
    first, second = choose(swaps, b, a), choose(swaps, a, b)
    end, rest = choose(swaps, 1 - place, place), choose(swaps, place, 1 - place)
    powers = log_weight(a, b, place, a * tnp.log(place) + b * tnp.log1p(-place))
    tail = tnp.exp(powers) / (first * _beta_fraction(first, second, end, rest))
    value = choose(swaps, 1 - tail, tail)
    rows = choose(is_series, a, 1), choose(is_series, b, _SMALL), choose(is_series, 1 - x, 0.001)
    value = choose(is_series, _beta_near_one(*rows), value)
    # All mass is at 0 for a = 0, and at 1 for b = 0.
    at_end = choose(starts_full, choose(x > 0, 1, x), choose(x < 1, 0 * x, x))
    # Of small parameters rounding can lead out of the probabilities.
    value = tnp.clip(value, 0, 1)
    return choose(good, choose(inside, value, choose(is_end, at_end, x)), tnp.nan)


def _beta_near_one(a: Array, b: Array, rest: Array) -> Array:
    """Return betainc(a, b, 1 - rest) of a small b, for rest at most 0.01 and (b + 1) / (a + b + 2).

    The other tail is rest^b / (b B(a, b)) times the series of 2F1(b, 1 - a; b + 1; rest).
    Both factors are kept as what they differ from one by.
    """
    term, total = tnp.ones_like(rest), tnp.zeros_like(rest)
    for n in range(1, _TERMS):
        term = term * ((n - a) / n * rest)
        total = total + term / (b + n)
    logarithm = b * tnp.log(rest) - log_gamma_step(a, b) + log_gamma_step(tnp.ones_like(a), b)
    result: Array = -tnp.expm1(logarithm + tnp.log1p(b * total))
    return result


def _beta_fraction(a: Array, b: Array, x: Array, rest: Array) -> Array:
    """Return the fraction by which x^a rest^b / (a B(a, b)) is divided; rest is 1 - x.

    Below the mean all of its terms are positive, but for products with b - m.
    """
    epsilon = float(tnp.finfo(x.dtype).eps)
    tiny = float(tnp.finfo(x.dtype).tiny) / epsilon

    def guarded(y: Any) -> Any:
        return choose(abs(y) < tiny, tiny, y)

    def step(m: Any, a: Any, b: Any, x: Any, y: Any, c: Any, d: Any, value: Any, _: Any) -> Any:
        m = m + 1
        product, middle = m * (b - m) * x, a + 2 * m - 1
        factor = (a + b + m - 1) / middle * (product / middle) * x
        factor = choose(m == 1, 1, a + m - 1) * factor
        term = m + product / middle + (a + m) * (a * y - b * x + 1 + m * (1 + y)) / (middle + 2)
        d = 1 / guarded(term + factor * d)
        c = guarded(term + factor / c)
        return m, a, b, x, y, c, d, value * d * c, abs(d * c - 1)

    def unfinished(m: Any, *rows: Any) -> Any:
        return (m < _MOST_STEPS) & (rows[-1] > 2 * epsilon).any()

    first = guarded((a * rest - b * x + 1) / (a + 1))
    count = convert((x * 0).sum(), x.dtype)
    start = [count, a, b, x, rest, first, x * 0, first, x * 0 + 1]
    return iterate(unfinished, step, start)[7]


__all__ = ["betainc", "gammainc", "gammaincc"]
