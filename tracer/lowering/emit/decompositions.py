"""Builder methods of decompositions, by the platform's library, and of the Fourier transform."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracer.errors import LoweringError
from tracer.ir import ShapeDtype
from tracer.lowering.emit.gpu import GpuBuilder
from tracer.lowering.emit.linalg import lapack_dtype
from tracer.lowering.emit.tpu import TpuBuilder
from tracer.lowering.emit.values import Operand, real_dtype
from tracer.lowering.shims import hlo

_INT32 = np.dtype(np.int32)
_TRANSFORMS = ("FFT", "IFFT", "RFFT", "IRFFT")
Types = Sequence[ShapeDtype]


class DecompositionBuilder(GpuBuilder, TpuBuilder):
    """LU, QR, eigenvalue and singular value decompositions of the last two axes.

    A decomposition that does not converge gives NaN.
    """

    def lu(self, types: Types, x: Operand) -> tuple[Operand, ...]:
        """Emit the factors in one array, and the pivots counted from zero."""
        packed, pivots = types
        wide = packed.with_dtype(self.linalg_dtype("lu", packed.dtype))
        operand = self.convert(wide, x)
        if self.platform == "tpu":
            factors, rows = self.tpu_lu(wide, pivots, operand)
            return self.convert(packed, factors), rows
        if self.platform == "gpu":
            factors, rows, _ = self.gpu_lu(wide, pivots, operand)
        else:
            batch = ShapeDtype(packed.shape[:-2], _INT32)
            results = [wide, pivots, batch]
            factors, rows, _ = self._lapack(
                "getrf_ffi", wide.dtype, [operand], results, {}, alias={0: 0}
            )
        return self.convert(packed, factors), self.subtract(rows, self.splat(1, pivots))

    def qr(self, types: Types, x: Operand) -> tuple[Operand, ...]:
        """Emit Q and R; the types say whether Q is square."""
        q_type, r_type = types
        if x.type.size == 0:
            return self._identity(q_type), self.splat(0, r_type)
        dtype = self.linalg_dtype("qr", q_type.dtype, is_emulated=True)
        wide = x.type.with_dtype(dtype)
        batch, (m, n), inner = wide.shape[:-2], wide.shape[-2:], q_type.shape[-1]
        scales = ShapeDtype((*batch, min(m, n)), dtype)
        packed, factors = self._reflectors(self.convert(wide, x), scales)
        q = self._product_of_reflectors(self._with_columns(packed, inner), factors)
        rows = self._first(packed, wide.ndim - 2, inner)
        r = self._triangle(r_type.with_dtype(dtype), rows, lower=False)
        return self.convert(q_type, q), self.convert(r_type, r)

    def _reflectors(self, x: Operand, scales: ShapeDtype) -> tuple[Operand, ...]:
        if self.platform == "tpu":
            return self.tpu_reflectors(x, scales)
        if self.platform == "gpu":
            return self.gpu_reflectors(x, scales)
        return self._lapack("geqrf_ffi", x.dtype, [x], [x.type, scales], {}, alias={0: 0})

    def _product_of_reflectors(self, x: Operand, scales: Operand) -> Operand:
        if self.platform == "tpu":
            return self.tpu_product_of_reflectors(x, scales)
        if self.platform == "gpu":
            return self.gpu_product_of_reflectors(x, scales)
        routine = "ungqr_ffi" if x.dtype.kind == "c" else "orgqr_ffi"
        (q,) = self._lapack(routine, x.dtype, [x, scales], [x.type], {}, alias={0: 0})
        return q

    def eigh(self, types: Types, x: Operand) -> tuple[Operand, ...]:
        """Emit the eigenvalues, and the eigenvectors when there is a second type."""
        dtype = self.linalg_dtype("eigh", x.type.dtype)
        wide = x.type.with_dtype(dtype)
        values = types[0].with_dtype(real_dtype(dtype))
        if self.platform == "tpu":
            vectors, found = self.tpu_eigh(self.convert(wide, x), values)
            results = zip(types, (found, vectors), strict=False)
            return tuple(self.convert(type, result) for type, result in results)
        if self.platform == "gpu":
            vectors, found, info = self.gpu_eigh(self.convert(wide, x), values)
            return self._converged(types, info, [found, vectors])
        routine = "heevd_ffi" if dtype.kind == "c" else "syevd_ffi"
        batch = ShapeDtype(wide.shape[:-2], _INT32)
        flags = {"mode": "N" if len(types) == 1 else "V", "uplo": "L"}
        vectors, found, info = self._lapack(
            routine, dtype, [self.convert(wide, x)], [wide, values, batch], flags, alias={0: 0}
        )
        return self._converged(types, info, [found, vectors])

    def eig(self, types: Types, x: Operand) -> tuple[Operand, ...]:
        """Emit the eigenvalues, and the right eigenvectors when there is a second type."""
        if self.platform != "cpu":
            raise self.refuse("eig", "eigh for a symmetric matrix")
        dtype = lapack_dtype(x.type.dtype)
        wide = x.type.with_dtype(dtype)
        vectors = wide.with_dtype(types[0].dtype)
        part = ShapeDtype(types[0].shape, dtype)
        batch = ShapeDtype(wide.shape[:-2], _INT32)
        parts = [part] if dtype.kind == "c" else [part, part]
        flags = {"compute_left": "N", "compute_right": "N" if len(types) == 1 else "V"}
        *found, _, right, info = self._lapack(
            "geev_ffi",
            dtype,
            [self.convert(wide, x)],
            [*parts, vectors, vectors, batch],
            flags,
            alias={},
        )
        values = found[0] if dtype.kind == "c" else self.complex(*found)
        return self._converged(types, info, [values, right])

    def svd(self, types: Types, x: Operand) -> tuple[Operand, ...]:
        """Emit U, s and V^H, or s alone when there is one type."""
        if self.platform == "tpu":
            raise self.refuse("svd", "eigh of x.T @ x")
        if x.type.size == 0:
            return tuple(
                self.splat(0, type) if type.ndim < x.type.ndim else self._identity(type)
                for type in types
            )
        dtype = lapack_dtype(x.type.dtype)
        wide = x.type.with_dtype(dtype)
        if self.platform == "gpu":
            *results, info = self.gpu_svd(types, self.convert(wide, x))
            return self._converged(types, info, results)
        *batch, m, n = wide.shape
        if len(types) == 1:
            # The vectors are results that LAPACK does not touch then.
            mode, values, left = "N", types[0], wide.with_shape((*batch, 1, 1))
            right = left
        else:
            left, values, right = types
            mode = "S" if left.shape[-1] == right.shape[-2] == min(m, n) else "A"
        wanted = [wide, values.with_dtype(real_dtype(dtype)), left.with_dtype(dtype)]
        _, found, u, vh, info = self._lapack(
            "gesdd_ffi",
            dtype,
            [self.convert(wide, x)],
            [*wanted, right.with_dtype(dtype), ShapeDtype(batch, _INT32)],
            {"mode": mode},
            alias={0: 0},
        )
        return self._converged(types, info, [found] if len(types) == 1 else [u, found, vh])

    def fft(self, x: Operand, kind: str, lengths: Sequence[int]) -> Operand:
        """Emit a Fourier transform of the last axes."""
        # XLA ends the process on an unknown name.
        if kind not in _TRANSFORMS:
            raise LoweringError(
                f"{kind!r} is no kind of fft", mend=f"use one of {', '.join(_TRANSFORMS)}"
            )
        if self.platform == "tpu" and real_dtype(x.dtype) == np.float64:
            raise LoweringError(
                f"there is no Fourier transform of {x.dtype} on a TPU",
                mend="convert with astype('complex64') or astype('float32'), or compile for a CPU "
                "or a GPU",
            )
        return Operand(hlo.fft(x.raw, hlo.FftTypeAttr.get(kind), list(lengths)))

    def _converged(
        self, types: Types, info: Operand, found: Sequence[Operand]
    ) -> tuple[Operand, ...]:
        """Return the results in their types, with NaN for the matrices whose `info` is not 0."""
        batch = info.type
        is_right = self.compare("EQ", info, self.splat(0, batch))
        results = []
        for type, value in zip(types, found, strict=False):
            mask = type.with_dtype(np.bool_)
            chosen = self.broadcast_in_dim(mask, is_right, range(batch.ndim))
            narrow = self.convert(type, value)
            results.append(self.select(chosen, narrow, self.splat(np.nan, type)))
        return tuple(results)

    def _identity(self, type: ShapeDtype) -> Operand:
        indices = type.with_dtype(_INT32)
        rows, columns = (self.iota(indices, type.ndim - axis) for axis in (2, 1))
        return self.convert(type, self.compare("EQ", rows, columns))

    def _first(self, x: Operand, axis: int, count: int) -> Operand:
        limit = [count if i == axis else n for i, n in enumerate(x.shape)]
        return self.slice(x, [0] * len(limit), limit, [1] * len(limit))

    def _with_columns(self, x: Operand, count: int) -> Operand:
        """Cut off or add zero columns."""
        ndim, missing = x.type.ndim, count - x.shape[-1]
        if missing <= 0:
            return self._first(x, ndim - 1, count)
        none = [0] * ndim
        zero = self.splat(0, ShapeDtype((), x.dtype))
        return self.pad(x, zero, none, [*none[:-1], missing], none)
