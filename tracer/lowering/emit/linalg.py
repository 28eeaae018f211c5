"""Linear algebra: LAPACK on CPUs, cuSOLVER on GPUs, XLA's own algorithms elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
    imaginary_part,
    iota,
    real_part,
    reshape,
    select,
    splat,
)
from tracer.lowering.emit.library import lapack
from tracer.lowering.emit.values import Operand, real_dtype
from tracer.lowering.shims import hlo, ir

_INT32 = np.dtype(np.int32)
_TRANSPOSES = {"NO_TRANSPOSE": "N", "TRANSPOSE": "T", "ADJOINT": "C"}


def linalg_dtype(
    b: ModuleContext, name: str, dtype: np.dtype[Any], *, is_emulated: bool = False
) -> np.dtype[Any]:
    """Return the dtype that a decomposition computes in on this platform.

    A TPU has no float64. Its compiler writes `is_emulated` algorithms with pairs of float32;
    the others are float32's own, whatever they are given.

    Raises
    ------
    LoweringError
        The platform has no wide enough dtype.
    """
    wide = lapack_dtype(dtype)
    is_double = real_dtype(wide) == np.float64
    if b.platform == "tpu" and is_double and not is_emulated:
        raise LoweringError(
            f"{name} of {dtype} does not run on a TPU: its algorithm there is float32 only",
            mend="convert the matrix with astype('float32'), or compile for a CPU or a GPU",
        )
    return wide


def cholesky(b: ModuleContext, type: ShapeDtype, x: Operand) -> Operand:
    """Emit the lower Cholesky factor of the last two axes.

    Only the lower triangle of `x` is read, and of its diagonal the real part; the upper triangle of
    the result is zero. A matrix that is not positive definite gives NaN.
    """
    if type.size == 0:
        return splat(b, 0, type)
    wide = type.with_dtype(linalg_dtype(b, "cholesky", type.dtype, is_emulated=True))
    operand = convert(b, wide, x)
    if b.platform == "cpu":
        return convert(b, type, _lapack_cholesky(b, wide, operand))
    if wide.dtype.kind == "c":
        operand = _with_real_diagonal(b, operand)
    if b.platform == "gpu":
        factor, info = cusolver.cholesky(b, triangle(b, wide, operand, lower=True))
        # Of many matrices at once the other triangles are overwritten.
        return convert(b, type, _spoiled(b, info, triangle(b, wide, factor, lower=True)))
    factor = Operand(hlo.cholesky(operand.raw, lower=ir.BoolAttr.get(True)))
    return convert(b, type, triangle(b, wide, factor, lower=True))


def _with_real_diagonal(b: ModuleContext, x: Operand) -> Operand:
    """Drop the imaginary part of the diagonal, which LAPACK does not read and cuSOLVER does."""
    real = real_part(x)
    is_diagonal = rows_to_columns(b, "EQ", x.type)
    return complex_(real, select(b, is_diagonal, splat(b, 0, real.type), imaginary_part(x)))


def _lapack_cholesky(b: ModuleContext, type: ShapeDtype, x: Operand) -> Operand:
    batch = ShapeDtype(type.shape[:-2], _INT32)
    # LAPACK leaves the other triangle alone. It is cleared before, where that is part of the
    # computation of `x`; afterwards it would take a second matrix.
    flipped = _flipped(b, triangle(b, type, x, lower=True))
    upper, info = lapack(
        b,
        "potrf_ffi",
        type.dtype,
        [flipped],
        [flipped.type, batch],
        {"uplo": "U"},
        alias={0: 0},
        by_columns=False,
    )
    factor = _flipped(b, upper)
    if batch.ndim == 0:
        return _spoiled_unless_zero(b, info, factor)
    return _spoiled(b, info, factor)


def _spoiled(b: ModuleContext, info: Operand, x: Operand) -> Operand:
    """Fill the lower triangles with NaN of which `info` is not zero."""
    is_definite = compare(b, "EQ", info, splat(b, 0, info.type))
    mask = x.type.with_dtype(np.bool_)
    is_definite = broadcast_in_dim(b, mask, is_definite, range(info.type.ndim))
    spoiled = triangle(b, x.type, splat(b, np.nan, x.type), lower=True)
    return select(b, is_definite, x, spoiled)


def _spoiled_unless_zero(b: ModuleContext, info: Operand, x: Operand) -> Operand:
    """Fill the lower triangle `x` with NaN, in place, if `info` is not zero.

    A loop of no or one trip: XLA gives the result of a select a buffer of its own.
    """
    carry = [info, x]
    types = [b.tensor_type(value.type) for value in carry]
    loop = hlo.WhileOp(types, [value.raw for value in carry])
    condition = loop.cond.blocks.append(*types)
    with ir.InsertionPoint(condition):
        zero = splat(b, 0, info.type)
        hlo.return_([compare(b, "NE", Operand(condition.arguments[0]), zero).raw])
    body = loop.body.blocks.append(*types)
    with ir.InsertionPoint(body):
        spoiled = triangle(b, x.type, splat(b, np.nan, x.type), lower=True)
        hlo.return_([splat(b, 0, info.type).raw, spoiled.raw])
    return Operand(loop.results[1])


def triangle(b: ModuleContext, type: ShapeDtype, x: Operand, *, lower: bool) -> Operand:
    """Return the lower or upper triangles of the last two axes, with zeros elsewhere."""
    inside = rows_to_columns(b, "GE" if lower else "LE", type)
    return select(b, inside, x, splat(b, 0, type))


def rows_to_columns(b: ModuleContext, direction: str, type: ShapeDtype) -> Operand:
    """Return how each element's row compares with its column."""
    indices = type.with_dtype(_INT32)
    rows, columns = (iota(b, indices, type.ndim - axis) for axis in (2, 1))
    return compare(b, direction, rows, columns)


def triangular_solve(
    b: ModuleContext,
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
        return splat(b, 0, type)
    wide = type.with_dtype(linalg_dtype(b, "triangular_solve", type.dtype, is_emulated=True))
    matrix = convert(b, a.type.with_dtype(wide.dtype), a)
    right = convert(b, wide, x)
    if b.platform != "cpu":
        solution = hlo.triangular_solve(
            matrix.raw,
            right.raw,
            ir.BoolAttr.get(left_side),
            ir.BoolAttr.get(lower),
            ir.BoolAttr.get(unit_diagonal),
            hlo.TransposeAttr.get(transpose_a),
        )
        return convert(b, type, Operand(solution))
    # The transposed problem: y' op(a)' = x'.
    flags = {
        "side": "R" if left_side else "L",
        "uplo": "U" if lower else "L",
        "trans_x": _TRANSPOSES[transpose_a],
        "diag": "U" if unit_diagonal else "N",
    }
    return convert(b, type, _lapack_solve(b, matrix, right, flags))


def _lapack_solve(
    b: ModuleContext, matrix: Operand, right: Operand, flags: Mapping[str, str]
) -> Operand:
    matrix, right = _flipped(b, matrix), _flipped(b, right)
    (solved,) = lapack(
        b,
        "trsm_ffi",
        right.dtype,
        [matrix, right],
        [right.type],
        flags,
        alias={1: 0},
        by_columns=False,
    )
    return _flipped(b, solved)


def _flipped(b: ModuleContext, x: Operand) -> Operand:
    """Return the same memory as LAPACK reads it: by columns, so the transpose.

    XLA keeps matrices by rows. A transpose would take a second matrix.
    """
    *batch, rows, columns = x.shape
    return reshape(b, x.type.with_shape((*batch, columns, rows)), x)


def lapack_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype to compute in: LAPACK knows no float narrower than float32."""
    is_native = dtype.kind in "fc" and dtype.itemsize >= 4
    return dtype if is_native else np.dtype(np.float32)
