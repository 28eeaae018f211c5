"""Ops without operands: iota and constant. Source: StableHLO specification."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer import ops
from tracer.errors import DTypeError
from tracer.ir import AxisRule, Chunk, Cost, NotDifferentiable, Op, ShapeDtype, Value, as_dtype
from tracer.ir.op import Types
from tracer.ops import helpers
from tracer.ops.rules import data_movement_cost, dtype_kind, require_axes, whole_axes

_NO_OPERANDS = NotDifferentiable("it has no operands", zero=True)


def _infer_iota(*, shape: tuple[int, ...], dtype: np.dtype[Any], dimension: int) -> ShapeDtype:
    require_axes("iota", (dimension,), len(shape))
    if dtype_kind(as_dtype(dtype)) == "b":
        raise DTypeError("iota counts and cannot be bool", mend="use an integer dtype")
    return ShapeDtype(shape, dtype)


def _evaluate_iota(*, shape: tuple[int, ...], dtype: np.dtype[Any], dimension: int) -> Any:
    line = np.arange(shape[dimension]).astype(dtype)
    line = line.reshape([-1 if axis == dimension else 1 for axis in range(len(shape))])
    return np.ascontiguousarray(np.broadcast_to(line, shape))


def _slice_iota(
    operands: tuple[Value, ...],
    chunk: Chunk,
    *,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    dimension: int,
) -> Any:
    axis = chunk.result_axis
    shape = (*shape[:axis], chunk.size, *shape[axis + 1 :])
    part = ops.iota(shape=shape, dtype=dtype, dimension=dimension)
    if axis != dimension:
        return part
    return ops.add(part, helpers.spread(helpers.convert(chunk.start, part.dtype), shape))


def _iota_axes(operands: Types, results: Types, **_: Any) -> AxisRule:
    return AxisRule((), (tuple(range(results[0].ndim)),))


def _iota_cost(operands: Types, results: Types, **_: Any) -> Cost:
    return Cost(0, results[0].nbytes)


iota: Op = Op(
    "iota",
    doc="0, 1, 2, ... along one dimension, repeated along the others.",
    infer=_infer_iota,
    evaluate=_evaluate_iota,
    lower=lambda b, types, *, shape, dtype, dimension: b.iota(types[0], dimension),
    vjp=_NO_OPERANDS,
    axes=_iota_axes,
    cost=_iota_cost,
    slice=_slice_iota,
    fusion="loop",
)
constant: Op = Op(
    "constant",
    doc="A fixed array. Keep it small: it becomes part of the program.",
    infer=lambda *, value: ShapeDtype(value.shape, value.dtype),
    evaluate=lambda *, value: value,
    lower=lambda b, types, *, value: b.constant(value),
    vjp=_NO_OPERANDS,
    axes=whole_axes,
    cost=data_movement_cost,
    fusion="loop",
)
