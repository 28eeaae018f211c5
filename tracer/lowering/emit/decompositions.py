"""Decompositions by the platform's library, and the Fourier transform.

* On CPUs the library is LAPACK.
* On NVIDIA GPUs it is cuSOLVER: `emit/cusolver.py`.
* On TPUs they are algorithms of the TPU's compiler, float32 only. Names and configurations are
  those of XLA's `xla/hlo/builder/lib`. Singular values and eigenvalues of matrices that are not
  symmetric are missing.

A decomposition that does not converge gives NaN.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracer.errors import LoweringError
from tracer.ir import ShapeDtype
from tracer.lowering.emit import cusolver
from tracer.lowering.emit.context import ModuleContext
from tracer.lowering.emit.dialect import (
    broadcast_in_dim,
    compare,
    complex_,
    convert,
    pad,
    select,
    slice,
    splat,
    subtract,
)
from tracer.lowering.emit.library import compiler_call, lapack
from tracer.lowering.emit.linalg import lapack_dtype, linalg_dtype, rows_to_columns, triangle
from tracer.lowering.emit.values import Operand, real_dtype
from tracer.lowering.shims import hlo

_INT32 = np.dtype(np.int32)
_TRANSFORMS = ("FFT", "IFFT", "RFFT", "IRFFT")
_JACOBI = "1,1,100,1e-6"
"""Lower triangle, sorted, at most 100 sweeps, to this tolerance."""
Types = Sequence[ShapeDtype]


def lu(b: ModuleContext, types: Types, x: Operand) -> tuple[Operand, ...]:
    """Emit the factors in one array, and the pivots counted from zero."""
    packed, pivots = types
    wide = packed.with_dtype(linalg_dtype(b, "lu", packed.dtype))
    operand = convert(b, wide, x)
    if b.platform == "tpu":
        factors, rows = tpu_lu(b, wide, pivots, operand)
        return convert(b, packed, factors), rows
    if b.platform == "gpu":
        factors, rows, _ = cusolver.lu(b, wide, pivots, operand)
    else:
        batch = ShapeDtype(packed.shape[:-2], _INT32)
        results = [wide, pivots, batch]
        factors, rows, _ = lapack(b, "getrf_ffi", wide.dtype, [operand], results, {}, alias={0: 0})
    return convert(b, packed, factors), subtract(rows, splat(b, 1, pivots))


def qr(b: ModuleContext, types: Types, x: Operand) -> tuple[Operand, ...]:
    """Emit Q and R; the types say whether Q is square."""
    q_type, r_type = types
    if x.type.size == 0:
        return _identity(b, q_type), splat(b, 0, r_type)
    dtype = linalg_dtype(b, "qr", q_type.dtype, is_emulated=True)
    wide = x.type.with_dtype(dtype)
    batch, (m, n), inner = wide.shape[:-2], wide.shape[-2:], q_type.shape[-1]
    scales = ShapeDtype((*batch, min(m, n)), dtype)
    packed, factors = _reflectors(b, convert(b, wide, x), scales)
    q = _product_of_reflectors(b, _with_columns(b, packed, inner), factors)
    rows = _first(b, packed, wide.ndim - 2, inner)
    r = triangle(b, r_type.with_dtype(dtype), rows, lower=False)
    return convert(b, q_type, q), convert(b, r_type, r)


def _reflectors(b: ModuleContext, x: Operand, scales: ShapeDtype) -> tuple[Operand, ...]:
    if b.platform == "tpu":
        return tpu_reflectors(b, x, scales)
    if b.platform == "gpu":
        return cusolver.reflectors(b, x, scales)
    return lapack(b, "geqrf_ffi", x.dtype, [x], [x.type, scales], {}, alias={0: 0})


def _product_of_reflectors(b: ModuleContext, x: Operand, scales: Operand) -> Operand:
    if b.platform == "tpu":
        return tpu_product_of_reflectors(b, x, scales)
    if b.platform == "gpu":
        return cusolver.product_of_reflectors(b, x, scales)
    routine = "ungqr_ffi" if x.dtype.kind == "c" else "orgqr_ffi"
    (q,) = lapack(b, routine, x.dtype, [x, scales], [x.type], {}, alias={0: 0})
    return q


def eigh(b: ModuleContext, types: Types, x: Operand) -> tuple[Operand, ...]:
    """Emit the eigenvalues, and the eigenvectors when there is a second type."""
    dtype = linalg_dtype(b, "eigh", x.type.dtype)
    wide = x.type.with_dtype(dtype)
    values = types[0].with_dtype(real_dtype(dtype))
    if b.platform == "tpu":
        vectors, found = tpu_eigh(b, convert(b, wide, x), values)
        results = zip(types, (found, vectors), strict=False)
        return tuple(convert(b, type, result) for type, result in results)
    if b.platform == "gpu":
        vectors, found, info = cusolver.eigh(b, convert(b, wide, x), values)
        return _converged(b, types, info, [found, vectors])
    routine = "heevd_ffi" if dtype.kind == "c" else "syevd_ffi"
    batch = ShapeDtype(wide.shape[:-2], _INT32)
    flags = {"mode": "N" if len(types) == 1 else "V", "uplo": "L"}
    vectors, found, info = lapack(
        b, routine, dtype, [convert(b, wide, x)], [wide, values, batch], flags, alias={0: 0}
    )
    return _converged(b, types, info, [found, vectors])


def eig(b: ModuleContext, types: Types, x: Operand) -> tuple[Operand, ...]:
    """Emit the eigenvalues, and the right eigenvectors when there is a second type."""
    if b.platform != "cpu":
        raise refuse(b, "eig", "eigh for a symmetric matrix")
    dtype = lapack_dtype(x.type.dtype)
    wide = x.type.with_dtype(dtype)
    vectors = wide.with_dtype(types[0].dtype)
    part = ShapeDtype(types[0].shape, dtype)
    batch = ShapeDtype(wide.shape[:-2], _INT32)
    parts = [part] if dtype.kind == "c" else [part, part]
    flags = {"compute_left": "N", "compute_right": "N" if len(types) == 1 else "V"}
    *found, _, right, info = lapack(
        b,
        "geev_ffi",
        dtype,
        [convert(b, wide, x)],
        [*parts, vectors, vectors, batch],
        flags,
        alias={},
    )
    values = found[0] if dtype.kind == "c" else complex_(*found)
    return _converged(b, types, info, [values, right])


def schur(b: ModuleContext, types: Types, x: Operand) -> tuple[Operand, ...]:
    """Emit the Schur form, and the vectors when there is a second type."""
    if b.platform != "cpu":
        raise refuse(b, "schur", "eigh for a symmetric matrix")
    dtype = lapack_dtype(x.type.dtype)
    wide = x.type.with_dtype(dtype)
    values = ShapeDtype(wide.shape[:-1], dtype)
    batch = ShapeDtype(wide.shape[:-2], _INT32)
    parts = [values] if dtype.kind == "c" else [values, values]
    flags = {"mode": "N" if len(types) == 1 else "V", "sort": "N"}
    form, vectors, *_, info = lapack(
        b,
        "gees_ffi",
        dtype,
        [convert(b, wide, x)],
        [wide, wide, *parts, batch, batch],
        flags,
        alias={0: 0},
    )
    return _converged(b, types, info, [form, vectors])


def svd(b: ModuleContext, types: Types, x: Operand) -> tuple[Operand, ...]:
    """Emit U, s and V^H, or s alone when there is one type."""
    if b.platform == "tpu":
        raise refuse(b, "svd", "eigh of x.T @ x")
    if x.type.size == 0:
        return tuple(
            splat(b, 0, type) if type.ndim < x.type.ndim else _identity(b, type) for type in types
        )
    dtype = lapack_dtype(x.type.dtype)
    wide = x.type.with_dtype(dtype)
    if b.platform == "gpu":
        *results, info = cusolver.svd(b, types, convert(b, wide, x))
        return _converged(b, types, info, results)
    *batch, m, n = wide.shape
    if len(types) == 1:
        # The vectors are results that LAPACK does not touch then.
        mode, values, left = "N", types[0], wide.with_shape((*batch, 1, 1))
        right = left
    else:
        left, values, right = types
        mode = "S" if left.shape[-1] == right.shape[-2] == min(m, n) else "A"
    wanted = [wide, values.with_dtype(real_dtype(dtype)), left.with_dtype(dtype)]
    _, found, u, vh, info = lapack(
        b,
        "gesdd_ffi",
        dtype,
        [convert(b, wide, x)],
        [*wanted, right.with_dtype(dtype), ShapeDtype(batch, _INT32)],
        {"mode": mode},
        alias={0: 0},
    )
    return _converged(b, types, info, [found] if len(types) == 1 else [u, found, vh])


def fft(b: ModuleContext, x: Operand, kind: str, lengths: Sequence[int]) -> Operand:
    """Emit a Fourier transform of the last axes."""
    # XLA ends the process on an unknown name.
    if kind not in _TRANSFORMS:
        raise LoweringError(
            f"{kind!r} is no kind of fft", mend=f"use one of {', '.join(_TRANSFORMS)}"
        )
    if b.platform == "tpu" and real_dtype(x.dtype) == np.float64:
        raise LoweringError(
            f"there is no Fourier transform of {x.dtype} on a TPU",
            mend="convert with astype('complex64') or astype('float32'), or compile for a CPU "
            "or a GPU",
        )
    return Operand(hlo.fft(x.raw, hlo.FftTypeAttr.get(kind), list(lengths)))


def _converged(
    b: ModuleContext, types: Types, info: Operand, found: Sequence[Operand]
) -> tuple[Operand, ...]:
    """Return the results in their types, with NaN for the matrices whose `info` is not 0."""
    batch = info.type
    is_right = compare(b, "EQ", info, splat(b, 0, batch))
    results = []
    for type, value in zip(types, found, strict=False):
        mask = type.with_dtype(np.bool_)
        chosen = broadcast_in_dim(b, mask, is_right, range(batch.ndim))
        narrow = convert(b, type, value)
        results.append(select(b, chosen, narrow, splat(b, np.nan, type)))
    return tuple(results)


def permutation(b: ModuleContext, type: ShapeDtype, pivots: Operand) -> Operand | None:
    """Emit the order of the rows after the exchanges, where a library has it."""
    if b.platform != "gpu":
        return None
    return cusolver.permutation(b, type, pivots)


def _identity(b: ModuleContext, type: ShapeDtype) -> Operand:
    return convert(b, type, rows_to_columns(b, "EQ", type))


def _first(b: ModuleContext, x: Operand, axis: int, count: int) -> Operand:
    limit = [count if i == axis else n for i, n in enumerate(x.shape)]
    return slice(b, x, [0] * len(limit), limit, [1] * len(limit))


def _with_columns(b: ModuleContext, x: Operand, count: int) -> Operand:
    """Cut off or add zero columns."""
    ndim, missing = x.type.ndim, count - x.shape[-1]
    if missing <= 0:
        return _first(b, x, ndim - 1, count)
    none = [0] * ndim
    zero = splat(b, 0, ShapeDtype((), x.dtype))
    return pad(b, x, zero, none, [*none[:-1], missing], none)


def tpu_lu(
    b: ModuleContext, wide: ShapeDtype, pivots: ShapeDtype, x: Operand
) -> tuple[Operand, ...]:
    """Emit the factors in one array, and pivots counted from zero."""
    rows = ShapeDtype(wide.shape[:-1], _INT32)
    factors, found, _ = compiler_call(b, "LuDecomposition", [x], [wide, pivots, rows])
    return factors, found


def tpu_reflectors(b: ModuleContext, x: Operand, scales: ShapeDtype) -> tuple[Operand, ...]:
    """Emit R with the reflectors below its diagonal, and their scales."""
    return compiler_call(b, "Qr", [x], [x.type, scales])


def tpu_product_of_reflectors(b: ModuleContext, x: Operand, scales: Operand) -> Operand:
    """Emit the columns of Q that `x` has room for."""
    target = "ProductOfElementaryHouseholderReflectors"
    (q,) = compiler_call(b, target, [x, scales], [x.type])
    return q


def tpu_eigh(b: ModuleContext, x: Operand, values: ShapeDtype) -> tuple[Operand, ...]:
    """Emit eigenvectors and eigenvalues; the lower triangle is read."""
    return compiler_call(b, "Eigh", [x], [x.type, values], _JACOBI)


def refuse(b: ModuleContext, name: str, instead: str) -> LoweringError:
    """Return the error for a decomposition that the platform lacks."""
    return LoweringError(
        f"there is no {name} on a {b.platform.upper()}",
        mend=f"move the arrays to the CPU with to_device('cpu:0'), or use {instead}",
    )
