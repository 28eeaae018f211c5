"""What functions of complex numbers are at infinities and NaN.

XLA's formulas give NaN where a limit is known for one part, or for all directions. Each function
here takes the argument and XLA's result and puts the limits of C99 in.

References
----------
ISO/IEC 9899:1999, Annex G.6; https://data-apis.org/array-api/2024.12 (special cases).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tracer import ops
from tracer.numpy.dispatch import apply
from tracer.numpy.ufunc import compare, full_like, has_sign, select

if TYPE_CHECKING:
    from tracer.numpy.array import Array


def _parts(z: Array) -> tuple[Array, Array]:
    return apply(ops.real, z), apply(ops.imag, z)


def _put(result: Array, place: Array, real: Array | float, imag: Array | float) -> Array:
    like = apply(ops.real, result)
    parts = [full_like(like, part) if isinstance(part, float) else part for part in (real, imag)]
    return select(place, apply(ops.complex, *parts), result)


def _is(x: Array, value: float) -> Array:
    return compare(x, full_like(x, value), "EQ")


def _is_nan(x: Array) -> Array:
    return compare(x, x, "NE")


def _is_wild(x: Array) -> Array:
    return apply(ops.not_, apply(ops.is_finite, x))


def _is_infinite(x: Array) -> Array:
    return _is(apply(ops.abs, x), math.inf)


def _both(first: Array, second: Array) -> Array:
    return apply(ops.and_, first, second)


def exp(z: Array, result: Array) -> Array:
    """e^(-inf + iy) is 0 for every y, e^(inf + iy) is infinite."""
    return _exponential(z, result, 0.0)


def expm1(z: Array, result: Array) -> Array:
    """As `exp`, less one."""
    return _exponential(z, result, -1.0)


def _exponential(z: Array, result: Array, at_minus_infinity: float) -> Array:
    x, y = _parts(z)
    wild = _is_wild(y)
    result = _put(result, _both(_is(x, -math.inf), wild), at_minus_infinity, 0.0)
    return _put(result, _both(_is(x, math.inf), wild), math.inf, math.nan)


def cosh(z: Array, result: Array) -> Array:
    """On the imaginary axis cosh is real; at an infinite real part it is infinite."""
    x, y = _parts(z)
    wild = _is_wild(y)
    result = _put(result, _both(_is(x, 0.0), wild), math.nan, 0.0)
    return _put(result, _both(_is_infinite(x), wild), math.inf, math.nan)


def sinh(z: Array, result: Array) -> Array:
    """On the imaginary axis sinh is imaginary; at an infinite real part it is infinite."""
    x, y = _parts(z)
    known = apply(ops.or_, _is(x, 0.0), _is_infinite(x))
    return _put(result, _both(known, _is_wild(y)), x, math.nan)


def tanh(z: Array, result: Array) -> Array:
    """On the imaginary axis tanh is imaginary; at an infinite real part it is 1 or -1."""
    x, y = _parts(z)
    one, zero = apply(ops.sign, x), apply(ops.multiply, apply(ops.sign, y), full_like(y, 0.0))
    result = _put(result, _both(_is_infinite(x), apply(ops.is_finite, y)), one, zero)
    return _put(result, _both(_is(x, 0.0), _is_wild(y)), x, math.nan)


def log(z: Array, result: Array) -> Array:
    """Infinite is the absolute value when either part is."""
    x, y = _parts(z)
    infinite = apply(ops.or_, _is_infinite(x), _is_infinite(y))
    unknown = apply(ops.or_, _is_nan(x), _is_nan(y))
    return _put(result, _both(infinite, unknown), math.inf, math.nan)


def sqrt(z: Array, result: Array) -> Array:
    """One part of the root of an infinite real part is infinite."""
    x, y = _parts(z)
    unknown = _is_nan(y)
    result = _put(result, _both(_is(x, math.inf), unknown), math.inf, math.nan)
    return _put(result, _both(_is(x, -math.inf), unknown), math.nan, math.inf)


def acos(z: Array, result: Array) -> Array:
    """On the imaginary axis the real part is a quarter turn."""
    x, y = _parts(z)
    nowhere = _both(apply(ops.is_finite, x), _is_nan(y))
    result = _put(result, nowhere, math.nan, math.nan)
    return _put(result, _both(_is(x, 0.0), _is_nan(y)), math.pi / 2, math.nan)


def acosh(z: Array, result: Array) -> Array:
    """On the imaginary axis the imaginary part is a quarter turn."""
    x, y = _parts(z)
    nowhere = _both(apply(ops.is_finite, x), _is_nan(y))
    result = _put(result, nowhere, math.nan, math.nan)
    return _put(result, _both(_is(x, 0.0), _is_nan(y)), math.nan, math.pi / 2)


def asinh(z: Array, result: Array) -> Array:
    """On the real axis asinh is real."""
    x, y = _parts(z)
    return _put(result, _both(_is_nan(x), _is(y, 0.0)), math.nan, y)


def atanh(z: Array, result: Array) -> Array:
    """On the imaginary axis and at infinity the real part vanishes; else NaN stays NaN."""
    x, y = _parts(z)
    unknown = _is_nan(y)
    zero = select(has_sign(x), full_like(x, -0.0), full_like(x, 0.0))
    result = _put(result, unknown, math.nan, math.nan)
    vanishes = apply(ops.or_, _is(x, 0.0), _is_infinite(x))
    result = _put(result, _both(vanishes, unknown), zero, math.nan)
    nowhere = _both(_is_nan(x), apply(ops.is_finite, y))
    return _put(result, nowhere, math.nan, math.nan)
