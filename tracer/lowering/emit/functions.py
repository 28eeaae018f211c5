"""Functions whose formula in XLA:CPU loses what the dtype can hold; here they have another one.

* Sines and cosines of complex numbers, circular and hyperbolic: XLA subtracts exponentials, so near
  zero nothing is left (`sin(1e-8j)` of complex64 was 0). The products of real functions keep all.
* `logistic` of float16: `exp(-x)` is computed in float16, where it overflows from -11.1 down.
* `erfc` of float64: far out it is a multiple of exp(-x*x), so that the rounding of x*x is off by as
  many units as x*x is large (505 at 26). It is known from x in two parts, and taken out, for 2 to
  6 % more time. For float32 it would be 7 to 10 %, for at most 63 units: left.

And functions for which XLA has NaN where NumPy and C99 have a value: `abs`, `sign` and `power` of
complex numbers, `digamma` at zero.
"""

from __future__ import annotations

import numpy as np

from tracer.ir import ShapeDtype
from tracer.lowering.emit.base import BaseBuilder
from tracer.lowering.emit.values import Operand
from tracer.lowering.shims import chlo, hlo

_HIGH_BITS = 0xFFFFFFFFF8000000
"""So many bits of a float64 that a number of them has an exact square."""
_ERFC_ENDS = 30.0


class FunctionBuilder(BaseBuilder):
    """Emits functions by other formulas than XLA's."""

    def sine(self, x: Operand) -> Operand:
        """Emit `sine`."""
        if not self._is_complex_on_cpu(x):
            return Operand(hlo.sine(x.raw))
        real, imag = self.real(x), self.imag(x)
        return self.complex(
            self._product(self.sine(real), self.cosh(imag)),
            self._product(self.sinh(imag), self.cosine(real)),
        )

    def cosine(self, x: Operand) -> Operand:
        """Emit `cosine`."""
        if not self._is_complex_on_cpu(x):
            return Operand(hlo.cosine(x.raw))
        real, imag = self.real(x), self.imag(x)
        return self.complex(
            self.multiply(self.cosine(real), self.cosh(imag)),
            self.negate(self._product(self.sine(real), self.sinh(imag))),
        )

    def sinh(self, x: Operand) -> Operand:
        """Emit `sinh`."""
        if not self._is_complex_on_cpu(x):
            return Operand(chlo.sinh(x.raw))
        real, imag = self.real(x), self.imag(x)
        return self.complex(
            self._product(self.sinh(real), self.cosine(imag)),
            self._product(self.sine(imag), self.cosh(real)),
        )

    def cosh(self, x: Operand) -> Operand:
        """Emit `cosh`."""
        if not self._is_complex_on_cpu(x):
            return Operand(chlo.cosh(x.raw))
        real, imag = self.real(x), self.imag(x)
        return self.complex(
            self.multiply(self.cosine(imag), self.cosh(real)),
            self._product(self.sine(imag), self.sinh(real)),
        )

    def logistic(self, x: Operand) -> Operand:
        """Emit `logistic`."""
        if x.dtype != np.float16 or self.platform != "cpu":
            return Operand(hlo.logistic(x.raw))
        wide = self.convert(ShapeDtype(x.shape, np.float32), x)
        return self.convert(x.type, Operand(hlo.logistic(wide.raw)))

    def abs(self, x: Operand) -> Operand:
        """Emit `abs`; of complex numbers it is infinite where a part is (C99, G.6.4)."""
        if x.dtype.kind == "c":
            # An infinite part stands for both, before and not after: that takes half of the time.
            real, imag = self._parts(x)
            x = self.complex(
                self.select(self._is_infinite(imag), imag, real),
                self.select(self._is_infinite(real), real, imag),
            )
        return Operand(hlo.abs(x.raw))

    def sign(self, x: Operand) -> Operand:
        """Emit `sign`; of a complex number of which one part is infinite, that of this part."""
        if x.dtype.kind != "c":
            return Operand(hlo.sign(x.raw))
        real, imag = self._parts(x)
        is_wide, is_high = self._is_infinite(real), self._is_infinite(imag)
        zero = self.splat(0, real.type)
        axis = self.complex(
            self.select(is_wide, self.sign(real), zero), self.select(is_high, self.sign(imag), zero)
        )
        found = Operand(hlo.sign(self._quartered(real, imag).raw))
        return self.select(self.xor(is_wide, is_high), axis, found)

    def _quartered(self, real: Operand, imag: Operand) -> Operand:
        """Return a complex number, of a quarter of the size where that might overflow."""
        largest = self.splat(np.finfo(real.dtype).max / 4, real.type)
        is_large = self.or_(*(self.compare("GT", self.abs(x), largest) for x in (real, imag)))
        factor = self.select(is_large, self.splat(0.25, real.type), self.splat(1, real.type))
        return self.complex(self.multiply(real, factor), self.multiply(imag, factor))

    def digamma(self, x: Operand) -> Operand:
        """Emit `digamma`: at its pole at zero it is that of -1 / x, of both zeros."""
        reciprocal = self.divide(self.splat(-1, x.type), x)
        is_zero = self.compare("EQ", x, self.splat(0, x.type))
        return self.select(is_zero, reciprocal, Operand(chlo.digamma(x.raw)))

    def erfc(self, x: Operand) -> Operand:
        """Emit `erfc`."""
        found = Operand(chlo.erfc(x.raw))
        if x.dtype != np.float64 or self.platform != "cpu":
            return found
        bits = x.type.with_dtype(np.uint64)
        high = self.and_(self.bitcast_convert(bits, x), self.splat(_HIGH_BITS, bits))
        high = self.bitcast_convert(x.type, high)
        rounding = self.subtract(self.multiply(high, high), self.multiply(x, x))
        rest = self.multiply(self.subtract(x, high), self.add(x, high))
        # Behind `_ERFC_ENDS` it is zero; of infinity there are no parts.
        is_tail = self.and_(
            self.compare("GT", x, self.splat(1, x.type)),
            self.compare("LT", x, self.splat(_ERFC_ENDS, x.type)),
        )
        share = self.select(is_tail, self.add(rounding, rest), self.splat(0, x.type))
        # Not as a difference, whose second term would be subnormal where the first is not yet.
        return self.multiply(found, self.subtract(self.splat(1, x.type), share))

    def _parts(self, x: Operand) -> tuple[Operand, Operand]:
        return self.real(x), self.imag(x)

    def _is_infinite(self, x: Operand) -> Operand:
        return self.compare("EQ", Operand(hlo.abs(x.raw)), self.splat(np.inf, x.type))

    def _is_complex_on_cpu(self, x: Operand) -> bool:
        return x.dtype.kind == "c" and self.platform == "cpu"

    def _product(self, x: Operand, y: Operand) -> Operand:
        """Return x * y, and a zero where either is one: an infinite factor does not count."""
        return self.multiply(self._beside(x, y), self._beside(y, x))

    def _beside(self, x: Operand, other: Operand) -> Operand:
        """Return x, and at most one, never NaN, where its factor is zero."""
        one = self.splat(1, x.type)
        bounded = self.select(self.compare("EQ", x, x), self.clamp(self.negate(one), x, one), one)
        return self.select(self.compare("EQ", other, self.splat(0, x.type)), bounded, x)
