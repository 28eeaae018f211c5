"""Values of complex functions at infinities and NaN.

XLA's formulas give NaN where a limit is known for one part, or for all directions. Each function
here takes the argument and XLA's result, and puts in the limits of C99.

References
----------
ISO/IEC 9899:1999, Annex G.6; https://data-apis.org/array-api/2024.12 (special cases).
"""

from __future__ import annotations

import math

from tracer import ops
from tracer.array.array import Array
from tracer.array.dispatch import apply
from tracer.numpy.ufunc import compare, full_like, has_sign, select


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


def _with_sign(part: Array, like: Array) -> Array:
    """Return a part of a result with the sign of a part of the argument.

    XLA takes -0 for 0, so that it is on the other side of a branch cut along an axis.
    """
    differs = apply(ops.xor, has_sign(part), has_sign(like))
    return select(differs, apply(ops.negate, part), part)


def _above_or_below(z: Array, result: Array) -> Array:
    """Return the result on the side of the real axis that the argument is on."""
    real, imag = _parts(result)
    return apply(ops.complex, real, _with_sign(imag, apply(ops.imag, z)))


def _left_or_right(z: Array, result: Array) -> Array:
    """Return the result on the side of the imaginary axis that the argument is on."""
    real, imag = _parts(result)
    return apply(ops.complex, _with_sign(real, apply(ops.real, z)), imag)


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
    """One part of the root of an infinite real part is infinite; cut along the negative axis."""
    x, y = _parts(z)
    result = _above_or_below(z, result)
    unknown = _is_nan(y)
    result = _put(result, _both(_is(x, math.inf), unknown), math.inf, math.nan)
    result = _put(result, _both(_is(x, -math.inf), unknown), math.nan, math.inf)
    return _put(result, _both(_is_nan(x), _is_infinite(y)), math.inf, y)


def asin(z: Array, result: Array) -> Array:
    """Cut along the real axis, from -1 and 1 outwards."""
    return _above_or_below(z, result)


def atan(z: Array, result: Array) -> Array:
    """Cut along the imaginary axis, from -i and i outwards; NaN stays NaN."""
    x, y = _parts(z)
    unknown = apply(ops.or_, _is_nan(x), _both(apply(ops.is_finite, x), _is_nan(y)))
    result = _left_or_right(z, result)
    zero = apply(ops.multiply, apply(ops.sign, y), full_like(y, 0.0))
    result = _put(result, unknown, math.nan, math.nan)
    result = _put(result, _both(_is_nan(x), _is(y, 0.0)), math.nan, y)
    return _put(result, _both(_is_nan(x), _is_infinite(y)), math.nan, zero)


def acos(z: Array, result: Array) -> Array:
    """On the imaginary axis the real part is a quarter turn; cut as `asin`."""
    x, y = _parts(z)
    result = _above_or_below(apply(ops.negate, z), result)
    nowhere = _both(apply(ops.is_finite, x), _is_nan(y))
    result = _put(result, nowhere, math.nan, math.nan)
    return _put(result, _both(_is(x, 0.0), _is_nan(y)), math.pi / 2, math.nan)


def acosh(z: Array, result: Array) -> Array:
    """On the imaginary axis the imaginary part is a quarter turn; cut from 1 to the left."""
    x, y = _parts(z)
    result = _above_or_below(z, result)
    nowhere = _both(apply(ops.is_finite, x), _is_nan(y))
    result = _put(result, nowhere, math.nan, math.nan)
    return _put(result, _both(_is(x, 0.0), _is_nan(y)), math.nan, math.pi / 2)


def asinh(z: Array, result: Array) -> Array:
    """On the real axis asinh is real; cut along the imaginary axis, from -i and i outwards."""
    x, y = _parts(z)
    result = _left_or_right(z, result)
    # XLA's formula for large values forgets a real part that is NaN.
    nowhere = _both(_is_nan(x), apply(ops.is_finite, y))
    result = _put(result, nowhere, math.nan, math.nan)
    return _put(result, _both(_is_nan(x), _is(y, 0.0)), math.nan, y)


def atanh(z: Array, result: Array) -> Array:
    """At zero and infinity the real part vanishes; cut along the real axis, from -1 and 1 out."""
    x, y = _parts(z)
    # XLA is on the right side for arguments of moderate size only.
    result = _above_or_below(z, result)
    unknown = _is_nan(y)
    zero = select(has_sign(x), full_like(x, -0.0), full_like(x, 0.0))
    result = _put(result, unknown, math.nan, math.nan)
    vanishes = apply(ops.or_, _is(x, 0.0), _is_infinite(x))
    result = _put(result, _both(vanishes, unknown), zero, math.nan)
    nowhere = _both(_is_nan(x), apply(ops.is_finite, y))
    return _put(result, nowhere, math.nan, math.nan)
