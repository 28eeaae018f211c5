"""Builder methods of linear algebra: LAPACK on CPU, XLA's own algorithms elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tracer.errors import LoweringError
from tracer.ir import ShapeDtype
from tracer.lowering.builder_base import BaseBuilder
from tracer.lowering.shims import hlo, ir, require_lapack
from tracer.lowering.values import Operand

_INT32 = np.dtype(np.int32)
_TRANSPOSES = {"NO_TRANSPOSE": "N", "TRANSPOSE": "T", "ADJOINT": "C"}
_FFI_API_VERSION = 4


class LinalgBuilder(BaseBuilder):
    """Builder methods of matrix decompositions and solvers."""

    def cholesky(self, type: ShapeDtype, x: Operand) -> Operand:
        """Emit the lower Cholesky factor of the last two axes.

        Only the lower triangle of `x` is read; the upper triangle of the result is zero. A matrix
        that is not positive definite gives NaN.
        """
        if type.size == 0:
            return self.splat(0, type)
        wide = type.with_dtype(lapack_dtype(type.dtype))
        operand = self.convert(wide, x)
        factor = (
            self._lapack_cholesky(wide, operand)
            if self.platform == "cpu"
            else Operand(hlo.cholesky(operand.raw, lower=ir.BoolAttr.get(True)))
        )
        return self.convert(type, self._triangle(wide, factor, lower=True))

    def _lapack_cholesky(self, type: ShapeDtype, x: Operand) -> Operand:
        batch = ShapeDtype(type.shape[:-2], _INT32)
        factor, info = self._lapack(
            "potrf_ffi", type.dtype, [x], [type, batch], {"uplo": "L"}, alias={0: 0}
        )
        is_definite = self.compare("EQ", info, self.splat(0, batch))
        is_definite = self.broadcast_in_dim(
            type.with_dtype(np.bool_), is_definite, range(batch.ndim)
        )
        return self.select(is_definite, factor, self.splat(np.nan, type))

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
    ) -> Operand:
        """Emit the solution of `op(a) y = x`, or `y op(a) = x` unless `left_side`."""
        # XLA ends the process on an unknown name.
        if transpose_a not in _TRANSPOSES:
            raise LoweringError(
                f"{transpose_a!r} is no transpose_a of triangular_solve",
                mend=f"use one of {', '.join(_TRANSPOSES)}",
            )
        if type.size == 0:
            return self.splat(0, type)
        wide = type.with_dtype(lapack_dtype(type.dtype))
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
        flags = {
            "side": "L" if left_side else "R",
            "uplo": "L" if lower else "U",
            "trans_x": _TRANSPOSES[transpose_a],
            "diag": "U" if unit_diagonal else "N",
        }
        (solved,) = self._lapack(
            "trsm_ffi", wide.dtype, [matrix, right], [wide], flags, alias={1: 0}
        )
        return self.convert(type, solved)

    def _lapack(
        self,
        routine: str,
        dtype: np.dtype[Any],
        operands: Sequence[Operand],
        results: Sequence[ShapeDtype],
        flags: Mapping[str, str],
        *,
        alias: Mapping[int, int],
    ) -> tuple[Operand, ...]:
        """Emit a LAPACK call; `alias` maps operands to the results that take their buffers."""
        target = require_lapack()(routine, dtype)
        byte = ir.IntegerType.get_unsigned(8)
        rank = max(x.type.ndim for x in operands)
        op = hlo.CustomCallOp(
            [self.tensor_type(type) for type in results],
            [x.raw for x in operands],
            call_target_name=ir.StringAttr.get(target),
            has_side_effect=ir.BoolAttr.get(False),
            api_version=ir.IntegerAttr.get(ir.IntegerType.get_signless(32), _FFI_API_VERSION),
            backend_config=ir.DictAttr.get(
                {name: ir.IntegerAttr.get(byte, ord(flag)) for name, flag in flags.items()}
            ),
            called_computations=ir.ArrayAttr.get([]),
            operand_layouts=ir.ArrayAttr.get([_layout(x.type.ndim, rank) for x in operands]),
            result_layouts=ir.ArrayAttr.get([_layout(type.ndim, rank) for type in results]),
            output_operand_aliases=ir.ArrayAttr.get(
                [
                    hlo.OutputOperandAlias.get(
                        output_tuple_indices=[result] if len(results) > 1 else [],
                        operand_index=operand,
                        operand_tuple_indices=[],
                    )
                    for operand, result in alias.items()
                ]
            ),
        )
        return tuple(Operand(raw) for raw in op.results)


def _layout(ndim: int, rank: int) -> Any:
    """Return a layout, minor to major: column-major for matrices (arrays of full rank)."""
    order = list(range(ndim - 1, -1, -1))
    if ndim == rank:
        order[:2] = order[1::-1]
    return ir.DenseIntElementsAttr.get(np.array(order, np.int64), type=ir.IndexType.get())


def lapack_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype to compute in: LAPACK knows no float narrower than float32."""
    is_native = dtype.kind in "fc" and dtype.itemsize >= 4
    return dtype if is_native else np.dtype(np.float32)
