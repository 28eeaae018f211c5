"""Logarithms of float64, where XLA:CPU takes a polynomial beyond the interval that it was made for.

Its `log1p` is Cephes' quotient of polynomials, which was made for 1 + x between the root of a half
and that of two, so for x from -0.29 up. XLA takes it from -0.41 up, where it is off by 128 units in
the last place. Below -0.29 the logarithm of the sum is taken here: adding one costs two units at
most there. XLA computes both already, so nothing but a choice is added.

XLA's logarithms of complex128 take the same polynomial; here they are written with this `log1p`.

Source: Moshier, *Methods and Programs for Mathematical Functions* (1989); Cephes, `unity.c`.
"""

from __future__ import annotations

import numpy as np

from tracer.lowering.emit.angles import AngleBuilder
from tracer.lowering.emit.values import Operand
from tracer.lowering.shims import chlo, hlo

_END = -0.29
"""The polynomial's lower end, the root of a half less one, rounded up."""


class LogarithmBuilder(AngleBuilder):
    """Emits logarithms."""

    def log(self, x: Operand) -> Operand:
        """Emit `log`."""
        if x.dtype.kind != "c":
            return Operand(hlo.log(x.raw))
        real, imag = self.real(x), self.imag(x)
        if not self._is_double_on_cpu(real):
            size = self.real(Operand(hlo.log(x.raw)))
        else:
            one = self.splat(1, real.type)
            most, least = self._by_size(real, imag)
            square = self.multiply(self.subtract(most, one), self.add(most, one))
            size = self._log_of_size(self.add(square, self.multiply(least, least)), most, least)
        return self.complex(size, self.atan2(imag, real))

    def log_plus_one(self, x: Operand) -> Operand:
        """Emit `log_plus_one`."""
        if x.dtype.kind != "c":
            return self._real_log_plus_one(x)
        real, imag = self.real(x), self.imag(x)
        above = self.add(real, self.splat(1, real.type))
        if not self._is_double_on_cpu(real):
            size = self.real(Operand(hlo.log_plus_one(x.raw)))
        else:
            square = self.multiply(real, self.add(real, self.splat(2, real.type)))
            square = self.add(square, self.multiply(imag, imag))
            size = self._log_of_size(square, *self._by_size(above, imag))
        return self.complex(size, self.atan2(imag, above))

    def atanh(self, x: Operand) -> Operand:
        """Emit `atanh`."""
        if x.dtype.kind == "c" or not self._is_double_on_cpu(x):
            return Operand(chlo.atanh(x.raw))
        # CHLO's own formula.
        twice = self.subtract(self.log_plus_one(x), self.log_plus_one(self.negate(x)))
        return self.multiply(twice, self.splat(0.5, x.type))

    def _is_double_on_cpu(self, x: Operand) -> bool:
        return x.dtype == np.float64 and self.platform == "cpu"

    def _real_log_plus_one(self, x: Operand) -> Operand:
        found = Operand(hlo.log_plus_one(x.raw))
        if not self._is_double_on_cpu(x):
            return found
        sum_ = self.add(x, self.splat(1, x.type))
        is_below = self.compare("LT", x, self.splat(_END, x.type))
        return self.select(is_below, Operand(hlo.log(sum_.raw)), found)

    def _by_size(self, x: Operand, y: Operand) -> tuple[Operand, Operand]:
        """Return the larger and the smaller of two absolute values."""
        x, y = self.abs(x), self.abs(y)
        return self.maximum(x, y), self.minimum(x, y)

    def _log_of_size(self, square: Operand, most: Operand, least: Operand) -> Operand:
        """Return the logarithm of a complex number's absolute value.

        Near one it comes of `square`, the absolute value's less one. Elsewhere nothing overflows:
        it is log(most) + log1p((least / most)**2) / 2, `most` and `least` being the parts' sizes.
        """
        zero, half = (self.splat(value, most.type) for value in (0, 0.5))
        is_near = self.and_(
            self.compare("GT", most, half), self.compare("LT", most, self.splat(2, most.type))
        )
        infinite = self.splat(np.inf, most.type)
        has_ratio = self.and_(self.compare("NE", most, zero), self.compare("NE", most, infinite))
        ratio = self.select(has_ratio, self.divide(least, most), zero)
        rest = self.log_plus_one(self.select(is_near, square, self.multiply(ratio, ratio)))
        leading = self.select(is_near, zero, Operand(hlo.log(most.raw)))
        return self.add(leading, self.multiply(half, rest))
