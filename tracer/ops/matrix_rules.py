"""Shape checks, axis rules and evaluation, shared by the records of matrix decompositions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tracer import ops
from tracer.errors import ShapeError
from tracer.ir import AxisRule, Label, ShapeDtype, Value
from tracer.ir.library_calls import PanelCall, SmallMatricesCall, TriangleCall
from tracer.ir.op import Types
from tracer.ops.helpers import conjugate, matrix_transpose, scalar, spread, where, zeros_like
from tracer.ops.rules import own_label, real_dtype, require_kind, widened

Array = np.ndarray[Any, Any]
INT32 = np.dtype(np.int32)


_LAPACK_ITEMSIZE = 4
"""LAPACK knows no narrower floats."""


def require_matrices(name: str, a: ShapeDtype) -> None:
    """Raise unless `a` holds matrices of floats or complex numbers in its last two axes."""
    require_kind(name, a, "fc")
    if a.ndim < 2:
        raise ShapeError(
            f"{name} needs matrices in the last two axes, got {a}",
            mend="give an array of shape (..., m, n)",
        )


def require_square(name: str, a: ShapeDtype) -> None:
    """Raise unless `a` holds square matrices of floats or complex numbers."""
    require_kind(name, a, "fc")
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ShapeError(
            f"{name} needs square matrices in the last two axes, got {a}",
            mend="give an array of shape (..., n, n)",
        )


def real_type(type: ShapeDtype, *core: int) -> ShapeDtype:
    """Return the type of real numbers with the batch axes of matrices and other last axes."""
    return ShapeDtype((*type.shape[:-2], *core), real_dtype(type.dtype))


def matrix_axes(operands: Types, results: Types, **_: Any) -> AxisRule:
    """Let the batch axes be parallel; the matrix axes, and all that depends on them, are whole."""
    count = operands[0].ndim - 2
    batch: tuple[Label, ...] = tuple(range(count))
    rows = tuple(
        (*batch, *(own_label(group, axis) for axis in range(type.ndim - count)))
        for group, type in enumerate((*operands, *results))
    )
    whole: frozenset[Label] = frozenset(label for row in rows for label in row[count:])
    return AxisRule(rows[: len(operands)], rows[len(operands) :], whole=whole)


def evaluate_each(
    function: Callable[[Array], tuple[Array, ...]], a: Array, types: tuple[ShapeDtype, ...]
) -> tuple[Array, ...]:
    """Apply a function of one matrix over the batch axes; NaN where it does not converge.

    8 and 16 bit floats are computed in float32 and rounded once.
    """
    wide = widened(a)
    results = tuple(np.empty(type.shape, type.dtype) for type in types)
    for place in np.ndindex(*a.shape[:-2]):
        try:
            found = function(wide[place])
        except np.linalg.LinAlgError:
            found = tuple(np.full((), np.nan) for _ in types)
        for result, value in zip(results, found, strict=True):
            result[place] = value
    return results


def lapack_call(matrix: ShapeDtype, width: int, *, times: int = 1, workspace: int = 0) -> PanelCall:
    """Return what is known of calls of LAPACK, for the target to tell what OpenBLAS packs.

    Parameters
    ----------
    matrix : ShapeDtype
        The matrix that is decomposed or solved with.
    width : int
        Columns of what it is multiplied with: right-hand sides, or its own.
    times : int
        Calls of which each packs.
    workspace : int
        Additional bytes that they take.
    """
    return PanelCall(min(matrix.shape[-2:]), width, matrix.dtype.itemsize, times, workspace)


def small_matrices_call(
    a: ShapeDtype, width: int, library: TriangleCall | PanelCall, *, held: int
) -> SmallMatricesCall:
    """Return an operation on the matrices of `a`, which may have right-hand sides of a width.

    See `SmallMatricesCall` for what is `held` where they are taken side by side.
    """
    *batch, rows, columns = a.shape
    itemsize = max(a.dtype.itemsize, _LAPACK_ITEMSIZE)
    size = max(width, columns)
    is_real = a.dtype.kind != "c"
    return SmallMatricesCall(math.prod(batch), rows, size, itemsize, is_real, held, library)


def widened_bytes(x: ShapeDtype) -> int:
    """Return the bytes of the copy that LAPACK is given of narrow floats; 0 for others."""
    return 0 if x.dtype.itemsize >= _LAPACK_ITEMSIZE else _LAPACK_ITEMSIZE * x.size


def identity_array(type: ShapeDtype) -> Array:
    """Return one identity matrix of the last two axes of a type: what empty matrices give."""
    return np.eye(type.shape[-2], type.shape[-1])


def adjoint(x: Value) -> Value:
    """Transpose the last two axes and conjugate."""
    return conjugate(matrix_transpose(x))


def as_columns(x: Value, like: Value) -> Value:
    """Spread vectors over the rows of matrices shaped as `like`: element j is in column j."""
    n = len(like.shape)
    dimensions = (*range(n - 2), n - 1)
    return ops.broadcast_in_dim(x, shape=like.shape, dimensions=dimensions)  # type: ignore[no-any-return]


def as_rows(x: Value, like: Value) -> Value:
    """Spread vectors over the columns of matrices shaped as `like`: element i is in row i."""
    dimensions = tuple(range(len(like.shape) - 1))
    return ops.broadcast_in_dim(x, shape=like.shape, dimensions=dimensions)  # type: ignore[no-any-return]


def on_diagonal(shape: tuple[int, ...]) -> Value:
    """Tell for each element of matrices of a shape whether it is on the diagonal."""
    n = len(shape)
    rows = ops.iota(shape=shape, dtype=INT32, dimension=n - 2)
    columns = ops.iota(shape=shape, dtype=INT32, dimension=n - 1)
    return ops.compare(rows, columns, direction="EQ")  # type: ignore[no-any-return]


def identity(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Value:
    """Return identity matrices of a shape."""
    return ops.convert(on_diagonal(shape), dtype=dtype)  # type: ignore[no-any-return]


def diagonal_matrix(x: Value, like: Value) -> Value:
    """Return matrices shaped as `like` with the vectors `x` on their diagonals."""
    spread_out = as_columns(x, like)
    if spread_out.dtype != like.dtype:
        spread_out = as_dtype_of(spread_out, like)
    return where(on_diagonal(like.shape), spread_out)


def as_dtype_of(x: Value, like: Value) -> Value:
    """Return real numbers in the dtype of `like`, real or complex."""
    if like.dtype.kind == "c" and x.dtype.kind != "c":
        return ops.complex(x, zeros_like(x))  # type: ignore[no-any-return]
    return x


def inverse_differences(x: Value, shape: tuple[int, ...]) -> Value:
    """Return 1 / (x_j - x_i) off the diagonal and 0 on it.

    Equal elements give infinities: the derivatives of what belongs to them do not exist.
    """
    zeros = spread(scalar(0, x.dtype), shape)
    differences = ops.subtract(as_columns(x, zeros), as_rows(x, zeros))
    diagonal = on_diagonal(shape)
    safe = where(ops.not_(diagonal), differences, 1)
    return where(ops.not_(diagonal), ops.divide(where(diagonal, zeros, 1), safe))
