"""The Faddeeva function and its relatives: wofz, erfcx, dawsn, fresnel.

w(z) = exp(-z^2) erfc(-iz) is an integral over a line, of which the trapezoidal rule with a term for
its poles has an error below the rounding of float64 from 12 nodes on, in the whole quadrant: with
nodes at odd or at even multiples of half a step, whichever are further from Re z. erfcx is w on the
imaginary axis, Dawson's integral its imaginary part on the real axis, and the Fresnel integrals are
w on the diagonal.

References
----------
Al Azah and Chandler-Wilde, Computation of the complex error function using modified trapezoidal
rules, SIAM J. Numer. Anal. 59 (2021); Matta and Reichel, Math. Comp. 25 (1971). DLMF 7.5 and 7.12.
"""

from __future__ import annotations

import math
from typing import Any

import tracer.numpy as tnp
from tracer import ops
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, convert
from tracer.array.dispatch import apply, compound
from tracer.autodiff.transforms import custom_jvp
from tracer.ir import as_dtype
from tracer.numpy.ufunc import full_like, select
from tracer.scipy.choice import choose
from tracer.scipy.floats import floats, in_float32

_NODES = 12
_STEP = math.sqrt(math.pi / _NODES)
_FAR = 12.0
"""From here on derivatives are series: their closed forms lose the square of the argument."""
_TERMS = 11
"""Of these series: the first one left out is below 1e-17."""
_VERY_FAR = 1e8
"""From here on one term is w."""
_SPLIT = 64.0
"""Up to it the squares are split; beyond, the product of sum and difference is as good."""
_LOWEST = -30.0
"""Below it exp(x^2) is infinite."""
_ROOT = math.sqrt(math.pi)
_BORDER = math.pi / _STEP
"""Above it the terms of poles vanish, next to the imaginary axis."""
_FACTOR = 2 * _STEP / math.pi


def _nodes(shift: float) -> list[tuple[float, float]]:
    """Return the squares of the nodes and their weights."""
    squares = [((k + shift) * _STEP) ** 2 for k in range(_NODES)]
    return [(c, math.exp(-c) if c else 0.5) for c in squares]


_ODD, _EVEN = _nodes(0.5), _nodes(0.0)


def _parts(x: Array) -> tuple[Array, Array]:
    """Split a number in one whose square is exact, and the rest."""
    high = tnp.round(x * 32) / 32
    return high, x - high


def _exp_of_difference(x: Array, y: Array) -> Array:
    """Return exp(x^2 - y^2), with the rounding of the squares in the exponent."""
    is_large = tnp.maximum(abs(x), abs(y)) > _SPLIT
    (high_x, low_x), (high_y, low_y) = (_parts(choose(is_large, 0, v)) for v in (x, y))
    low = low_x * (low_x + 2 * high_x) - low_y * (low_y + 2 * high_y)
    value = _exp_of_sum((high_x - high_y) * (high_x + high_y), low)
    return choose(is_large, tnp.exp((x - y) * (x + y)), value)


def _exp_of_square(x: Array) -> Array:
    high, low = _parts(x)
    return _exp_of_sum(high * high, low * (x + high))


def _exp_of_sum(high: Array, low: Array) -> Array:
    """Return exp(high + low) without the sum, which XLA makes of a product of exponentials."""
    return tnp.exp(high) * (1 + tnp.expm1(low))


def _series(inverse: Array) -> Array:
    """Return the sum of (2k + 1)!! r^k, of r = 1 / (2 x^2); an asymptotic one (DLMF 7.12)."""
    total = 0 * inverse + 1
    for k in range(_TERMS, 0, -1):
        total = 1 + (2 * k + 1) * inverse * total
    return total


def erfcx(x: ArrayLike) -> Array:
    """Scaled complementary error function, exp(x^2) erfc(x).

    Parameters
    ----------
    x : array_like
        Real or complex numbers.

    Returns
    -------
    Array of floats or complex numbers, the shape of `x`
        Infinite below -26.6, and below -9.3 in float32.

    Notes
    -----
    Relative errors, measured: 8e-16, in float32 3e-7; complex numbers as in `wofz`.

    Examples
    --------
    >>> import tracer.scipy.special as special
    >>> round(float(special.erfcx(100.0)), 12)
    0.005641613783
    """
    array = as_array(x)
    return wofz(1j * array) if array.dtype.kind == "c" else _erfcx(array)


@compound
def _erfcx(x: Array) -> Array:
    return in_float32(_scaled_erfc)(floats("erfcx", x))


@custom_jvp
def _scaled_erfc(x: Array) -> Array:
    """Take w(ix), a sum of positive terms, and for negative x 2 exp(x^2) - erfcx(-x)."""
    size = abs(x)
    far = size > _VERY_FAR
    place = choose(far, 1, size)
    square = place * place
    total = 0 * square
    for center, weight in _ODD:
        total = total + weight / (square + center)
    near = choose(place < _BORDER, place, 0)
    pole = 2 * _exp_of_square(near) / (1 + tnp.exp(near * (2 * _BORDER)))
    value = total * place * _FACTOR + choose(place < _BORDER, pole, 0)
    value = choose(far, 1 / (_ROOT * size), value)
    negative = choose(x < 0, choose(x < _LOWEST, _LOWEST, x), 0)
    return choose(x < 0, 2 * _exp_of_square(negative) - value, value)


def _slope_of_erfcx(x: Array, value: Array) -> Array:
    far = x > _FAR
    safe, near = choose(far, x, _FAR), choose(far, 0, x)
    series = -_series(-0.5 / (safe * safe)) / (safe * safe * _ROOT)
    return choose(far, series, 2 * near * value - 2 / _ROOT)


_scaled_erfc.defjvps(lambda tangent, value, x: tangent * _slope_of_erfcx(x, value))


def dawsn(x: ArrayLike) -> Array:
    """Dawson's integral, exp(-x^2) times the integral of exp(t^2) from 0 to x.

    Parameters
    ----------
    x : array_like
        Real numbers.

    Returns
    -------
    Array of floats, the shape of `x`
        At most 0.542 in size.

    Notes
    -----
    Relative errors, measured: 2e-15, in float32 7e-7.

    Examples
    --------
    >>> import tracer.scipy.special as special
    >>> round(float(special.dawsn(1.0)), 12)
    0.538079506913
    """
    return _dawsn(as_array(x))


@compound
def _dawsn(x: Array) -> Array:
    return in_float32(_dawson)(floats("dawsn", x))


@custom_jvp
def _dawson(x: Array) -> Array:
    """Take the imaginary part of w, and near 0 the power series (DLMF 7.6.3): there it cancels."""
    small = abs(x) < 0.5
    place = choose(small, x, 0)
    square, series = -2 * place * place, tnp.zeros_like(x)
    for k in range(_TERMS + 2, -1, -1):
        series = 1 + series * square / (2 * k + 3)
    value = _quadrant(abs(x), tnp.zeros_like(x))[1] * tnp.sign(x) * (_ROOT / 2)
    return choose(small, place * series, value)


def _slope_of_dawsn(x: Array, value: Array) -> Array:
    far = abs(x) > _FAR
    safe, near = choose(far, x, _FAR), choose(far, 0, x)
    series = -_series(0.5 / (safe * safe)) / (2 * safe * safe)
    return choose(far, series, 1 - 2 * near * value)


_dawson.defjvps(lambda tangent, value, x: tangent * _slope_of_dawsn(x, value))


def wofz(z: ArrayLike) -> Array:
    """Faddeeva function, exp(-z^2) erfc(-iz).

    Parameters
    ----------
    z : array_like
        Real or complex numbers.

    Returns
    -------
    Array of complex numbers, the shape of `z`
        Below the real axis it overflows where the real part of z^2 is below -709.

    Notes
    -----
    Errors relative to the absolute value, measured in the upper half of the plane: 8e-16, in
    complex64 5e-7. In the lower half the exponential's grow with the square of its exponent.

    Examples
    --------
    >>> import tracer.scipy.special as special
    >>> complex(special.wofz(0.0))
    (1+0j)
    """
    return _wofz(as_array(z))


@compound
def _wofz(z: Array) -> Array:
    result: Array = _faddeeva(
        convert(z, promotion.complex_dtype(promotion.division_dtype(z.dtype)))
    )
    return result


@custom_jvp
def _faddeeva(z: Array) -> Array:
    """Reflect the first quadrant: w(-conj(z)) = conj(w(z)) and w(z) = 2 exp(-z^2) - w(-z)."""
    x, y = tnp.real(z), tnp.imag(z)
    real, imag = _quadrant(abs(x), abs(y))
    imag = choose(x < 0, -imag, imag)
    of_real, of_imag = _exponential(choose(y < 0, x, 0), choose(y < 0, y, 0))
    real = choose(y < 0, 2 * of_real - real, real)
    return apply(ops.complex, real, choose(y < 0, 2 * of_imag + imag, imag))


def _exponential(x: Array, y: Array) -> tuple[Array, Array]:
    """Return the real and the imaginary part of exp(-z^2)."""
    size, angle = _exp_of_difference(y, x), 2 * x * y
    return size * tnp.cos(angle), -size * tnp.sin(angle)


def _slope_of_w(z: Array, value: Array) -> Array:
    far = abs(z) > _FAR
    safe, near = choose(far, z, _FAR), choose(far, 0, z)
    series = -1j * _series(0.5 / (safe * safe)) / (safe * safe * _ROOT)
    below = far & (tnp.imag(z) < 0)
    under = choose(below, z, 0)
    series = series - 4 * under * tnp.exp(-under * under)
    return choose(far, series, 2j / _ROOT - 2 * near * value)


_faddeeva.defjvps(lambda tangent, value, z: tangent * _slope_of_w(z, value))


def _quadrant(x: Array, y: Array) -> tuple[Array, Array]:
    """Return the real and the imaginary part of w(x + iy), where neither is negative."""
    largest = tnp.maximum(x, y)
    very_far = largest > _VERY_FAR
    across, up = choose(very_far, 1, x), choose(very_far, 1, y)
    fraction = across / _STEP - tnp.floor(across / _STEP)
    is_even = (up < across) & (fraction >= 0.25) & (fraction <= 0.75)
    real, imag = _rule(across, up, is_even)
    of_pole = _pole(across, up, fraction, is_even)
    # The first term of the asymptotic series, of what is scaled, as squares may overflow.
    x, y = x / largest, y / largest
    scale = choose(largest == tnp.inf, 0, 1 / (_ROOT * largest * (x * x + y * y)))
    x, y = choose(largest == tnp.inf, 0, x), choose(largest == tnp.inf, 0, y)
    return (
        choose(very_far, y * scale, real + of_pole[0]),
        choose(very_far, x * scale, imag + of_pole[1]),
    )


def _rule(x: Array, y: Array, is_even: Array) -> tuple[Array, Array]:
    """Sum the trapezoidal rule: 2ihz / pi times the sum of exp(-c) / (z^2 - c)."""
    u, v = (x - y) * (x + y), 2 * x * y
    first, second = 0 * u, 0 * u
    for (odd, odd_weight), (even, even_weight) in zip(_ODD, _EVEN, strict=True):
        apart = u - select(is_even, full_like(u, even), full_like(u, odd))
        weight = select(is_even, full_like(u, even_weight), full_like(u, odd_weight))
        share = weight / (apart * apart + v * v)
        first, second = first + share * apart, second - share * v
    return -_FACTOR * (y * first + x * second), _FACTOR * (x * first - y * second)


def _pole(x: Array, y: Array, fraction: Array, is_even: Array) -> tuple[Array, Array]:
    """Return 2 exp(-z^2) q / (q + s), where q = exp(2 pi i z / h), s = 1 for odd nodes, else -1."""
    matters = y < tnp.maximum(x, _BORDER)
    x, y = choose(matters, x, 0), choose(matters, y, 0)
    q = tnp.exp(-2 * _BORDER * y)
    signed = choose(is_even, -q, q)
    angle = 2 * math.pi * fraction
    cosine, sine = signed * tnp.cos(angle), signed * tnp.sin(angle)
    size = q * q + 1 + 2 * cosine
    real, imag = (q * q + cosine) / size, sine / size
    of_real, of_imag = _exponential(x, y)
    return (
        choose(matters, 2 * (of_real * real - of_imag * imag), 0),
        choose(matters, 2 * (of_real * imag + of_imag * real), 0),
    )


def fresnel(x: ArrayLike) -> tuple[Array, Array]:
    """Fresnel integrals: of sin(pi t^2 / 2) and cos(pi t^2 / 2) from 0 to x.

    Parameters
    ----------
    x : array_like
        Real numbers.

    Returns
    -------
    S, C : Array of floats, the shape of `x`
        Both approach 0.5.

    Notes
    -----
    Relative errors, measured: 5e-16, in float32 3e-7, for large arguments too.

    Examples
    --------
    >>> import tracer.scipy.special as special
    >>> sine, cosine = special.fresnel(1.0)
    >>> round(float(sine), 12), round(float(cosine), 12)
    (0.43825914739, 0.779893400377)
    """
    return _fresnel(as_array(x))


@compound
def _fresnel(x: Array) -> tuple[Array, Array]:
    x = floats("fresnel", x)
    wide = convert(x, as_dtype("float32")) if x.dtype.itemsize < 4 else x
    sine, cosine = _integrals(wide)
    return convert(sine, x.dtype), convert(cosine, x.dtype)


def _phase(x: Array) -> Array:
    """Return pi x^2 / 2 less whole turns: the square of the whole part of x is 0 or 1 mod 4."""
    whole = tnp.round(x)
    rest = x - whole
    parity = whole - 2 * tnp.floor(whole / 2)
    double = 2 * whole * rest
    return (parity + (double - 4 * tnp.floor(double / 4)) + rest * rest) * (math.pi / 2)


@custom_jvp
def _integrals(x: Array) -> tuple[Array, Array]:
    size = abs(x)
    is_small, is_large = size < 1, size > 1 / float(tnp.finfo(x.dtype).eps)
    small = _small_fresnel(choose(is_small, size, 0))
    middle = _diagonal(choose(is_small | is_large, 1, size))
    sign = tnp.sign(x)
    sine, cosine = (
        sign * choose(is_small, low, choose(is_large, 0.5, high))
        for low, high in zip(small, middle, strict=True)
    )
    return sine, cosine


def _small_fresnel(x: Array) -> tuple[Array, Array]:
    """Sum the power series (DLMF 7.6.4 and 7.6.6)."""
    v = x * x * (math.pi / 2)
    square = -v * v
    sine, cosine = 0 * x, 0 * x
    for k in range(_TERMS, -1, -1):
        sine = sine * square + 1 / (math.factorial(2 * k + 1) * (4 * k + 3))
        cosine = cosine * square + 1 / (math.factorial(2 * k) * (4 * k + 1))
    return x * v * sine, x * cosine


def _diagonal(x: Array) -> tuple[Array, Array]:
    """Take C + iS = (1 + i) / 2 (1 - exp(i v) w(z)), z = sqrt(pi) / 2 x (1 + i), v = pi x^2 / 2."""
    place, v = x * (_ROOT / 2), x * x * (math.pi / 2)
    first, second = 0 * x, 0 * x
    for center, weight in _ODD:
        share = weight / (v * v + center * center)
        first, second = first - share * center, second - share * v
    real, imag = -_FACTOR * place * (first + second), _FACTOR * place * (first - second)
    q, angle, phase = tnp.exp(-2 * _BORDER * place), 2 * _BORDER * place, _phase(x)
    # The pole's exponential cancels the factor: 1 - 2q / (q + 1) is left of both.
    size = q * q + 1 + 2 * q * tnp.cos(angle)
    cosine, sine = tnp.cos(phase), tnp.sin(phase)
    along = (1 - q * q) / size - (cosine * real - sine * imag)
    across = -2 * q * tnp.sin(angle) / size - (cosine * imag + sine * real)
    return (along + across) / 2, (along - across) / 2


def _rule_of_fresnel(primals: Any, tangents: Any) -> Any:
    phase = _phase(primals[0])
    return _integrals(*primals), (tangents[0] * tnp.sin(phase), tangents[0] * tnp.cos(phase))


_integrals.defjvp(_rule_of_fresnel)


__all__ = ["dawsn", "erfcx", "fresnel", "wofz"]
