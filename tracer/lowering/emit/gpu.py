"""Builder methods of decompositions on NVIDIA GPUs: cuSOLVER's routines.

The calls are those that jaxlib's plugin registers (`plugins`); their attributes are documented with
cuSOLVER: https://docs.nvidia.com/cuda/cusolver/.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracer.ir import ShapeDtype
from tracer.lowering.emit.linalg import LinalgBuilder, lapack_dtype
from tracer.lowering.emit.values import Operand, real_dtype
from tracer.lowering.shims import ir

_INT32 = np.dtype(np.int32)
_CHOSEN_BY_SIZE = 0
"""cuSOLVER's eigensolver: 1 is QR, 2 Jacobi."""
Types = Sequence[ShapeDtype]


class GpuBuilder(LinalgBuilder):
    """cuSOLVER's factors, in the packed forms that LAPACK has too."""

    def gpu_lu(self, wide: ShapeDtype, pivots: ShapeDtype, x: Operand) -> tuple[Operand, ...]:
        """Emit the factors in one array, pivots counted from one, and `info`."""
        batch = ShapeDtype(wide.shape[:-2], _INT32)
        return self.library_call("cusolver_getrf_ffi", [x], [wide, pivots, batch], {}, alias={0: 0})

    def gpu_reflectors(self, x: Operand, scales: ShapeDtype) -> tuple[Operand, ...]:
        """Emit R with the reflectors below its diagonal, and their scales."""
        return self.library_call("cusolver_geqrf_ffi", [x], [x.type, scales], {}, alias={0: 0})

    def gpu_product_of_reflectors(self, x: Operand, scales: Operand) -> Operand:
        """Emit the columns of Q that `x` has room for."""
        (q,) = self.library_call("cusolver_orgqr_ffi", [x, scales], [x.type], {}, alias={0: 0})
        return q

    def gpu_eigh(self, x: Operand, values: ShapeDtype) -> tuple[Operand, ...]:
        """Emit eigenvectors, eigenvalues and `info`; the lower triangle is read."""
        batch = ShapeDtype(x.shape[:-2], _INT32)
        attributes = {
            "lower": ir.BoolAttr.get(True),
            "algorithm": ir.IntegerAttr.get(ir.IntegerType.get_unsigned(8), _CHOSEN_BY_SIZE),
        }
        return self.library_call(
            "cusolver_syevd_ffi", [x], [x.type, values, batch], attributes, alias={0: 0}
        )

    def gpu_svd(self, types: Types, x: Operand) -> tuple[Operand, ...]:
        """Emit U, s, V^H and `info`, or s and `info` when there is one type.

        The routine takes tall matrices; a wide one is handed over by rows, as its transpose.
        """
        dtype = lapack_dtype(x.dtype)
        wide = x.type.with_dtype(dtype)
        *batch, m, n = wide.shape
        info = ShapeDtype(tuple(batch), _INT32)
        is_wide = m < n
        if len(types) == 1:
            values, small = types[0], min(m, n)
            left, right = wide.with_shape((*batch, m, small)), wide.with_shape((*batch, small, n))
        else:
            left, values, right = (
                type.with_dtype(dtype) if type.ndim == wide.ndim else type for type in types
            )
        values = values.with_dtype(real_dtype(dtype))
        is_full = left.shape[-1] == m and right.shape[-2] == n and m != n
        attributes: dict[str, Any] = {
            "full_matrices": ir.BoolAttr.get(is_full),
            "compute_uv": ir.BoolAttr.get(len(types) > 1),
            "transposed": ir.BoolAttr.get(is_wide),
        }
        sides = [right, left] if is_wide else [left, right]
        _, s, first, second, status = self.library_call(
            "cusolver_gesvd_ffi",
            [x],
            [wide, values, *sides, info],
            attributes,
            alias={0: 0},
            by_columns=not is_wide,
        )
        if len(types) == 1:
            return s, status
        u, vh = (second, first) if is_wide else (first, second)
        return u, s, vh, status
