"""Builder methods of linear algebra: LAPACK on CPU, XLA's own algorithms elsewhere."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from tracer.errors import LoweringError
from tracer.ir import ShapeDtype
from tracer.lowering.emit.library import LibraryBuilder
from tracer.lowering.emit.solve import SolveBuilder
from tracer.lowering.emit.values import Operand, real_dtype
from tracer.lowering.shims import hlo, ir

_INT32 = np.dtype(np.int32)
_TRANSPOSES = {"NO_TRANSPOSE": "N", "TRANSPOSE": "T", "ADJOINT": "C"}


class LinalgBuilder(LibraryBuilder, SolveBuilder):
    """Builder methods of matrix decompositions and solvers."""

    def linalg_dtype(
        self, name: str, dtype: np.dtype[Any], *, is_emulated: bool = False
    ) -> np.dtype[Any]:
        """Return the dtype that a decomposition computes in on this platform.

        A TPU has no float64. Its compiler writes `is_emulated` algorithms with pairs of float32;
        the others are float32's own, whatever they are given.

        Raises
        ------
        LoweringError
            The platform has none that is wide enough.
        """
        wide = lapack_dtype(dtype)
        is_double = real_dtype(wide) == np.float64
        if self.platform == "tpu" and is_double and not is_emulated:
            raise LoweringError(
                f"{name} of {dtype} does not run on a TPU: its algorithm there is of float32",
                mend="convert the matrix with astype('float32'), or compile for a CPU or a GPU",
            )
        return wide

    def cholesky(self, type: ShapeDtype, x: Operand) -> Operand:
        """Emit the lower Cholesky factor of the last two axes.

        Only the lower triangle of `x` is read; the upper triangle of the result is zero. A matrix
        that is not positive definite gives NaN.
        """
        if type.size == 0:
            return self.splat(0, type)
        wide = type.with_dtype(self.linalg_dtype("cholesky", type.dtype, is_emulated=True))
        operand = self.convert(wide, x)
        if self.platform == "cpu":
            return self.convert(type, self._lapack_cholesky(wide, operand))
        factor = Operand(hlo.cholesky(operand.raw, lower=ir.BoolAttr.get(True)))
        return self.convert(type, self._triangle(wide, factor, lower=True))

    def _lapack_cholesky(self, type: ShapeDtype, x: Operand) -> Operand:
        batch = ShapeDtype(type.shape[:-2], _INT32)
        # LAPACK leaves the other triangle alone. It is cleared before, where that is part of the
        # computation of `x`; afterwards it would take a second matrix.
        flipped = self._flipped(self._triangle(type, x, lower=True))
        upper, info = self._lapack(
            "potrf_ffi",
            type.dtype,
            [flipped],
            [flipped.type, batch],
            {"uplo": "U"},
            alias={0: 0},
            by_columns=False,
        )
        factor = self._flipped(upper)
        if batch.ndim == 0:
            return self._spoiled_unless_zero(info, factor)
        is_definite = self.compare("EQ", info, self.splat(0, batch))
        is_definite = self.broadcast_in_dim(
            type.with_dtype(np.bool_), is_definite, range(batch.ndim)
        )
        spoiled = self._triangle(type, self.splat(np.nan, type), lower=True)
        return self.select(is_definite, factor, spoiled)

    def _spoiled_unless_zero(self, info: Operand, x: Operand) -> Operand:
        """Fill the lower triangle `x` with NaN, in place, if `info` is not zero.

        A loop of no or one trip: XLA gives the result of a select a buffer of its own.
        """
        carry = [info, x]
        types = [self.tensor_type(value.type) for value in carry]
        loop = hlo.WhileOp(types, [value.raw for value in carry])
        condition = loop.cond.blocks.append(*types)
        with ir.InsertionPoint(condition):
            zero = self.splat(0, info.type)
            hlo.return_([self.compare("NE", Operand(condition.arguments[0]), zero).raw])
        body = loop.body.blocks.append(*types)
        with ir.InsertionPoint(body):
            spoiled = self._triangle(x.type, self.splat(np.nan, x.type), lower=True)
            hlo.return_([self.splat(0, info.type).raw, spoiled.raw])
        return Operand(loop.results[1])

    def _triangle(self, type: ShapeDtype, x: Operand, *, lower: bool) -> Operand:
        indices = type.with_dtype(_INT32)
        rows = self.iota(indices, type.ndim - 2)
        columns = self.iota(indices, type.ndim - 1)
        inside = self.compare("GE" if lower else "LE", rows, columns)
        return self.select(inside, x, self.splat(0, type))

    def triangular_solve(
        self,
        type: ShapeDtype,
        a: Operand,
        x: Operand,
        *,
        left_side: bool,
        lower: bool,
        unit_diagonal: bool,
        transpose_a: str,
        by_blocks: bool = False,
    ) -> Operand:
        """Emit the solution of `op(a) y = x`, or `y op(a) = x` unless `left_side`.

        Libraries pack panels of the matrix; `by_blocks`, for one real system with one right-hand
        side, does not where LAPACK would.
        """
        # XLA ends the process on an unknown name.
        if transpose_a not in _TRANSPOSES:
            raise LoweringError(
                f"{transpose_a!r} is no transpose_a of triangular_solve",
                mend=f"use one of {', '.join(_TRANSPOSES)}",
            )
        if type.size == 0:
            return self.splat(0, type)
        wide = type.with_dtype(self.linalg_dtype("triangular_solve", type.dtype, is_emulated=True))
        matrix = self.convert(a.type.with_dtype(wide.dtype), a)
        right = self.convert(wide, x)
        if self.platform != "cpu":
            solution = hlo.triangular_solve(
                matrix.raw,
                right.raw,
                ir.BoolAttr.get(left_side),
                ir.BoolAttr.get(lower),
                ir.BoolAttr.get(unit_diagonal),
                hlo.TransposeAttr.get(transpose_a),
            )
            return self.convert(type, Operand(solution))
        # The transposed problem: y' op(a)' = x'.
        flags = {
            "side": "R" if left_side else "L",
            "uplo": "U" if lower else "L",
            "trans_x": _TRANSPOSES[transpose_a],
            "diag": "U" if unit_diagonal else "N",
        }
        solve = functools.partial(self._lapack_solve, flags=flags)
        if not by_blocks:
            return self.convert(type, solve(matrix, right))
        by_columns = transpose_a != "NO_TRANSPOSE"
        solved = self.solve_by_blocks(
            matrix, right, by_columns=by_columns, forward=lower != by_columns, solve=solve
        )
        return self.convert(type, solved)

    def _lapack_solve(self, matrix: Operand, right: Operand, flags: Mapping[str, str]) -> Operand:
        matrix, right = self._flipped(matrix), self._flipped(right)
        (solved,) = self._lapack(
            "trsm_ffi",
            right.dtype,
            [matrix, right],
            [right.type],
            flags,
            alias={1: 0},
            by_columns=False,
        )
        return self._flipped(solved)

    def _flipped(self, x: Operand) -> Operand:
        """Return the same memory as LAPACK sees it: by columns, so the transpose.

        XLA keeps matrices by rows. To let it turn them over would take a second matrix.
        """
        *batch, rows, columns = x.shape
        return self.reshape(x.type.with_shape((*batch, columns, rows)), x)


def lapack_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype to compute in: LAPACK knows no float narrower than float32."""
    is_native = dtype.kind in "fc" and dtype.itemsize >= 4
    return dtype if is_native else np.dtype(np.float32)
