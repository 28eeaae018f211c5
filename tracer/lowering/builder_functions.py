"""Functions whose formula in XLA:CPU loses what the dtype can hold; here they have another one.

* Sines and cosines of complex numbers, circular and hyperbolic: XLA subtracts exponentials, so near
  zero nothing is left (`sin(1e-8j)` of complex64 was 0). The products of real functions keep all.
* `logistic` of float16: `exp(-x)` is computed in float16, where it overflows from -11.1 down.
"""

from __future__ import annotations

import numpy as np

from tracer.ir import ShapeDtype
from tracer.lowering.builder_base import BaseBuilder
from tracer.lowering.shims import chlo, hlo
from tracer.lowering.values import Operand


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
