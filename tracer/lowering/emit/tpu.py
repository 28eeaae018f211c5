"""Builder methods of decompositions on TPUs: algorithms that the TPU's compiler brings.

Their names and configurations are those that XLA's `xla/hlo/builder/lib` gives them. They are of
float32; singular values, and eigenvalues of matrices that are not symmetric, are not among them.
"""

from __future__ import annotations

import numpy as np

from tracer.errors import LoweringError
from tracer.ir import ShapeDtype
from tracer.lowering.emit.linalg import LinalgBuilder
from tracer.lowering.emit.values import Operand

_INT32 = np.dtype(np.int32)
_JACOBI = "1,1,100,1e-6"
"""Lower triangle, sorted, at most 100 sweeps, to this tolerance."""


class TpuBuilder(LinalgBuilder):
    """The TPU compiler's factors, in the packed forms that LAPACK has too."""

    def tpu_lu(self, wide: ShapeDtype, pivots: ShapeDtype, x: Operand) -> tuple[Operand, ...]:
        """Emit the factors in one array, and pivots counted from zero."""
        rows = ShapeDtype(wide.shape[:-1], _INT32)
        factors, found, _ = self.compiler_call("LuDecomposition", [x], [wide, pivots, rows])
        return factors, found

    def tpu_reflectors(self, x: Operand, scales: ShapeDtype) -> tuple[Operand, ...]:
        """Emit R with the reflectors below its diagonal, and their scales."""
        return self.compiler_call("Qr", [x], [x.type, scales])

    def tpu_product_of_reflectors(self, x: Operand, scales: Operand) -> Operand:
        """Emit the columns of Q that `x` has room for."""
        target = "ProductOfElementaryHouseholderReflectors"
        (q,) = self.compiler_call(target, [x, scales], [x.type])
        return q

    def tpu_eigh(self, x: Operand, values: ShapeDtype) -> tuple[Operand, ...]:
        """Emit eigenvectors and eigenvalues; the lower triangle is read."""
        return self.compiler_call("Eigh", [x], [x.type, values], _JACOBI)

    def refuse(self, name: str, instead: str) -> LoweringError:
        """Return the error for a decomposition that the platform has not."""
        return LoweringError(
            f"there is no {name} on a {self.platform.upper()}",
            mend=f"move the arrays to the CPU with to_device('cpu:0'), or use {instead}",
        )
