"""Gauss' hypergeometric function 2F1 of real arguments.

References
----------
DLMF 15.8.1, the transformations of Euler and Pfaff; 15.10.1, its differential equation, whose
Taylor series lead from 7/8 towards the singularity at 1, half of the way in each step (Bühring, An
analytic continuation of the hypergeometric series, 1987); 15.4.20, the value at 1.
"""

from __future__ import annotations

from typing import Any

import tracer.numpy as tnp
from tracer import ops
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import convert
from tracer.array.dispatch import apply, compound
from tracer.autodiff.transforms import custom_jvp
from tracer.scipy.choice import choose
from tracer.scipy.double_double import Pair, over, pair, two_sum, wide
from tracer.scipy.factorials import gammasgn
from tracer.scipy.floats import floats_together
from tracer.scipy.hypergeometric import UNIT, Candidate, best, is_pole, sum_series, terminates
from tracer.scipy.incomplete import refusing
from tracer.scipy.iteration import iterate, repeat

_BORDER = 0.875
"""Up to here the series is summed."""
_NEAREST = 2.0**-56
"""So near to 1 two terms are the function."""
_MOST_AT_BORDER = 2000
"""The error of the slope at the border is at most so many times that of the value."""
_ORDER = 80
"""Terms of a Taylor series, of which each is about half of the one before."""


def hyp2f1(a: ArrayLike, b: ArrayLike, c: ArrayLike, x: ArrayLike) -> Array:
    """Gauss' hypergeometric function 2F1.

    Parameters
    ----------
    a, b, c : array_like
        The parameters. There are no derivatives with respect to them.
    x : array_like
        The argument.

    Returns
    -------
    Array of floats, the broadcast shape
        Infinite where `c` is 0, -1, -2, ... and `a` and `b` do not end the series before, and at 1
        where the function has a pole. NaN where the bound of the error is above 1e-10, for
        infinite arguments, and above 1 (where SciPy has infinity) unless the series, or that of
        Euler's transformation with a whole power, ends.

    Raises
    ------
    DTypeError
        Complex numbers.
    ShapeError
        The shapes cannot be broadcast together.
    NotDifferentiableError
        A derivative with respect to `a`, `b` or `c` is asked for.

    Notes
    -----
    The series and the transformations of Euler and Pfaff are summed in pairs of float64 (31 digits)
    up to 7/8, and followed towards 1 by Taylor series, each with a bound of its error; the best one
    is taken. The bound is relative to the value, and to x f'(x) next to its zeros. So there is no
    loss where c - a - b is nearly whole.

    Relative errors, measured against mpmath: 5e-13 for parameters up to 5, without a NaN; 4e-12 up
    to 20, with a NaN in 8 of 100 places nearer to 1 than 0.1 or below -1, else none. Where `a` or
    `b` ends the series, it is that polynomial, also where the other one is `c`. Memory: about 180
    float64 for each element, which a memory limit does not have in slices.

    Examples
    --------
    >>> import tracer.scipy.special as special
    >>> round(float(special.hyp2f1(1.0, 1.0, 2.0, -1.0)), 12)
    0.69314718056
    """
    *parameters, place = floats_together("hyp2f1", a, b, c, x)
    reason = "hyp2f1 has no derivative with respect to a, b and c"
    result: Array = _gauss(*(refusing(y, reason) for y in parameters), place)
    return result


@custom_jvp
def _gauss(a: Array, b: Array, c: Array, x: Array) -> Array:
    return _gauss_value(a, b, c, x)


def _rule(primals: Any, tangents: Any) -> Any:
    a, b, c, x = primals
    slope = a * b / c * _gauss(a + 1, b + 1, c + 1, x)
    return _gauss(*primals), slope * tangents[3]


_gauss.defjvp(_rule)


@compound
def _gauss_value(a: Array, b: Array, c: Array, x: Array) -> Array:
    dtype = x.dtype
    a, b, c, x = wide(a), wide(b), wide(c), wide(x)
    is_polynomial = _ends_before(a, c) | _ends_before(b, c)
    value = best(_candidates(a, b, c, x))
    value = choose((x == 1) & ~is_polynomial, _at_one(a, b, c), value)
    value = choose(is_pole(c) & ~is_polynomial, tnp.inf, value)
    is_nan = (a != a) | (b != b) | (c != c) | (x != x)
    return convert(choose(is_nan, tnp.nan, choose(x == 0, 1, value)), dtype)


def _ends_before(top: Array, bottom: Array) -> Array:
    """Tell where a series ends, before a pole of the parameter below if that is one."""
    return is_pole(top) & (~is_pole(bottom) | (top >= bottom))


def _at_one(a: Array, b: Array, c: Array) -> Array:
    """Return the value at 1, or the sign of the pole there."""
    excess = c - a - b
    is_finite = excess > 0
    first, second = choose(is_finite, c - a, a), choose(is_finite, c - b, b)
    size = abs(excess)
    logarithms = [apply(ops.lgamma, y) for y in (c, choose(size > 0, size, 1), first, second)]
    logarithm = logarithms[0] + logarithms[1] - logarithms[2] - logarithms[3]
    sign = gammasgn(c) * gammasgn(first) * gammasgn(second)
    magnitude = choose(is_finite, tnp.exp(logarithm), tnp.inf)
    return choose(is_finite & (is_pole(first) | is_pole(second)), 0, sign * magnitude)


def _candidates(a: Array, b: Array, c: Array, x: Array) -> list[Candidate]:
    """Return the series, that of Euler's transformation, and of the two of Pfaff."""
    none = tnp.zeros_like(x)
    first, second = two_sum(c, -a), two_sum(c, -b)
    excess = first[0] - b + first[1]
    lower = two_sum(x, tnp.full_like(x, -1))
    moved = over(pair(x), lower)
    plain, distance = (x, none), 1 - x
    rows: list[tuple[Pair, Pair, Pair, Array, Array, Array]] = [
        ((a, none), (b, none), plain, distance, excess, none),
        (first, second, plain, distance, -excess, excess),
        ((a, none), second, moved, 1 / distance, b - a, -a),
        (first, (b, none), moved, 1 / distance, a - b, -b),
    ]
    tops = [_stacked([row[0] for row in rows]), _stacked([row[1] for row in rows])]
    z = _stacked([row[2] for row in rows])
    away, exponent, power = (tnp.stack([row[i] for row in rows]) for i in (3, 4, 5))
    is_finite = terminates(tops[0]) | terminates(tops[1])
    is_series = (abs(z[0]) <= _BORDER) | ((z[0] > 0) & (away > 0) & (exponent >= 0))
    # Above 1 a power is real where it is whole; a pole below leaves the series itself.
    is_real = (x < 1) | (power == tnp.floor(power))
    is_first = tnp.arange(4).reshape((4,) + (1,) * x.ndim) == 0
    holds = is_real & (is_finite | is_series) & (is_first | ~is_pole(c))
    value, change, error = _values(tops, c, z, away, exponent, is_finite, holds)
    factor = choose(is_first, 1, tnp.power(distance, power))
    logarithm = abs(power * tnp.log(choose(power == 0, 1, abs(distance))))
    size = abs(factor * value)
    error = abs(factor) * error + 2 * UNIT * (1 + logarithm + abs(power)) * size
    error = choose(holds, error, tnp.inf)
    return [Candidate(factor[i] * value[i], factor[i] * change[i], error[i]) for i in range(4)]


def _stacked(pairs: list[Pair]) -> Pair:
    return tnp.stack([x for x, _ in pairs]), tnp.stack([y for _, y in pairs])


def _values(
    tops: list[Pair],
    c: Array,
    z: Pair,
    away: Array,
    exponent: Array,
    is_finite: Array,
    holds: Array,
) -> Candidate:
    """Return the functions of tops, c and z, where they hold; `away` is 1 - z."""
    is_near = holds & ~is_finite & (z[0] > _BORDER)
    high, low = (choose(holds, part, 0) for part in z)
    start = choose(is_near, _BORDER, high), choose(is_near, 0, low)
    bottom = pair(tnp.zeros_like(z[0]) + c)
    first = tnp.maximum(-bottom[0], tnp.maximum(-tops[0][0], -tops[1][0])) + 2
    total, slope, error = sum_series(tops, bottom, start, first)
    value, change = total[0] + total[1], slope[0]
    # The slope times the distance to 1, both of them at the border.
    begin = 1 - _BORDER
    steep = change * (begin / _BORDER)
    target = choose(is_near, away, begin)
    found = _towards_one(tops[0][0], tops[1][0], exponent, target, value, steep, error)
    is_wide = z[0] <= 0.5
    change = choose(is_wide, change, change * away / choose(is_wide, 1, z[0]))
    parts = zip(found, (value, change, error), strict=True)
    return Candidate(*(choose(is_near, x, y) for x, y in parts))


def _towards_one(
    a: Array, b: Array, exponent: Array, target: Array, value: Array, slope: Array, error: Array
) -> Candidate:
    """Follow the function from 1/8 before 1 to a smaller distance."""
    last = tnp.maximum(target, _NEAREST)

    def step(away: Any, last: Any, *rows: Any) -> Any:
        following = tnp.maximum(last, away / 2)
        return following, last, *_step(a, b, exponent, away, following, *rows)

    def unfinished(away: Any, last: Any, *rows: Any) -> Any:
        return (away > last).any()

    away = tnp.full_like(target, 1 - _BORDER)
    errors = error + UNIT * abs(value), _MOST_AT_BORDER * error + UNIT * abs(slope)
    found = iterate(unfinished, step, [away, last, value, slope, *errors])
    _, _, value, slope, error, steep_error = found
    # The rest is a + b * away**exponent.
    logarithm = tnp.log(target / last)
    product = exponent * logarithm
    is_flat = exponent == 0
    power = tnp.expm1(choose(is_flat, 0, product)) / choose(is_flat, 1, exponent)
    rest = choose(target < last, choose(is_flat, logarithm, power), 0)
    error = error + steep_error * abs(rest)
    return Candidate(value - slope * rest, slope * (1 + exponent * rest), error)


def _step(
    a: Array,
    b: Array,
    exponent: Array,
    away: Array,
    following: Array,
    value: Array,
    slope: Array,
    error: Array,
    steep_error: Array,
) -> tuple[Array, ...]:
    """Sum the Taylor series at one distance from 1 for another; slopes are times the distance.

    Two more solutions, (1, 0) and (0, 1), tell what becomes of the errors until here.
    """
    length = away - following
    part = length / away
    linear = exponent - 1 + (a + b + 1) * away

    def term(number: Any, before: Any, last: Any, total: Any, slopes: Any, size: Any) -> Any:
        k = wide(number)
        new = (a + k) * (b + k) * part * length * before
        new = new - (k + 1) * ((2 * away - 1) * k + linear) * part * last
        new = new / ((1 - away) * (k + 2) * (k + 1))
        weight = (k + 2) * new
        return last, new, total + new, slopes + weight, size + (k + 2) * abs(weight)

    none, one = tnp.zeros_like(value), tnp.ones_like(value)
    start, first = tnp.stack([value, one, none]), tnp.stack([slope, none, one]) * part
    carry = [start, first, start + first, first, abs(start) + abs(first)]
    _, last, total, slopes, size = repeat(_ORDER, term, carry)
    moves = part > 0
    ratio = following / choose(moves, length, 1)
    steep = slopes * ratio
    rounding = 4 * UNIT * size[0] + 4 * abs(last[0])
    errors = (
        abs(total[1]) * error + abs(total[2]) * steep_error + rounding,
        abs(steep[1]) * error + abs(steep[2]) * steep_error + ratio * rounding,
    )
    rows = zip((total[0], steep[0], *errors), (value, slope, error, steep_error), strict=True)
    return tuple(choose(moves, x, y) for x, y in rows)


__all__ = ["hyp2f1"]
