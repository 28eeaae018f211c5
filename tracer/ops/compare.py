"""Element-wise ops that compare, choose and convert. Source: StableHLO specification."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from tracer import ops
from tracer.errors import ArgumentError, DTypeError
from tracer.ir import NotDifferentiable, Op, ShapeDtype, Value, as_dtype
from tracer.ir.combining import SAME_ELEMENTS
from tracer.ops.elementwise import STEP
from tracer.ops.helpers import convert as convert_value
from tracer.ops.helpers import where, zeros_like
from tracer.ops.rules import (
    data_movement_cost,
    dtype_kind,
    elementwise_axes,
    elementwise_cost,
    is_inexact,
    require_kind,
    require_operand_count,
    require_same_dtypes,
    require_same_shapes,
    widened,
)

Array = np.ndarray[Any, Any]
_DIRECTIONS = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
}


def _infer_compare(*types: ShapeDtype, direction: str) -> ShapeDtype:
    require_operand_count("compare", types, 2)
    require_same_shapes("compare", types)
    require_same_dtypes("compare", types)
    if direction not in _DIRECTIONS:
        raise ArgumentError(
            f"compare knows no direction {direction!r}", mend=f"use one of {list(_DIRECTIONS)}"
        )
    if direction not in ("EQ", "NE"):
        require_kind(f"compare with {direction}", types[0], "biuf")
    return types[0].with_dtype(bool)


compare: Op = Op(
    "compare",
    doc="Compare two arrays of one type; NaN equals nothing. Complex: EQ and NE only.",
    infer=_infer_compare,
    evaluate=lambda x, y, *, direction: np.asarray(
        _DIRECTIONS[direction](widened(x), widened(y)), bool
    ),
    lower=lambda b, types, x, y, *, direction: b.compare(direction, x, y),
    vjp=STEP,
    axes=elementwise_axes,
    cost=elementwise_cost(1),
    reuses=(0, 1),
    fusion="loop",
    tests_equality=lambda *, direction: direction in ("EQ", "NE"),
    commutes=lambda *, direction: direction in ("EQ", "NE"),
)


def _infer_select(*types: ShapeDtype) -> ShapeDtype:
    require_operand_count("select", types, 3)
    require_same_shapes("select", types)
    require_same_dtypes("select", types[1:])
    require_kind("the condition of select", types[0], "b")
    return types[1]


select: Op = Op(
    "select",
    doc="on_true where pred holds, on_false elsewhere.",
    infer=_infer_select,
    evaluate=lambda pred, x, y: np.where(pred, x, y),
    lower=lambda b, types, pred, x, y: b.select(pred, x, y),
    vjp=lambda g, out, pred, x, y: (None, where(pred, g), ops.select(pred, zeros_like(g), g)),
    axes=elementwise_axes,
    cost=elementwise_cost(1),
    reuses=(0, 1, 2),
    fusion="loop",
)


def _infer_clamp(*types: ShapeDtype) -> ShapeDtype:
    require_operand_count("clamp", types, 3)
    require_same_shapes("clamp", types)
    require_same_dtypes("clamp", types)
    require_kind("clamp", types[0], "biuf")
    return types[1]


def _evaluate_clamp(low: Array, x: Array, high: Array) -> Any:
    limited = np.minimum(np.maximum(widened(x), widened(low)), widened(high))
    return np.asarray(limited).astype(x.dtype, copy=False)


def _clamp_vjp(g: Value, out: Value, low: Value, x: Value, high: Value) -> tuple[Value, ...]:
    """Give the gradient to the operand that was chosen; to none where x equals a bound (JAX)."""
    above_low = ops.compare(x, low, direction="GT")
    below_high = ops.compare(x, high, direction="LT")
    ordered = ops.compare(low, high, direction="LT")
    by_low = ops.and_(ops.compare(low, x, direction="GT"), ordered)
    by_high = ops.compare(x, high, direction="GT")
    return where(by_low, g), where(ops.and_(above_low, below_high), g), where(by_high, g)


clamp: Op = Op(
    "clamp",
    doc="min(max(x, low), high), for operands in the order (low, x, high).",
    infer=_infer_clamp,
    evaluate=_evaluate_clamp,
    lower=lambda b, types, low, x, high: b.clamp(low, x, high),
    vjp=_clamp_vjp,
    axes=elementwise_axes,
    cost=elementwise_cost(2),
    reuses=(0, 1, 2),
    fusion="loop",
)


def _to_integer(x: Array, dtype: np.dtype[Any]) -> Array:
    """Truncate toward zero, clamp to the range, NaN to 0: XLA's conversion."""
    limits = np.iinfo(dtype)
    wide = x.astype(np.float64)
    # The largest float64 below the bound: int64's own bound is not a float64.
    inside = np.where(np.isnan(wide) | (wide >= limits.max) | (wide <= limits.min), 0, wide)
    result = inside.astype(dtype)
    result = np.where(wide >= limits.max, np.array(limits.max, dtype), result)
    return np.where(wide <= limits.min, np.array(limits.min, dtype), result)


def _evaluate_convert(x: Array, *, dtype: np.dtype[Any]) -> Any:
    with np.errstate(all="ignore"):
        if x.dtype.kind == "c" and dtype.kind != "c":
            x = x.real
        if dtype.kind == "b":
            return np.asarray(x != 0)
        if dtype_kind(x.dtype) == "f" and dtype.kind in "iu":
            return _to_integer(x, dtype)
        return x.astype(dtype)


convert: Op = Op(
    "convert",
    doc="Convert to another dtype: truncating and clamping to integers, x != 0 to bool, the real "
    "part of complex numbers to anything real.",
    infer=lambda x, *, dtype: x.with_dtype(as_dtype(dtype)),
    evaluate=_evaluate_convert,
    lower=lambda b, types, x, *, dtype: b.convert(types[0], x),
    vjp=lambda g, out, x, *, dtype: (
        convert_value(g, x.dtype) if is_inexact(x.dtype) and is_inexact(out.dtype) else None,
    ),
    axes=elementwise_axes,
    cost=elementwise_cost(1),
    reuses=(0,),
    fusion="loop",
    response=SAME_ELEMENTS,
)


def _infer_bitcast(x: ShapeDtype, *, dtype: np.dtype[Any]) -> ShapeDtype:
    wanted = as_dtype(dtype)
    kinds = dtype_kind(wanted) + dtype_kind(x.dtype)
    if wanted.itemsize != x.dtype.itemsize or "b" in kinds or ("c" in kinds and kinds != "cc"):
        raise DTypeError(
            f"bitcast_convert cannot read {x.dtype} as {wanted}",
            mend="choose a numeric dtype of the same width, or use convert",
        )
    return x.with_dtype(wanted)


bitcast_convert: Op = Op(
    "bitcast_convert",
    doc="Read the same bits as another dtype of the same width.",
    infer=_infer_bitcast,
    evaluate=lambda x, *, dtype: np.ascontiguousarray(x).reshape(x.shape).view(dtype),
    lower=lambda b, types, x, *, dtype: b.bitcast_convert(types[0], x),
    vjp=NotDifferentiable("it reads bits, not numbers", zero=True),
    axes=elementwise_axes,
    cost=data_movement_cost,
    reuses=(0,),
    fusion="loop",
)
