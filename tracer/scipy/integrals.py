"""Exponential, sine and cosine integrals: exp1, expi, expn, sici.

References
----------
DLMF 6.2 and 6.6: power series near 0, and beyond rational functions of 1 / x for what is left of
the exponential or of the auxiliary functions f and g, as in Cody and Thacher, Math. Comp. 22 (1968)
and 23 (1969), but interpolated anew at Chebyshev points in 90 digits. For `expn` DLMF 8.19.8 and
the continued fraction of Press et al., Numerical Recipes, section 6.3.
"""

from __future__ import annotations

import math
from typing import Any

import tracer.numpy as tnp
from tracer import ops
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, convert
from tracer.array.dispatch import apply, compound
from tracer.autodiff.transforms import custom_jvp
from tracer.ir import as_dtype
from tracer.scipy.choice import choose
from tracer.scipy.floats import floats, floats_together, in_float32, polynomial
from tracer.scipy.incomplete import refusing
from tracer.scipy.iteration import iterate

_EULER = 0.5772156649015329
_FEW, _MANY = 18, 46
"""Terms of power series, up to 1 and up to 12."""
_BORDER_OF_EI = 12.0
_OVERFLOW = 1e4
"""The exponential of half of it is infinite."""
_BORDER_OF_SICI = 6.0
_MOST_STEPS = 2000
_E1_TOP = (
    1.0,
    53.786944199460315,
    1185.854274002086,
    14075.749337884763,
    99448.98334899556,
    437129.3581075929,
    1215404.7546516731,
    2135015.7899309723,
    2331482.661972278,
    1532665.0149382479,
    574909.8729877815,
    112674.01560491472,
    9866.337612112593,
    275.0009428819933,
    0.5009124832908561,
)
_E1_BOTTOM = (
    1.0,
    54.78694419946024,
    1238.6412182015742,
    15210.816667683157,
    112487.23924585822,
    525431.9246422333,
    1583254.1460384547,
    3091500.223205191,
    3878656.4259213,
    3060738.1835672995,
    1464239.7504673672,
    400267.7653095027,
    56741.455087401875,
    3501.183589097107,
    63.09200707100335,
)
"""Of x exp(x) E1(x), in 1 / x up to 1: within 5e-17."""
_EI_TOP = (
    1.0456658121249738,
    0.5663445838246418,
    4.387807874493883,
    -0.3134114816831981,
    7.236611391981628,
    -3.4440237189657057,
    6.667436936462733,
    -3.847139916633999,
    3.18550311410812,
    -1.3830829155454558,
    0.5702499079081687,
    -0.1261919467652219,
    0.019345001362243236,
    -0.0003898405364523071,
)
_EI_BOTTOM = (
    1.0,
    0.49349505259388265,
    4.167218197482869,
    -0.5038096435268675,
    6.92224614273832,
    -3.6285304644483114,
    6.513716796353685,
    -3.9810274600734457,
    3.2051689933282326,
    -1.4623684176261678,
    0.6012069108978542,
    -0.14446863372797972,
    0.023176088592055843,
    -0.0010725785452336551,
)
"""Of x exp(-x) Ei(x), in 24 / x - 1 from -1 to 1: within 3e-16."""
_F_TOP = (
    1.0,
    1145.9710997650743,
    496071.30540446355,
    106046630.81861046,
    12289664750.65513,
    798031259690.3274,
    28999810268221.08,
    571885754240032.2,
    5720884350288961.0,
    2.5505833420909092e16,
    3.863493203008106e16,
    8712505807652680.0,
)
_F_BOTTOM = (
    1.0,
    1147.971099765073,
    498343.2476040042,
    107016486.00738764,
    12492523703.995947,
    820764061063.4751,
    30402163380800.996,
    619017010715378.8,
    6545424146280006.0,
    3.2339067097473668e16,
    6.086895746764349e16,
    2.676335325572049e16,
)
"""Of x f(x), in 1 / x^2 up to 1 / 36: within 4e-17."""
_G_TOP = (
    0.9999999999999999,
    1460.226178312245,
    823048.0160907402,
    234920306.26268893,
    37450919365.19181,
    3469578901909.169,
    188402631099875.8,
    5905882675779827.0,
    1.0262015075482144e17,
    9.154207805500881e17,
    3.634460692639406e18,
    4.722153700016327e18,
    6.27143554528404e17,
)
_G_BOTTOM = (
    1.0,
    1466.2261783122417,
    831725.3731606444,
    239739751.36012733,
    38796577728.836136,
    3677289346061.8745,
    206769550548103.1,
    6839139544232361.0,
    1.2925084206266528e17,
    1.3204291672469786e18,
    6.614812744818506e18,
    1.3548225495180995e19,
    7.454426978785007e18,
)
"""Of x^2 g(x), in the same: within 8e-17."""


def _power_series(x: Array, terms: int) -> Array:
    """Return the sum of x^n / (n n!) from n = 1."""
    return x * polynomial(x, tuple(1 / (n * math.factorial(n)) for n in range(1, terms + 1)))


def exp1(x: ArrayLike) -> Array:
    """Exponential integral of exp(-t) / t from x to infinity.

    Parameters
    ----------
    x : array_like
        Real numbers.

    Returns
    -------
    Array of floats, the shape of `x`
        NaN for negative numbers, infinite at 0.

    Notes
    -----
    Relative errors, measured: 9e-16, in float32 5e-7.

    Examples
    --------
    >>> import tracer.scipy.special as special
    >>> round(float(special.exp1(1.0)), 12)
    0.219383934396
    """
    return _exp1(as_array(x))


@compound
def _exp1(x: Array) -> Array:
    return in_float32(_first)(floats("exp1", x))


@custom_jvp
def _first(x: Array) -> Array:
    small = choose(x > 1, 1, x)
    near = -_EULER - tnp.log(small) - _power_series(-small, _FEW)
    return choose(x > 1, _first_far(choose(x > 1, x, 1)), near)


_first.defjvps(lambda tangent, _, x: -tangent * tnp.exp(-x) / x)


def _first_far(x: Array) -> Array:
    """Return the integral above 1."""
    inverse = 1 / x
    ratio = polynomial(inverse, _E1_TOP) / polynomial(inverse, _E1_BOTTOM)
    return tnp.exp(-x) * inverse * ratio


def expi(x: ArrayLike) -> Array:
    """Exponential integral of exp(t) / t from -infinity to x, its principal value.

    Parameters
    ----------
    x : array_like
        Real numbers.

    Returns
    -------
    Array of floats, the shape of `x`
        -infinity at 0.

    Notes
    -----
    Relative errors, measured: 4e-15, in float32 3e-7; of 1 next to the zero at 0.3725.

    Examples
    --------
    >>> import tracer.scipy.special as special
    >>> round(float(special.expi(1.0)), 12)
    1.895117816356
    """
    return _expi(as_array(x))


@compound
def _expi(x: Array) -> Array:
    return in_float32(_whole)(floats("expi", x))


@custom_jvp
def _whole(x: Array) -> Array:
    below, above = x < -1, x > _BORDER_OF_EI
    middle = choose(below | above, 1, x)
    near = _EULER + tnp.log(abs(middle)) + _power_series(middle, _MANY)
    left = -_first_far(choose(below, -x, 1))
    return choose(below, left, choose(above, _whole_far(choose(above, x, _BORDER_OF_EI)), near))


def _whole_far(x: Array) -> Array:
    """Return the integral above 12; the exponential alone may overflow where it does not."""
    x = choose(x > _OVERFLOW, _OVERFLOW, x)
    place = 2 * _BORDER_OF_EI / x - 1
    ratio = polynomial(place, _EI_TOP) / polynomial(place, _EI_BOTTOM)
    root = tnp.exp(x / 2)
    return root * (ratio / x) * root


_whole.defjvps(lambda tangent, _, x: tangent * tnp.exp(x) / x)


def expn(n: ArrayLike, x: ArrayLike) -> Array:
    """Exponential integral of exp(-xt) / t^n from 1 to infinity.

    Parameters
    ----------
    n : array_like
        Whole numbers, not negative. There is no derivative with respect to them.
    x : array_like
        Real numbers.

    Returns
    -------
    Array of floats, the broadcast shape
        NaN for negative arguments and orders that are not whole.

    Notes
    -----
    Relative errors, measured: 2e-14, in float32 4e-6.

    Examples
    --------
    >>> import tracer.scipy.special as special
    >>> round(float(special.expn(2, 1.0)), 12)
    0.148495506776
    """
    order, place = floats_together("expn", n, x)
    refused = refusing(order, "expn has no derivative with respect to n")
    result: Array = in_float32(_general)(refused, place)
    return result


@custom_jvp
def _general(n: Array, x: Array) -> Array:
    return _general_value(n, x)


def _rule_of_general(primals: Any, tangents: Any) -> Any:
    n, x = primals
    of_zero = tnp.exp(-x) * (1 + 1 / x) / x
    slope = choose(n == 0, of_zero, _general(choose(n == 0, 0, n - 1), x))
    return _general(n, x), -slope * tangents[1]


_general.defjvp(_rule_of_general)


@compound
def _general_value(n: Array, x: Array) -> Array:
    good = (n >= 0) & (x >= 0) & (n == tnp.floor(n)) & (n < tnp.inf)
    inside = good & (x > 0) & (x < tnp.inf)
    small, large = inside & (x <= 1) & (n > 0), inside & (x > 1)
    near = _general_near(choose(small, n, 1), choose(small, x, 1))
    far = _general_far(choose(large, n, 1), choose(large, x, 2))
    none = tnp.exp(-x) / choose(inside, x, 1)
    at_zero = choose(n > 1, 1 / choose(n > 1, n - 1, 1), tnp.inf)
    edge = choose(x == 0, at_zero, 0)
    value = choose(inside, choose(large, far, choose(n == 0, none, near)), edge)
    return choose(good, value, tnp.nan)


def _general_near(n: Array, x: Array) -> Array:
    """Sum the power series (DLMF 8.19.8), the term of a logarithm apart."""
    total, power = tnp.zeros_like(x), tnp.ones_like(x)
    for m in range(_FEW + 1):
        apart = m + 1 - n
        total = total + choose(apart == 0, 0, power / choose(apart == 0, 1, apart))
        power = power * (-x / (m + 1))
    sign = choose(n == 2 * tnp.floor(n / 2), -tnp.ones_like(x), tnp.ones_like(x))
    factor = sign * tnp.exp((n - 1) * tnp.log(x) - apply(ops.lgamma, n))
    return factor * (apply(ops.digamma, n) - tnp.log(x)) - total


def _general_far(n: Array, x: Array) -> Array:
    """Evaluate the continued fraction by Lentz's method."""
    epsilon = float(tnp.finfo(x.dtype).eps)

    def step(k: Any, n: Any, x: Any, c: Any, d: Any, value: Any, change: Any) -> Any:
        k = k + 1
        bottom, top = x + n + 2 * k, -k * (n + k - 1)
        d = 1 / (top * d + bottom)
        c = bottom + top / c
        return k, n, x, c, d, value * c * d, abs(c * d - 1)

    def unfinished(k: Any, *rows: Any) -> Any:
        return (k < _MOST_STEPS) & (rows[-1] > epsilon).any()

    d, count = 1 / (x + n), convert((x * 0).sum(), x.dtype)
    found = iterate(unfinished, step, [count, n, x, tnp.full_like(x, 1e30), d, d, d * 0 + 1])
    return found[5] * tnp.exp(-x)


def sici(x: ArrayLike) -> tuple[Array, Array]:
    """Sine and cosine integrals.

    Parameters
    ----------
    x : array_like
        Real numbers.

    Returns
    -------
    si : Array of floats, the shape of `x`
        The integral of sin(t) / t from 0 to x.
    ci : Array of floats, the shape of `x`
        That of cos(t) / t from infinity to abs(x); -infinity at 0.

    Notes
    -----
    Relative errors, measured: 2e-15, in float32 2e-6; of 1 next to the zeros of the second one.

    Examples
    --------
    >>> import tracer.scipy.special as special
    >>> sine, cosine = special.sici(1.0)
    >>> round(float(sine), 12), round(float(cosine), 12)
    (0.946083070367, 0.337403922901)
    """
    return _sici(as_array(x))


@compound
def _sici(x: Array) -> tuple[Array, Array]:
    x = floats("sici", x)
    wide = convert(x, as_dtype("float32")) if x.dtype.itemsize < 4 else x
    sine, cosine = _sine_and_cosine(wide)
    return convert(sine, x.dtype), convert(cosine, x.dtype)


@custom_jvp
def _sine_and_cosine(x: Array) -> tuple[Array, Array]:
    size = abs(x)
    is_far = size > _BORDER_OF_SICI
    near = _sici_near(choose(is_far, 1, size))
    far = _sici_far(choose(is_far & (size < tnp.inf), size, _BORDER_OF_SICI))
    sine = tnp.sign(x) * choose(is_far, choose(size == tnp.inf, math.pi / 2, far[0]), near[0])
    at_infinity = choose(x > 0, 1 / size, tnp.nan)
    return sine, choose(is_far, choose(size == tnp.inf, at_infinity, far[1]), near[1])


def _sici_near(x: Array) -> tuple[Array, Array]:
    square = -x * x
    odd, even = range(1, 2 * _FEW + 4, 2), range(2, 2 * _FEW + 5, 2)
    sine, cosine = (
        polynomial(square, tuple(1 / (k * math.factorial(k)) for k in powers))
        for powers in (odd, even)
    )
    return x * sine, _EULER + tnp.log(x) + square * cosine


def _sici_far(x: Array) -> tuple[Array, Array]:
    inverse = 1 / (x * x)
    f = polynomial(inverse, _F_TOP) / polynomial(inverse, _F_BOTTOM) / x
    g = polynomial(inverse, _G_TOP) / polynomial(inverse, _G_BOTTOM) * inverse
    sine, cosine = tnp.sin(x), tnp.cos(x)
    return math.pi / 2 - f * cosine - g * sine, f * sine - g * cosine


def _rule_of_sici(primals: Any, tangents: Any) -> Any:
    (x,) = primals
    of_sine = choose(x == 0, 1, tnp.sin(x) / choose(x == 0, 1, x))
    slopes = tangents[0] * of_sine, tangents[0] * (tnp.cos(x) / x)
    return _sine_and_cosine(x), slopes


_sine_and_cosine.defjvp(_rule_of_sici)


__all__ = ["exp1", "expi", "expn", "sici"]
