"""Joining, padding and cutting arrays. Source of all definitions: StableHLO specification."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from tracer import ops
from tracer.errors import ShapeError
from tracer.ir import AxisRule, Batching, Op, Piece, ShapeDtype, Value
from tracer.ir.op import Types
from tracer.ops import helpers
from tracer.ops.batch import leading, spread_leading
from tracer.ops.rules import (
    data_movement_cost,
    kept_axes_rule,
    own_label,
    require_axes,
    require_same_dtypes,
    resized_param,
)

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]


def _infer_concatenate(*types: ShapeDtype, dimension: int) -> ShapeDtype:
    if not types:
        raise ShapeError("concatenate needs an operand", mend="give one or more arrays")
    require_same_dtypes("concatenate", types)
    require_axes("concatenate", (dimension,), types[0].ndim)
    if any(t.ndim != types[0].ndim for t in types) or (
        len({t.resized(dimension, 0) for t in types}) > 1
    ):
        raise ShapeError(
            f"concatenate along axis {dimension}: {', '.join(map(str, types))} differ elsewhere",
            mend="all sizes but those of the joined axis must be equal",
        )
    return types[0].resized(dimension, sum(t.shape[dimension] for t in types))


def _concatenate_vjp(g: Value, out: Value, *operands: Value, dimension: int) -> tuple[Value, ...]:
    parts = []
    start = 0
    for x in operands:
        stop = start + x.shape[dimension]
        parts.append(helpers.slice_axis(g, dimension, start, stop))
        start = stop
    return tuple(parts)


def _concatenate_axes(operands: Types, results: Types, *, dimension: int) -> AxisRule:
    axes = range(results[0].ndim)
    rows = [
        tuple(own_label(n, axis) if axis == dimension else axis for axis in axes)
        for n in range(len(operands) + 1)
    ]
    whole = frozenset(row[dimension] for row in rows)
    return AxisRule(tuple(rows[:-1]), (rows[-1],), whole=whole)


def _concatenate_pieces(
    operands: Types, results: Types, axis: int, constants: Any, *, dimension: int
) -> list[Piece] | None:
    if axis != dimension:
        return None
    return [Piece(i, 0, type.shape[axis]) for i, type in enumerate(operands)]


concatenate: Op = Op(
    "concatenate",
    doc="Join arrays along one axis.",
    infer=_infer_concatenate,
    evaluate=lambda *arrays, dimension: np.concatenate(arrays, dimension),
    lower=lambda b, types, *operands, dimension: b.concatenate(operands, dimension),
    vjp=_concatenate_vjp,
    axes=_concatenate_axes,
    cost=data_movement_cost,
    fusion="loop",
    batch=leading("dimension"),
    pieces=_concatenate_pieces,
    branches=True,
)


def _infer_pad(
    x: ShapeDtype, padding: ShapeDtype, *, low: Sizes, high: Sizes, interior: Sizes
) -> ShapeDtype:
    require_same_dtypes("pad", (x, padding))
    if padding.shape != ():
        raise ShapeError(f"pad: the padding value is {padding}, no scalar", mend="give a scalar")
    if not len(low) == len(high) == len(interior) == x.ndim or any(n < 0 for n in interior):
        raise ShapeError(
            f"pad: low {low}, high {high}, interior {interior} do not fit {x}",
            mend="give one number for each axis, and an interior of 0 or more",
        )
    sizes = [
        before + n + max(n - 1, 0) * between + after
        for n, before, after, between in zip(x.shape, low, high, interior, strict=True)
    ]
    if any(n < 0 for n in sizes):
        raise ShapeError(
            f"pad: low {low} and high {high} cut off more than {x} has",
            mend="cut off at most the size of the axis",
        )
    return x.with_shape(sizes)


def _evaluate_pad(x: Array, padding: Array, *, low: Sizes, high: Sizes, interior: Sizes) -> Any:
    spaced = np.full(
        [n + max(n - 1, 0) * k for n, k in zip(x.shape, interior, strict=True)], padding
    )
    spaced[tuple(builtins.slice(None, None, k + 1) for k in interior)] = x
    widths = [(max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=True)]
    grown = np.pad(spaced, widths, constant_values=padding) if x.ndim else spaced
    cut = tuple(
        builtins.slice(max(-a, 0), max(n - max(-b, 0), max(-a, 0)))
        for a, b, n in zip(low, high, grown.shape, strict=True)
    )
    return grown[cut]


def _pad_vjp(
    g: Value, out: Value, x: Value, padding: Value, *, low: Sizes, high: Sizes, interior: Sizes
) -> tuple[Value, Value]:
    """Cut the cotangent of x out of g; that of the padding is the sum of the rest."""
    zero = helpers.scalar(0, g.dtype)
    none = (0,) * len(low)
    window = ops.pad(
        g, zero, low=tuple(-n for n in low), high=tuple(-n for n in high), interior=none
    )
    for_x = ops.slice(
        window, start=none, limit=window.shape, strides=tuple(n + 1 for n in interior)
    )
    outside = ops.pad(
        helpers.zeros_like(x), helpers.scalar(1, g.dtype), low=low, high=high, interior=interior
    )
    axes = tuple(range(len(low)))
    rest = ops.multiply(g, outside)
    return for_x, ops.reduce_add(rest, axes=axes) if axes else rest


def _pad_axes(
    operands: Types, results: Types, *, low: Sizes, high: Sizes, interior: Sizes
) -> AxisRule:
    untouched = [not (a or b or k) for a, b, k in zip(low, high, interior, strict=True)]
    return kept_axes_rule(operands, results, untouched)


def _pad_pieces(
    operands: Types,
    results: Types,
    axis: int,
    constants: Any,
    *,
    low: Sizes,
    high: Sizes,
    interior: Sizes,
) -> list[Piece] | None:
    others = [i for i in range(len(low)) if i != axis]
    if any(low[i] or high[i] or interior[i] for i in others) or interior[axis]:
        return None
    before, after = max(low[axis], 0), max(high[axis], 0)
    kept = results[0].shape[axis] - before - after
    return [Piece(1, 0, before), Piece(0, max(-low[axis], 0), kept), Piece(1, 0, after)]


def _batch_pad(operands: tuple[Value, ...], batching: Batching, **params: Sizes) -> Value:
    """Pad along the old axes; choose by element where the padding differs."""
    x, padding = operands
    if not batching.batched[0]:
        x = spread_leading(x, batching.size)
    params = {key: (0, *numbers) for key, numbers in params.items()}
    if not batching.batched[1]:
        return ops.pad(x, padding, **params)  # type: ignore[no-any-return]
    padded = ops.pad(x, helpers.scalar(0, x.dtype), **params)
    inside = helpers.full(1, x.type.with_dtype(bool))
    is_inside = ops.pad(inside, helpers.scalar(0, inside.dtype), **params)
    value = ops.broadcast_in_dim(padding, shape=padded.shape, dimensions=(0,))
    return ops.select(is_inside, padded, value)  # type: ignore[no-any-return]


pad: Op = Op(
    "pad",
    doc="Put a scalar around (low, high) and between (interior) the elements; negative low and "
    "high cut off.",
    infer=_infer_pad,
    evaluate=_evaluate_pad,
    lower=lambda b, types, x, padding, *, low, high, interior: b.pad(
        x, padding, low, high, interior
    ),
    vjp=_pad_vjp,
    axes=_pad_axes,
    cost=data_movement_cost,
    fusion="loop",
    batch=_batch_pad,
    pieces=_pad_pieces,
    branches=True,
)


def _infer_slice(x: ShapeDtype, *, start: Sizes, limit: Sizes, strides: Sizes) -> ShapeDtype:
    fits = len(start) == len(limit) == len(strides) == x.ndim and all(
        0 <= a <= b <= n and step > 0
        for a, b, n, step in zip(start, limit, x.shape, strides, strict=True)
    )
    if not fits:
        raise ShapeError(
            f"slice: start {start}, limit {limit}, strides {strides} do not fit {x}",
            mend="0 <= start <= limit <= size and a positive stride, for each axis",
        )
    return x.with_shape(
        math.ceil((b - a) / step) for a, b, step in zip(start, limit, strides, strict=True)
    )


def _slice_vjp(
    g: Value, out: Value, x: Value, *, start: Sizes, limit: Sizes, strides: Sizes
) -> tuple[Value]:
    high = tuple(
        n - (a + (m - 1) * step + 1 if m else a)
        for n, a, m, step in zip(x.shape, start, out.shape, strides, strict=True)
    )
    interior = tuple(step - 1 for step in strides)
    return (ops.pad(g, helpers.scalar(0, g.dtype), low=start, high=high, interior=interior),)


def _slice_axes(
    operands: Types, results: Types, *, start: Sizes, limit: Sizes, strides: Sizes
) -> AxisRule:
    ends = zip(operands[0].shape, start, limit, strides, strict=True)
    return kept_axes_rule(
        operands, results, [a == 0 and b == n and step == 1 for n, a, b, step in ends]
    )


def _slice_pieces(
    operands: Types,
    results: Types,
    axis: int,
    constants: Any,
    *,
    start: Sizes,
    limit: Sizes,
    strides: Sizes,
) -> list[Piece] | None:
    if strides[axis] != 1:
        return None
    cut = tuple(zip(start, limit, strides, strict=True))
    others = (i for i in range(results[0].ndim) if i != axis)
    is_whole = all(operands[0].shape[i] == results[0].shape[i] for i in others)
    return [Piece(0, start[axis], limit[axis] - start[axis], () if is_whole else cut)]


slice: Op = Op(
    "slice",
    doc="The elements start, start + stride, ... below limit along each axis.",
    infer=_infer_slice,
    evaluate=lambda x, *, start, limit, strides: x[
        tuple(map(builtins.slice, start, limit, strides))
    ],
    lower=lambda b, types, x, *, start, limit, strides: b.slice(x, start, limit, strides),
    vjp=_slice_vjp,
    axes=_slice_axes,
    cost=lambda operands, results, **_: data_movement_cost(results, results),
    slice=resized_param("limit"),
    fusion="loop",
    batch=leading(start=0, limit=None, strides=1),
    pieces=_slice_pieces,
)
