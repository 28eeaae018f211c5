"""Builder methods of LAPACK's decompositions, and of the Fourier transform."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracer.errors import LoweringError
from tracer.ir import ShapeDtype
from tracer.lowering.builder_linalg import LinalgBuilder, lapack_dtype
from tracer.lowering.shims import hlo
from tracer.lowering.values import Operand

_INT32 = np.dtype(np.int32)
_TRANSFORMS = ("FFT", "IFFT", "RFFT", "IRFFT")
Types = Sequence[ShapeDtype]


class DecompositionBuilder(LinalgBuilder):
    """LU, QR, eigenvalue and singular value decompositions of the last two axes.

    A decomposition that does not converge gives NaN.
    """

    def lu(self, types: Types, x: Operand) -> tuple[Operand, ...]:
        """Emit the factors in one array, and the pivots counted from zero."""
        self._require_cpu("lu")
        packed, pivots = types
        wide = packed.with_dtype(lapack_dtype(packed.dtype))
        batch = ShapeDtype(packed.shape[:-2], _INT32)
        factors, rows, _ = self._lapack(
            "getrf_ffi",
            wide.dtype,
            [self.convert(wide, x)],
            [wide, pivots, batch],
            {},
            alias={0: 0},
        )
        return self.convert(packed, factors), self.subtract(rows, self.splat(1, pivots))

    def qr(self, types: Types, x: Operand) -> tuple[Operand, ...]:
        """Emit Q and R; the types say whether Q is square."""
        self._require_cpu("qr")
        q_type, r_type = types
        if x.type.size == 0:
            return self._identity(q_type), self.splat(0, r_type)
        dtype = lapack_dtype(q_type.dtype)
        wide, q_wide = x.type.with_dtype(dtype), q_type.with_dtype(dtype)
        batch, (m, n), inner = wide.shape[:-2], wide.shape[-2:], q_type.shape[-1]
        scales = ShapeDtype((*batch, min(m, n)), dtype)
        packed, factors = self._lapack(
            "geqrf_ffi", dtype, [self.convert(wide, x)], [wide, scales], {}, alias={0: 0}
        )
        routine = "ungqr_ffi" if dtype.kind == "c" else "orgqr_ffi"
        reflectors = self._with_columns(packed, inner)
        (q,) = self._lapack(routine, dtype, [reflectors, factors], [q_wide], {}, alias={0: 0})
        rows = self._first(packed, wide.ndim - 2, inner)
        r = self._triangle(r_type.with_dtype(dtype), rows, lower=False)
        return self.convert(q_type, q), self.convert(r_type, r)

    def eigh(self, types: Types, x: Operand) -> tuple[Operand, ...]:
        """Emit the eigenvalues, and the eigenvectors when there is a second type."""
        self._require_cpu("eigh")
        dtype = lapack_dtype(x.type.dtype)
        wide = x.type.with_dtype(dtype)
        values = types[0].with_dtype(_real(dtype))
        routine = "heevd_ffi" if dtype.kind == "c" else "syevd_ffi"
        batch = ShapeDtype(wide.shape[:-2], _INT32)
        flags = {"mode": "N" if len(types) == 1 else "V", "uplo": "L"}
        vectors, found, info = self._lapack(
            routine, dtype, [self.convert(wide, x)], [wide, values, batch], flags, alias={0: 0}
        )
        return self._converged(types, info, [found, vectors])

    def eig(self, types: Types, x: Operand) -> tuple[Operand, ...]:
        """Emit the eigenvalues, and the right eigenvectors when there is a second type."""
        self._require_cpu("eig")
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
        self._require_cpu("svd")
        if x.type.size == 0:
            return tuple(
                self.splat(0, type) if type.ndim < x.type.ndim else self._identity(type)
                for type in types
            )
        dtype = lapack_dtype(x.type.dtype)
        wide = x.type.with_dtype(dtype)
        *batch, m, n = wide.shape
        if len(types) == 1:
            # The vectors are results that LAPACK does not touch then.
            mode, values, left = "N", types[0], wide.with_shape((*batch, 1, 1))
            right = left
        else:
            left, values, right = types
            mode = "S" if left.shape[-1] == right.shape[-2] == min(m, n) else "A"
        wanted = [wide, values.with_dtype(_real(dtype)), left.with_dtype(dtype)]
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

    def _require_cpu(self, name: str) -> None:
        if self.platform != "cpu":
            raise LoweringError(
                f"{name} runs on the CPU only, not on {self.platform}",
                mend="move the arrays to the CPU, or use cholesky and triangular solves",
            )


def _real(dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    return np.empty(0, dtype).real.dtype
