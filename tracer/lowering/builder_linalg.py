"""Builder methods of linear algebra: LAPACK on CPU, XLA's own algorithms elsewhere."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tracer.errors import LoweringError
from tracer.ir import ShapeDtype
from tracer.lowering.builder_base import BaseBuilder
from tracer.lowering.shims import VERSION, hlo, ir, require_lapack
from tracer.lowering.values import Operand

_INT32 = np.dtype(np.int32)
_TRANSPOSES = {"NO_TRANSPOSE": "N", "TRANSPOSE": "T", "ADJOINT": "C"}
_FFI_API_VERSION = 4
_PARALLEL_SINCE = (0, 10)
"""Since then jaxlib spreads a batch over XLA's threads and blocks one of them until all is done:
as many such calls at a time as there are threads wait for ever (seen with two on two threads)."""


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
        # The transposed problem: y' op(a)' = x'.
        flags = {
            "side": "R" if left_side else "L",
            "uplo": "U" if lower else "L",
            "trans_x": _TRANSPOSES[transpose_a],
            "diag": "U" if unit_diagonal else "N",
        }
        matrix, right = self._flipped(matrix), self._flipped(right)
        (solved,) = self._lapack(
            "trsm_ffi",
            wide.dtype,
            [matrix, right],
            [right.type],
            flags,
            alias={1: 0},
            by_columns=False,
        )
        return self.convert(type, self._flipped(solved))

    def _flipped(self, x: Operand) -> Operand:
        """Return the same memory as LAPACK sees it: by columns, so the transpose.

        XLA keeps matrices by rows. To let it turn them over would take a second matrix.
        """
        *batch, rows, columns = x.shape
        return self.reshape(x.type.with_shape((*batch, columns, rows)), x)

    def _lapack(
        self,
        routine: str,
        dtype: np.dtype[Any],
        operands: Sequence[Operand],
        results: Sequence[ShapeDtype],
        flags: Mapping[str, str],
        *,
        alias: Mapping[int, int],
        by_columns: bool = True,
    ) -> tuple[Operand, ...]:
        """Emit a LAPACK call; `alias` maps operands to the results that take their buffers.

        Matrices are handed over by columns, as LAPACK wants them, or, without `by_columns`, as they
        are: by rows.
        """
        call = functools.partial(
            self._lapack_call, routine, dtype, flags=flags, alias=alias, by_columns=by_columns
        )
        leading = max(x.type.ndim for x in operands) - 2
        if VERSION < _PARALLEL_SINCE or math.prod(operands[0].shape[:leading]) == 1:
            return call(operands, results)
        return self._one_by_one(call, operands, results, leading, alias)

    def _one_by_one(
        self,
        call: Callable[[Sequence[Operand], Sequence[ShapeDtype]], tuple[Operand, ...]],
        operands: Sequence[Operand],
        results: Sequence[ShapeDtype],
        leading: int,
        alias: Mapping[int, int],
    ) -> tuple[Operand, ...]:
        """Emit a loop over the leading axes that calls LAPACK for one matrix at a time.

        A result that takes over an operand's buffer starts as that operand and is read from.
        """
        count = math.prod(operands[0].shape[:leading])
        sources = {result: operand for operand, result in alias.items()}
        flat = [_joined(x.type, leading, count) for x in operands]
        joined = [self.reshape(type, x) for type, x in zip(flat, operands, strict=True)]
        made = [_joined(type, leading, count) for type in results]
        start = [
            joined[sources[i]] if i in sources else self.splat(0, type)
            for i, type in enumerate(made)
        ]
        rest = [x for i, x in enumerate(joined) if i not in alias]
        counter = ShapeDtype((), _INT32)
        carry = [self.splat(0, counter), *start, *rest]
        types = [self.tensor_type(x.type) for x in carry]
        loop = hlo.WhileOp(types, [x.raw for x in carry])
        self._while_below(loop.cond.blocks.append(*types), count)
        body = loop.body.blocks.append(*types)
        with ir.InsertionPoint(body):
            place, *values = [Operand(raw) for raw in body.arguments]
            stored, others = values[: len(made)], iter(values[len(made) :])
            given = [stored[alias[i]] if i in alias else next(others) for i in range(len(flat))]
            found = call(
                [self._element(x, place) for x in given],
                [type.with_shape(type.shape[1:]) for type in made],
            )
            updated = [
                self._with_element(x, value, place) for x, value in zip(stored, found, strict=True)
            ]
            following = self.add(place, self.splat(1, counter))
            hlo.return_([x.raw for x in (following, *updated, *values[len(made) :])])
        return tuple(
            self.reshape(type, Operand(raw))
            for type, raw in zip(results, loop.results[1:], strict=False)
        )

    def _while_below(self, block: Any, count: int) -> None:
        """Emit the condition of a loop whose first value counts."""
        with ir.InsertionPoint(block):
            place = Operand(block.arguments[0])
            hlo.return_([self.compare("LT", place, self.splat(count, place.type)).raw])

    def _element(self, x: Operand, place: Operand) -> Operand:
        shape = x.shape[1:]
        zero = self.splat(0, place.type)
        element = self.dynamic_slice(x, [place, *[zero] * len(shape)], (1, *shape))
        return self.reshape(x.type.with_shape(shape), element)

    def _with_element(self, x: Operand, value: Operand, place: Operand) -> Operand:
        zero = self.splat(0, place.type)
        update = self.reshape(x.type.with_shape((1, *x.shape[1:])), value)
        return self.dynamic_update_slice(x, update, [place, *[zero] * (len(x.shape) - 1)])

    def _lapack_call(
        self,
        routine: str,
        dtype: np.dtype[Any],
        operands: Sequence[Operand],
        results: Sequence[ShapeDtype],
        *,
        flags: Mapping[str, str],
        alias: Mapping[int, int],
        by_columns: bool,
    ) -> tuple[Operand, ...]:
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
            operand_layouts=ir.ArrayAttr.get(
                [_layout(x.type.ndim, rank, by_columns) for x in operands]
            ),
            result_layouts=ir.ArrayAttr.get(
                [_layout(type.ndim, rank, by_columns) for type in results]
            ),
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


def _joined(type: ShapeDtype, leading: int, count: int) -> ShapeDtype:
    """Return the type with its leading axes in one."""
    return type.with_shape((count, *type.shape[leading:]))


def _layout(ndim: int, rank: int, by_columns: bool) -> Any:
    """Return a layout, minor to major; matrices are arrays of full rank."""
    order = list(range(ndim - 1, -1, -1))
    if ndim == rank and by_columns:
        order[:2] = order[1::-1]
    return ir.DenseIntElementsAttr.get(np.array(order, np.int64), type=ir.IndexType.get())


def lapack_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype to compute in: LAPACK knows no float narrower than float32."""
    is_native = dtype.kind in "fc" and dtype.itemsize >= 4
    return dtype if is_native else np.dtype(np.float32)
