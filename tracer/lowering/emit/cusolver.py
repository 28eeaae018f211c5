"""Decompositions by NVIDIA's cuSOLVER, and what jaxlib's plugin brings beside it.

The calls are those that the plugin registers (`lowering/devices/plugins.py`). Their attributes are
documented with cuSOLVER: https://docs.nvidia.com/cuda/cusolver/.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracer.ir import ShapeDtype
from tracer.lowering.emit.context import ModuleContext
from tracer.lowering.emit.dialect import complex_, imaginary_part, real_part, slice, transpose
from tracer.lowering.emit.library import library_call
from tracer.lowering.emit.values import Operand, real_dtype
from tracer.lowering.shims import hlo, ir

_INT32 = np.dtype(np.int32)
_CHOSEN_BY_SIZE = 0
"""cuSOLVER's eigensolver: 1 is QR, 2 Jacobi."""
_JACOBI_SIZE = 32
"""Rows and columns up to which its Jacobi method takes many matrices in one call."""
Types = Sequence[ShapeDtype]


def lu(b: ModuleContext, wide: ShapeDtype, pivots: ShapeDtype, x: Operand) -> tuple[Operand, ...]:
    """Emit the factors in one array, pivots counted from one, and `info`."""
    batch = ShapeDtype(wide.shape[:-2], _INT32)
    return library_call(b, "cusolver_getrf_ffi", [x], [wide, pivots, batch], {}, alias={0: 0})


def reflectors(b: ModuleContext, x: Operand, scales: ShapeDtype) -> tuple[Operand, ...]:
    """Emit R with the reflectors below its diagonal, and their scales."""
    return library_call(b, "cusolver_geqrf_ffi", [x], [x.type, scales], {}, alias={0: 0})


def product_of_reflectors(b: ModuleContext, x: Operand, scales: Operand) -> Operand:
    """Emit the columns of Q that `x` has room for."""
    (q,) = library_call(b, "cusolver_orgqr_ffi", [x, scales], [x.type], {}, alias={0: 0})
    return q


def eigh(b: ModuleContext, x: Operand, values: ShapeDtype) -> tuple[Operand, ...]:
    """Emit eigenvectors, eigenvalues and `info`; the lower triangle is read."""
    batch = ShapeDtype(x.shape[:-2], _INT32)
    attributes = {
        "lower": ir.BoolAttr.get(True),
        "algorithm": ir.IntegerAttr.get(ir.IntegerType.get_unsigned(8), _CHOSEN_BY_SIZE),
    }
    return library_call(
        b, "cusolver_syevd_ffi", [x], [x.type, values, batch], attributes, alias={0: 0}
    )


def svd(b: ModuleContext, types: Types, x: Operand) -> tuple[Operand, ...]:
    """Emit U, s, V^H and `info`, or s and `info` when there is one type.

    The routine takes tall matrices; a wide one is handed over by rows, as its transpose.
    """
    dtype, wide = x.dtype, x.type
    *batch, m, n = wide.shape
    if math.prod(batch) > 1 and max(m, n) <= _JACOBI_SIZE:
        return _svd_by_jacobi(b, types, x)
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
    _, s, first, second, status = library_call(
        b,
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


def _svd_by_jacobi(b: ModuleContext, types: Types, x: Operand) -> tuple[Operand, ...]:
    """Emit the same for many small matrices at once, which gives whole U and V always.

    10,000 of 16 x 16 took 6 ms on an H200 where the other routine, one by one, took 790.
    """
    *batch, m, n = x.shape
    few = min(m, n)
    values = x.type.with_shape((*batch, few)).with_dtype(real_dtype(x.dtype))
    left, right = (x.type.with_shape((*batch, size, size)) for size in (m, n))
    attributes = {
        "full_matrices": ir.BoolAttr.get(True), "compute_uv": ir.BoolAttr.get(len(types) > 1)
    }  # fmt: skip
    results = [x.type, values, left, right, ShapeDtype(tuple(batch), _INT32)]
    _, s, u, v, status = library_call(
        b, "cusolver_gesvdj_ffi", [x], results, attributes, alias={0: 0}
    )
    if len(types) == 1:
        return s, status
    u_type, _, vh_type = types
    rank = len(batch)
    vh = transpose(b, v, [*range(rank), rank + 1, rank])
    if x.dtype.kind == "c":
        vh = complex_(real_part(vh), Operand(hlo.negate(imaginary_part(vh).raw)))
    return _first(b, u, u_type.shape), s, _first(b, vh, vh_type.shape), status


def _first(b: ModuleContext, x: Operand, shape: Sequence[int]) -> Operand:
    return slice(b, x, [0] * len(shape), shape, [1] * len(shape))


def cholesky(b: ModuleContext, x: Operand) -> tuple[Operand, Operand]:
    """Emit the lower factor of lower triangles, and `info`; above it may be anything.

    Matrices are handed over by rows, so as upper triangles, and without a copy. 1,000 of 64 x 64
    took XLA's own algorithm 2.9 ms on an H200, and this 0.27.
    """
    info = ShapeDtype(x.shape[:-2], _INT32)
    attributes = {"lower": ir.BoolAttr.get(False)}
    factor, status = library_call(
        b, "cusolver_potrf_ffi", [x], [x.type, info], attributes, alias={0: 0}, by_columns=False
    )
    return factor, status


def permutation(b: ModuleContext, type: ShapeDtype, pivots: Operand) -> Operand:
    """Emit the order of the rows after the exchanges: one kernel for a loop over the rows."""
    (found,) = library_call(
        b, "cu_lu_pivots_to_permutation", [pivots], [type], {}, alias={}, by_columns=False
    )
    return found
