"""Incomplete gamma and beta functions, by series and continued fractions.

References
----------
Cephes (Moshier 1989), igam.c: the power series for x up to max(1, a), the continued fraction above;
derivatives with respect to `a` are carried along, as in JAX. Press et al., Numerical Recipes,
section 6.4: Lentz's evaluation of the continued fraction of the incomplete beta function.
"""

from __future__ import annotations

from typing import Any

import tracer.numpy as tnp
from tracer import ops
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import convert
from tracer.array.dispatch import apply, apply_many, compound
from tracer.array.recording import Recording
from tracer.autodiff.transforms import custom_jvp
from tracer.ir import as_dtype
from tracer.scipy.choice import choose
from tracer.scipy.floats import floats_together, in_float32
from tracer.scipy.iteration import iterate

_MOST_STEPS = 2000


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
    return _both(a, x)[0]


@custom_jvp
def _upper(a: Array, x: Array) -> Array:
    return _both(a, x)[1]


def _density(a: Array, x: Array) -> Array:
    """Return the derivative with respect to x."""
    inside = (x > 0) & (a > 0)
    safe_a, safe_x = choose(inside, a, 1), choose(inside, x, 1)
    density = tnp.exp((safe_a - 1) * tnp.log(safe_x) - safe_x - apply(ops.lgamma, safe_a))
    # At 0 it is 1 for a = 1 and infinite below; elsewhere it is 0.
    at_zero = choose(a == 1, 1, choose((a > 0) & (a < 1), tnp.inf, 0))
    outside = choose(x == 0, at_zero, 0).astype(x.dtype)
    return choose(inside, density, outside)


def _lower_rule(primals: Any, tangents: Any) -> Any:
    (a, x), (of_a, of_x) = primals, tangents
    return _lower(a, x), _slope(a, x) * of_a + _density(a, x) * of_x


def _upper_rule(primals: Any, tangents: Any) -> Any:
    (a, x), (of_a, of_x) = primals, tangents
    return _upper(a, x), -_slope(a, x) * of_a - _density(a, x) * of_x


_lower.defjvp(_lower_rule)
_upper.defjvp(_upper_rule)


def _slope(a: Array, x: Array) -> Array:
    """Return the derivative with respect to a; its own derivatives are not known."""
    return refusing(_both(a, x)[2], "second derivatives of gammainc in a are not known")


def refusing(x: Array, reason: str) -> Array:
    """Return the same array, of which no derivative may be asked."""
    with Recording() as recording:
        graph, _ = recording.finish([recording.argument(x.type)])
    return apply_many(ops.plain_call, x, body=graph, reason=reason)[0]


@compound
def _both(a: Array, x: Array) -> tuple[Array, ...]:
    """Return P(a, x), Q(a, x) and dP/da; 16 bits are computed in 32."""
    if a.dtype.itemsize < 4:
        wide = [convert(y, as_dtype("float32")) for y in (a, x)]
        return tuple(convert(y, a.dtype) for y in _both(*wide))
    inside = (a > 0) & (x > 0) & (a < tnp.inf) & (x < tnp.inf)
    takes_series = (x <= 1) | (x <= a)
    one = tnp.ones_like(x)
    by_series, by_fraction = inside & takes_series, inside & ~takes_series
    series = _series(choose(by_series, a, 1), choose(by_series, x, 0.5))
    fraction = _fraction(choose(by_fraction, a, 1), choose(by_fraction, x, 2))
    lower = choose(takes_series, series[0], 1 - fraction[0])
    upper = choose(takes_series, 1 - series[0], fraction[0])
    slope = choose(takes_series, series[1], -fraction[1])
    # a = 0 and x = infinity are 1, x = 0 and a = infinity are 0; both at once and negative are NaN.
    bad = (a < 0) | (x < 0) | (a != a) | (x != x) | ((a == 0) & (x == 0))
    bad = bad | ((a == tnp.inf) & (x == tnp.inf))
    full = (a == 0) | (x == tnp.inf)
    edge = choose(bad, tnp.nan, choose(full, one, 0 * one))
    edges = (edge, 1 - edge, choose(bad, tnp.nan, 0 * one))
    pairs = zip((lower, upper, slope), edges, strict=True)
    return tuple(choose(inside, value, end) for value, end in pairs)


def _epsilon(x: Array) -> float:
    return float(tnp.finfo(x.dtype).eps)


def _series(a: Array, x: Array) -> tuple[Array, Array]:
    """Return P and dP/da by x^a e^-x / gamma(a + 1) * sum of x^n / ((a + 1) ... (a + n))."""
    epsilon, one = _epsilon(x), x * 0 + 1

    def step(n: Any, a: Any, x: Any, term: Any, total: Any, slope: Any, slopes: Any) -> Any:
        n = n + 1
        ratio = x / (a + n)
        slope = ratio * (slope - term / (a + n))
        term = term * ratio
        return n, a, x, term, total + term, slope, slopes + slope

    def unfinished(n: Any, a: Any, x: Any, term: Any, total: Any, slope: Any, slopes: Any) -> Any:
        small = (term <= epsilon * total) & (abs(slope) <= epsilon * abs(slopes))
        return (n < _MOST_STEPS) & ~small.all()

    count = convert((x * 0).sum(), x.dtype)
    found = iterate(unfinished, step, [count, a, x, one, one, 0 * one, 0 * one])
    total, slopes = found[4], found[6]
    factor = tnp.exp(a * tnp.log(x) - x - apply(ops.lgamma, a + 1))
    value = factor * total
    return value, value * (tnp.log(x) - apply(ops.digamma, a + 1)) + factor * slopes


def _fraction(a: Array, x: Array) -> tuple[Array, Array]:
    """Return Q and dQ/da by x^a e^-x / gamma(a) times a continued fraction."""
    epsilon, one = _epsilon(x), x * 0 + 1
    y, z = 1 - a, x + 1 - a + 1
    zero = 0 * one

    def step(n: Any, a: Any, x: Any, value: Any, slope: Any, error: Any, *rows: Any) -> Any:
        p2, q2, p1, q1, dp2, dq2, dp1, dq1 = rows
        n = n + 1
        y, z = 1 - a + n, x + 2 - a + 2 * n
        product = y * n
        p, q = p1 * z - p2 * product, q1 * z - q2 * product
        dp = dp1 * z - p1 - dp2 * product + p2 * n
        dq = dq1 * z - q1 - dq2 * product + q2 * n
        safe = choose(q == 0, 1, q)
        ratio = choose(q == 0, value, p / safe)
        gradient = choose(q == 0, slope, (dp - ratio * dq) / safe)
        apart = abs(gradient - slope) - epsilon * abs(gradient)
        error = tnp.maximum(abs(ratio - value) / abs(ratio) - epsilon, apart)
        scale = choose(abs(p) > 1 / epsilon, epsilon, 1).astype(p.dtype)
        rows = tuple(row * scale for row in (p1, q1, p, q, dp1, dq1, dp, dq))
        return n, a, x, ratio, gradient, error, *rows

    def unfinished(n: Any, a: Any, x: Any, value: Any, slope: Any, error: Any, *rows: Any) -> Any:
        return (n < _MOST_STEPS) & (error > 0).any()

    del y
    first = [one, x, x + 1, z * x, zero, zero, zero, -x]
    value, slope = (x + 1) / (z * x), (x + 1) * x / ((z * x) * (z * x))
    count = convert((x * 0).sum(), x.dtype)
    found = iterate(unfinished, step, [count, a, x, value, slope, one, *first])
    value, slope = found[3], found[4]
    factor = tnp.exp(a * tnp.log(x) - x - apply(ops.lgamma, a))
    result = factor * value
    return result, result * (tnp.log(x) - apply(ops.digamma, a)) + factor * slope


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Regularised incomplete beta function.

    Parameters
    ----------
    a, b : array_like
        The parameters, positive. There are no derivatives with respect to them.
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
    logarithm = (a - 1) * tnp.log(safe) + (b - 1) * tnp.log1p(-safe) - _log_beta(a, b)
    return _beta(a, b, x), choose(inside, tnp.exp(logarithm), 0) * tangents[2]


_beta.defjvp(_beta_rule)


def _log_beta(a: Array, b: Array) -> Array:
    total = apply(ops.lgamma, a + b)
    return apply(ops.lgamma, a) + apply(ops.lgamma, b) - total


@in_float32
@compound
def _beta_value(a: Array, b: Array, x: Array) -> Array:
    good = (a > 0) & (b > 0) & (x >= 0) & (x <= 1) & (a < tnp.inf) & (b < tnp.inf)
    inside = good & (x > 0) & (x < 1)
    a, b = choose(inside, a, 1), choose(inside, b, 1)
    place = choose(inside, x, 0.5)
    # The fraction is quick below the mean; above it the other tail is computed.
    swaps = place > (a + 1) / (a + b + 2)
    first, second = choose(swaps, b, a), choose(swaps, a, b)
    end = choose(swaps, 1 - place, place)
    powers = first * tnp.log(end) + second * tnp.log1p(-end) - _log_beta(first, second)
    tail = tnp.exp(powers) * _beta_fraction(first, second, end) / first
    value = choose(swaps, 1 - tail, tail)
    return choose(good, choose(inside, value, x), tnp.nan)


def _beta_fraction(a: Array, b: Array, x: Array) -> Array:
    epsilon, tiny = _epsilon(x), float(tnp.finfo(x.dtype).tiny) / _epsilon(x)
    one = x * 0 + 1

    def guarded(y: Any) -> Any:
        return choose(abs(y) < tiny, tiny, y)

    def step(n: Any, a: Any, b: Any, x: Any, c: Any, d: Any, value: Any, change: Any) -> Any:
        n = n + 1
        even = n * (b - n) * x / ((a + 2 * n - 1) * (a + 2 * n))
        d = 1 / guarded(1 + even * d)
        c = guarded(1 + even / c)
        value = value * d * c
        odd = -(a + n) * (a + b + n) * x / ((a + 2 * n) * (a + 2 * n + 1))
        d = 1 / guarded(1 + odd * d)
        c = guarded(1 + odd / c)
        return n, a, b, x, c, d, value * d * c, abs(d * c - 1)

    def unfinished(n: Any, *rows: Any) -> Any:
        return (n < _MOST_STEPS) & (rows[-1] > 2 * epsilon).any()

    d = 1 / guarded(1 - (a + b) * x / (a + 1))
    count = convert((x * 0).sum(), x.dtype)
    return iterate(unfinished, step, [count, a, b, x, one, d, d, one])[6]


__all__ = ["betainc", "gammainc", "gammaincc"]
