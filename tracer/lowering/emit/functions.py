"""Functions whose formula in XLA:CPU loses digits that the dtype can hold, written otherwise.

* Sines and cosines of complex numbers, circular and hyperbolic: XLA subtracts exponentials, so near
  zero nothing is left (`sin(1e-8j)` of complex64 was 0). Products of real functions keep all
  digits.
* `logistic` of float16: XLA computes `exp(-x)` in float16, where it overflows from -11.1 down.
* `erfc` of float64: far out it is a multiple of exp(-x*x), so the rounding of x*x costs as many
  units as x*x is large (505 at 26). That rounding is computed from x in two parts and taken out,
  for 2 to 6 % more time. For float32 it would cost 7 to 10 % and gain at most 63 units: left.
* `abs`, `sign` and `power` of complex numbers, and `digamma` at zero: XLA has NaN where NumPy and
  C99 have a value.

**Arc tangents.** Where the second operand of `atan2` is the constant one when XLA:CPU emits code
(also inside the logarithm, the power and the reciprocal root of complex numbers), XLA calls
`xla.atan`: a C++ function compiled to bitcode for machines with AVX. With vectors of 512 bits its
operand is expected on the stack but comes in a register, so the results are those of whatever the
stack holds (jaxlib 0.10.2, `tests/lowering/test_wide_vectors.py`). With vectors of 256 bits values
are right, but float64 takes the scalar function of C's library for each element. Here `atan` is a
polynomial, which is right at any width and takes an eighth of the time. Elsewhere a constant one is
hidden from XLA: it becomes NaN where the first operand is NaN.

**Logarithms of float64.** XLA's `log1p` is Cephes' quotient of polynomials, made for 1 + x between
the root of a half and that of two, so for x from -0.29 up. XLA uses it from -0.41 up, where it is
off by 128 units in the last place. Below -0.29 the logarithm of the sum is taken here: adding one
costs at most two units there. XLA computes both already, so only a choice is added. XLA's
logarithms of complex128 use the same polynomial; here they are written with this `log1p`.

Sources: for `atan` Cody & Waite, *Software Manual for the Elementary Functions* (1980), chapter 11;
for `log1p` Moshier, *Methods and Programs for Mathematical Functions* (1989), and Cephes,
`unity.c`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tracer.ir import ShapeDtype
from tracer.lowering.emit.context import ModuleContext
from tracer.lowering.emit.dialect import (
    add,
    and_,
    bitcast_convert,
    clamp,
    compare,
    complex_,
    convert,
    divide,
    imaginary_part,
    maximum,
    minimum,
    multiply,
    negate,
    or_,
    real_part,
    select,
    splat,
    subtract,
    xor,
)
from tracer.lowering.emit.values import Operand
from tracer.lowering.shims import chlo, hlo

_HIGH_BITS = 0xFFFFFFFFF8000000
"""So many bits of a float64 that a number of them has an exact square."""
_ERFC_ENDS = 30.0
_TANGENT_1, _TANGENT_3 = 0.41421356237309503, 2.414213562373095
"""Tangents of one and of three eighths of pi, between which the angle is taken from pi / 4."""

# Of (atan(t) / t - 1) / t**2 in powers of t**2, interpolated at the Chebyshev points of
# |t| <= tan(pi / 8). Their errors are 2.5e-9 and 1.9e-19 of atan(t), a fiftieth of epsilon.
_SINGLE = (-0.3333333, 0.1999954, -0.14263956, 0.10743731, -0.06451928)
_DOUBLE = (
    -0.3333333333333333,
    0.19999999999999804,
    -0.14285714285659828,
    0.11111111105155447,
    -0.09090908753500877,
    0.07692296375032143,
    -0.06666424885738255,
    0.05878928997834775,
    -0.05230454270650244,
    0.04551593220626549,
    -0.034570561981427744,
    0.016285756855221028,
)
_END = -0.29
"""The polynomial's lower end, the root of a half less one, rounded up."""


def sine(b: ModuleContext, x: Operand) -> Operand:
    """Emit `sine`."""
    if not _is_complex_on_cpu(b, x):
        return Operand(hlo.sine(x.raw))
    real, imag = _parts(x)
    return complex_(
        _product(b, sine(b, real), cosh(b, imag)),
        _product(b, sinh(b, imag), cosine(b, real)),
    )


def cosine(b: ModuleContext, x: Operand) -> Operand:
    """Emit `cosine`."""
    if not _is_complex_on_cpu(b, x):
        return Operand(hlo.cosine(x.raw))
    real, imag = _parts(x)
    return complex_(
        multiply(cosine(b, real), cosh(b, imag)),
        negate(_product(b, sine(b, real), sinh(b, imag))),
    )


def sinh(b: ModuleContext, x: Operand) -> Operand:
    """Emit `sinh`."""
    if not _is_complex_on_cpu(b, x):
        return Operand(chlo.sinh(x.raw))
    real, imag = _parts(x)
    return complex_(
        _product(b, sinh(b, real), cosine(b, imag)),
        _product(b, sine(b, imag), cosh(b, real)),
    )


def cosh(b: ModuleContext, x: Operand) -> Operand:
    """Emit `cosh`."""
    if not _is_complex_on_cpu(b, x):
        return Operand(chlo.cosh(x.raw))
    real, imag = _parts(x)
    return complex_(
        multiply(cosine(b, imag), cosh(b, real)),
        _product(b, sine(b, imag), sinh(b, real)),
    )


def logistic(b: ModuleContext, x: Operand) -> Operand:
    """Emit `logistic`."""
    if x.dtype != np.float16 or b.platform != "cpu":
        return Operand(hlo.logistic(x.raw))
    wide = convert(b, ShapeDtype(x.shape, np.float32), x)
    return convert(b, x.type, Operand(hlo.logistic(wide.raw)))


def abs(b: ModuleContext, x: Operand) -> Operand:
    """Emit `abs`; of complex numbers it is infinite where a part is (C99, G.6.4)."""
    if x.dtype.kind == "c":
        # An infinite part replaces both, before and not after: that takes half of the time.
        real, imag = _parts(x)
        x = complex_(
            select(b, _is_infinite(b, imag), imag, real),
            select(b, _is_infinite(b, real), real, imag),
        )
    return Operand(hlo.abs(x.raw))


def sign(b: ModuleContext, x: Operand) -> Operand:
    """Emit `sign`; of a complex number of which one part is infinite, that of this part."""
    if x.dtype.kind != "c":
        return Operand(hlo.sign(x.raw))
    real, imag = _parts(x)
    is_wide, is_high = _is_infinite(b, real), _is_infinite(b, imag)
    zero = splat(b, 0, real.type)
    axis = complex_(
        select(b, is_wide, sign(b, real), zero), select(b, is_high, sign(b, imag), zero)
    )
    found = Operand(hlo.sign(_quartered(b, real, imag).raw))
    return select(b, xor(is_wide, is_high), axis, found)


def _quartered(b: ModuleContext, real: Operand, imag: Operand) -> Operand:
    """Return a complex number, divided by four where it might overflow."""
    largest = splat(b, np.finfo(real.dtype).max / 4, real.type)
    is_large = or_(*(compare(b, "GT", abs(b, x), largest) for x in (real, imag)))
    factor = select(b, is_large, splat(b, 0.25, real.type), splat(b, 1, real.type))
    return complex_(multiply(real, factor), multiply(imag, factor))


def digamma(b: ModuleContext, x: Operand) -> Operand:
    """Emit `digamma`: at both zeros, its pole, it is -1 / x."""
    reciprocal = divide(splat(b, -1, x.type), x)
    is_zero = compare(b, "EQ", x, splat(b, 0, x.type))
    return select(b, is_zero, reciprocal, Operand(chlo.digamma(x.raw)))


def erfc(b: ModuleContext, x: Operand) -> Operand:
    """Emit `erfc`."""
    found = Operand(chlo.erfc(x.raw))
    if x.dtype != np.float64 or b.platform != "cpu":
        return found
    bits = x.type.with_dtype(np.uint64)
    high = and_(bitcast_convert(b, bits, x), splat(b, _HIGH_BITS, bits))
    high = bitcast_convert(b, x.type, high)
    rounding = subtract(multiply(high, high), multiply(x, x))
    rest = multiply(subtract(x, high), add(x, high))
    # Behind `_ERFC_ENDS` it is zero; of infinity there are no parts.
    is_tail = and_(
        compare(b, "GT", x, splat(b, 1, x.type)),
        compare(b, "LT", x, splat(b, _ERFC_ENDS, x.type)),
    )
    share = select(b, is_tail, add(rounding, rest), splat(b, 0, x.type))
    # Not as a difference, whose second term would be subnormal where the first is not yet.
    return multiply(found, subtract(splat(b, 1, x.type), share))


def _parts(x: Operand) -> tuple[Operand, Operand]:
    return real_part(x), imaginary_part(x)


def _is_infinite(b: ModuleContext, x: Operand) -> Operand:
    return compare(b, "EQ", Operand(hlo.abs(x.raw)), splat(b, np.inf, x.type))


def _is_complex_on_cpu(b: ModuleContext, x: Operand) -> bool:
    return x.dtype.kind == "c" and b.platform == "cpu"


def _product(b: ModuleContext, x: Operand, y: Operand) -> Operand:
    """Return x * y, and a zero where either is one: an infinite factor does not count."""
    return multiply(_beside(b, x, y), _beside(b, y, x))


def _beside(b: ModuleContext, x: Operand, other: Operand) -> Operand:
    """Return x, and at most one, never NaN, where its factor is zero."""
    one = splat(b, 1, x.type)
    bounded = select(b, compare(b, "EQ", x, x), clamp(negate(one), x, one), one)
    return select(b, compare(b, "EQ", other, splat(b, 0, x.type)), bounded, x)


def atan(b: ModuleContext, x: Operand) -> Operand:
    """Emit `atan`."""
    if x.dtype.kind == "c" or b.platform != "cpu":
        return Operand(chlo.atan(x.raw))
    type = x.type
    if type.dtype.itemsize < np.dtype(np.float32).itemsize or type.dtype == ml_dtypes.bfloat16:
        wide = convert(b, ShapeDtype(type.shape, np.float32), x)
        return convert(b, type, atan(b, wide))
    return _with_sign_of(b, x, _positive_atan(b, abs(b, x)))


def atan2(b: ModuleContext, y: Operand, x: Operand) -> Operand:
    """Emit `atan2`."""
    y, x = _normal(b, y), _normal(b, x)
    return Operand(hlo.atan2(y.raw, _hidden(b, x, y).raw))


def power(b: ModuleContext, x: Operand, y: Operand) -> Operand:
    """Emit `power`; for the complex base zero as in NumPy, where XLA has NaN."""
    found = Operand(hlo.power(_hidden_real(b, x).raw, y.raw))
    if x.dtype.kind != "c":
        return found
    zero, one, nan = (splat(b, value, x.type) for value in (0, 1, complex(np.nan, np.nan)))
    exponent = real_part(y)
    rises = compare(b, "GT", exponent, splat(b, 0, exponent.type))
    of_zero = select(b, rises, zero, select(b, compare(b, "EQ", y, zero), one, nan))
    return select(b, compare(b, "EQ", x, zero), of_zero, found)


def rsqrt(b: ModuleContext, x: Operand) -> Operand:
    """Emit `rsqrt`."""
    return Operand(hlo.rsqrt(_hidden_real(b, x).raw))


def acos(b: ModuleContext, x: Operand) -> Operand:
    """Emit `acos`."""
    return Operand(chlo.acos(_hidden_real(b, x).raw))


def acosh(b: ModuleContext, x: Operand) -> Operand:
    """Emit `acosh`."""
    return Operand(chlo.acosh(_hidden_real(b, x).raw))


def _normal(b: ModuleContext, x: Operand) -> Operand:
    """Replace subnormal numbers by zeros: from two of them C's `atan2` would make NaN.

    XLA's threads flush them, which the library does not know.
    """
    if b.platform != "cpu":
        return x
    # The exponents of bfloat16 are those of float32.
    info = np.finfo(np.float32 if x.dtype == ml_dtypes.bfloat16 else x.dtype)
    least = splat(b, float(info.smallest_normal), x.type)
    is_less = compare(b, "LT", abs(b, x), least)
    return select(b, is_less, multiply(x, splat(b, 0, x.type)), x)


def _hidden(b: ModuleContext, x: Operand, other: Operand) -> Operand:
    """Return `x` where `other` is a number, else NaN: XLA cannot see that it is constant."""
    if b.platform != "cpu":
        return x
    return select(b, compare(b, "EQ", other, other), x, other)


def _hidden_real(b: ModuleContext, x: Operand) -> Operand:
    """Return complex numbers whose real part XLA cannot see to be the constant one.

    One with a NaN in the other part gives NaN in all these functions; infinities need not.
    """
    if x.dtype.kind != "c" or b.platform != "cpu":
        return x
    real, imag = _parts(x)
    infinite = splat(b, np.inf, real.type)
    is_infinite = compare(b, "EQ", abs(b, real), infinite)
    return complex_(_hidden(b, real, select(b, is_infinite, real, imag)), imag)


def _positive_atan(b: ModuleContext, x: Operand) -> Operand:
    """Return the arc tangents of numbers that are not negative, of float32 or float64."""
    type = x.type

    def number(value: float) -> Operand:
        return splat(b, value, type)

    def chosen(low: Operand, middle: Operand, high: Operand) -> Operand:
        return select(b, is_high, high, select(b, is_middle, middle, low))

    one, zero = number(1), number(0)
    is_high = compare(b, "GT", x, number(_TANGENT_3))
    is_middle = compare(b, "GT", x, number(_TANGENT_1))
    t = divide(chosen(x, subtract(x, one), number(-1)), chosen(one, add(x, one), x))
    squared = multiply(t, t)
    coefficients = _SINGLE if type.dtype == np.float32 else _DOUBLE
    series = multiply(squared, _polynomial(b, coefficients, squared))
    rest = add(t, multiply(t, series))
    high, low = _in_two_parts(np.pi / 4, 3.061616997868383e-17, type.dtype)
    base = chosen(zero, number(high), number(2 * high))
    correction = chosen(zero, number(low), number(2 * low))
    return add(base, add(correction, rest))


def _polynomial(b: ModuleContext, coefficients: Sequence[float], x: Operand) -> Operand:
    """Return the polynomial with these coefficients, the constant one first."""
    *rest, found = (splat(b, value, x.type) for value in coefficients)
    for coefficient in reversed(rest):
        found = add(multiply(found, x), coefficient)
    return found


def _with_sign_of(b: ModuleContext, x: Operand, size: Operand) -> Operand:
    """Return numbers that are not negative with the signs of others, also of zeros."""
    bits = ShapeDtype(size.shape, np.dtype(f"uint{8 * size.dtype.itemsize}"))
    sign = splat(b, 1 << (8 * size.dtype.itemsize - 1), bits)
    signs = and_(bitcast_convert(b, bits, x), sign)
    return bitcast_convert(b, size.type, or_(bitcast_convert(b, bits, size), signs))


def _in_two_parts(value: float, rest: float, dtype: np.dtype[Any]) -> tuple[float, float]:
    """Return the nearest number of a dtype to value + rest, and the remainder."""
    nearest = float(dtype.type(value))
    return nearest, value - nearest + rest


def log(b: ModuleContext, x: Operand) -> Operand:
    """Emit `log`."""
    if x.dtype.kind != "c":
        return Operand(hlo.log(x.raw))
    real, imag = _parts(x)
    if not _is_double_on_cpu(b, real):
        size = real_part(Operand(hlo.log(x.raw)))
    else:
        one = splat(b, 1, real.type)
        most, least = _by_size(b, real, imag)
        square = multiply(subtract(most, one), add(most, one))
        size = _log_of_size(b, add(square, multiply(least, least)), most, least)
    return complex_(size, atan2(b, imag, real))


def log_plus_one(b: ModuleContext, x: Operand) -> Operand:
    """Emit `log_plus_one`."""
    if x.dtype.kind != "c":
        return _real_log_plus_one(b, x)
    real, imag = _parts(x)
    above = add(real, splat(b, 1, real.type))
    if not _is_double_on_cpu(b, real):
        size = real_part(Operand(hlo.log_plus_one(x.raw)))
    else:
        square = multiply(real, add(real, splat(b, 2, real.type)))
        square = add(square, multiply(imag, imag))
        size = _log_of_size(b, square, *_by_size(b, above, imag))
    return complex_(size, atan2(b, imag, above))


def atanh(b: ModuleContext, x: Operand) -> Operand:
    """Emit `atanh`."""
    if x.dtype.kind == "c" or not _is_double_on_cpu(b, x):
        return Operand(chlo.atanh(x.raw))
    # CHLO's own formula.
    twice = subtract(log_plus_one(b, x), log_plus_one(b, negate(x)))
    return multiply(twice, splat(b, 0.5, x.type))


def _is_double_on_cpu(b: ModuleContext, x: Operand) -> bool:
    return x.dtype == np.float64 and b.platform == "cpu"


def _real_log_plus_one(b: ModuleContext, x: Operand) -> Operand:
    found = Operand(hlo.log_plus_one(x.raw))
    if not _is_double_on_cpu(b, x):
        return found
    sum_ = add(x, splat(b, 1, x.type))
    is_below = compare(b, "LT", x, splat(b, _END, x.type))
    return select(b, is_below, Operand(hlo.log(sum_.raw)), found)


def _by_size(b: ModuleContext, x: Operand, y: Operand) -> tuple[Operand, Operand]:
    """Return the larger and the smaller of two absolute values."""
    x, y = abs(b, x), abs(b, y)
    return maximum(x, y), minimum(x, y)


def _log_of_size(b: ModuleContext, square: Operand, most: Operand, least: Operand) -> Operand:
    """Return the logarithm of a complex number's absolute value.

    Near one it comes from `square`, the absolute value's less one. Elsewhere nothing overflows:
    it is log(most) + log1p((least / most)**2) / 2, `most` and `least` being the parts' sizes.
    """
    zero, half = (splat(b, value, most.type) for value in (0, 0.5))
    is_near = and_(compare(b, "GT", most, half), compare(b, "LT", most, splat(b, 2, most.type)))
    infinite = splat(b, np.inf, most.type)
    has_ratio = and_(compare(b, "NE", most, zero), compare(b, "NE", most, infinite))
    ratio = select(b, has_ratio, divide(least, most), zero)
    rest = log_plus_one(b, select(b, is_near, square, multiply(ratio, ratio)))
    leading = select(b, is_near, zero, Operand(hlo.log(most.raw)))
    return add(leading, multiply(half, rest))
