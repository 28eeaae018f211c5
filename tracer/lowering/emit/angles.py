"""Arc tangents, and what XLA computes with one: never in the form that it miscompiles.

Wherever the second operand of `atan2` is the constant one by the time XLA:CPU emits code (also
inside the logarithm, the power and the reciprocal root of complex numbers), it calls `xla.atan`
instead: a function in C++ that was compiled to bitcode for machines with AVX. Where vectors have
512 bits its operand is expected on the stack, but comes in a register, so the results are those of
whatever the stack holds (jaxlib 0.10.2, `tests/lowering/test_wide_vectors.py`). With vectors of 256
bits values are right, but float64 takes the scalar function of C's library for each element.

Here `atan` is a polynomial, which is right at any width and takes an eighth of the time, and
elsewhere a constant one is hidden: where the first operand is NaN, so is the second.

Source: Cody & Waite, *Software Manual for the Elementary Functions* (1980), chapter 11.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tracer.ir import ShapeDtype
from tracer.lowering.emit.base import BaseBuilder
from tracer.lowering.emit.values import Operand
from tracer.lowering.shims import chlo, hlo

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


class AngleBuilder(BaseBuilder):
    """Emits arc tangents, and the functions of complex numbers that XLA computes with them."""

    def atan(self, x: Operand) -> Operand:
        """Emit `atan`."""
        if x.dtype.kind == "c" or self.platform != "cpu":
            return Operand(chlo.atan(x.raw))
        type = x.type
        if type.dtype.itemsize < np.dtype(np.float32).itemsize or type.dtype == ml_dtypes.bfloat16:
            wide = self.convert(ShapeDtype(type.shape, np.float32), x)
            return self.convert(type, self.atan(wide))
        return self._with_sign_of(x, self._positive_atan(self.abs(x)))

    def atan2(self, y: Operand, x: Operand) -> Operand:
        """Emit `atan2`."""
        y, x = self._normal(y), self._normal(x)
        return Operand(hlo.atan2(y.raw, self._hidden(x, y).raw))

    def power(self, x: Operand, y: Operand) -> Operand:
        """Emit `power`; of the complex number zero as NumPy, where XLA has NaN."""
        found = Operand(hlo.power(self._hidden_real(x).raw, y.raw))
        if x.dtype.kind != "c":
            return found
        zero, one, nan = (self.splat(value, x.type) for value in (0, 1, complex(np.nan, np.nan)))
        exponent = self.real(y)
        rises = self.compare("GT", exponent, self.splat(0, exponent.type))
        of_zero = self.select(rises, zero, self.select(self.compare("EQ", y, zero), one, nan))
        return self.select(self.compare("EQ", x, zero), of_zero, found)

    def rsqrt(self, x: Operand) -> Operand:
        """Emit `rsqrt`."""
        return Operand(hlo.rsqrt(self._hidden_real(x).raw))

    def acos(self, x: Operand) -> Operand:
        """Emit `acos`."""
        return Operand(chlo.acos(self._hidden_real(x).raw))

    def acosh(self, x: Operand) -> Operand:
        """Emit `acosh`."""
        return Operand(chlo.acosh(self._hidden_real(x).raw))

    def _normal(self, x: Operand) -> Operand:
        """Return numbers with zeros for subnormal ones: of two, C's `atan2` would make NaN.

        XLA's threads flush them, which the library does not know.
        """
        if self.platform != "cpu":
            return x
        info = ml_dtypes.finfo(x.dtype)  # type: ignore[no-untyped-call]
        least = self.splat(float(info.smallest_normal), x.type)
        is_less = self.compare("LT", self.abs(x), least)
        return self.select(is_less, self.multiply(x, self.splat(0, x.type)), x)

    def _hidden(self, x: Operand, other: Operand) -> Operand:
        """Return `x` where `other` is a number, else NaN: XLA cannot see that it is constant."""
        if self.platform != "cpu":
            return x
        return self.select(self.compare("EQ", other, other), x, other)

    def _hidden_real(self, x: Operand) -> Operand:
        """Return complex numbers of whose real part XLA does not see that it is the constant one.

        One with a NaN beside it gives NaN in all functions that this is for; infinities need not.
        """
        if x.dtype.kind != "c" or self.platform != "cpu":
            return x
        real, imag = self.real(x), self.imag(x)
        infinite = self.splat(np.inf, real.type)
        is_infinite = self.compare("EQ", self.abs(real), infinite)
        return self.complex(self._hidden(real, self.select(is_infinite, real, imag)), imag)

    def _positive_atan(self, x: Operand) -> Operand:
        """Return the arc tangents of numbers that are not negative, of float32 or float64."""
        type = x.type

        def number(value: float) -> Operand:
            return self.splat(value, type)

        def chosen(low: Operand, middle: Operand, high: Operand) -> Operand:
            return self.select(is_high, high, self.select(is_middle, middle, low))

        one, zero = number(1), number(0)
        is_high = self.compare("GT", x, number(_TANGENT_3))
        is_middle = self.compare("GT", x, number(_TANGENT_1))
        t = self.divide(
            chosen(x, self.subtract(x, one), number(-1)), chosen(one, self.add(x, one), x)
        )
        squared = self.multiply(t, t)
        coefficients = _SINGLE if type.dtype == np.float32 else _DOUBLE
        series = self.multiply(squared, self._polynomial(coefficients, squared))
        rest = self.add(t, self.multiply(t, series))
        high, low = _in_two_parts(np.pi / 4, 3.061616997868383e-17, type.dtype)
        base = chosen(zero, number(high), number(2 * high))
        correction = chosen(zero, number(low), number(2 * low))
        return self.add(base, self.add(correction, rest))

    def _polynomial(self, coefficients: Sequence[float], x: Operand) -> Operand:
        """Return the polynomial with these coefficients, the constant one first."""
        *rest, found = (self.splat(value, x.type) for value in coefficients)
        for coefficient in reversed(rest):
            found = self.add(self.multiply(found, x), coefficient)
        return found

    def _with_sign_of(self, x: Operand, size: Operand) -> Operand:
        """Return numbers that are not negative with the signs of others, also of zeros."""
        bits = ShapeDtype(size.shape, np.dtype(f"uint{8 * size.dtype.itemsize}"))
        sign = self.splat(1 << (8 * size.dtype.itemsize - 1), bits)
        signs = self.and_(self.bitcast_convert(bits, x), sign)
        return self.bitcast_convert(size.type, self.or_(self.bitcast_convert(bits, size), signs))


def _in_two_parts(value: float, rest: float, dtype: np.dtype[Any]) -> tuple[float, float]:
    """Return the nearest number of a dtype and what it leaves of value + rest."""
    nearest = float(dtype.type(value))
    return nearest, value - nearest + rest
