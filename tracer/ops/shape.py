"""Ops that move data without arithmetic. Source of all definitions: StableHLO specification."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracer import ops
from tracer.errors import ShapeError
from tracer.ir import AxisRule, Chunk, Op, ShapeDtype, Value
from tracer.ir.op import Types
from tracer.ops import helpers
from tracer.ops.rules import (
    data_movement_cost,
    own_label,
    require_axes,
    require_same_dtypes,
    resized_param,
)

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]


def _infer_broadcast(x: ShapeDtype, *, shape: Sizes, dimensions: Sizes) -> ShapeDtype:
    require_axes("broadcast_in_dim", dimensions, len(shape))
    if len(dimensions) != x.ndim or list(dimensions) != sorted(dimensions):
        raise ShapeError(
            f"broadcast_in_dim: dimensions {dimensions} must name one increasing result axis for "
            f"each axis of {x}",
            mend="give one result axis for each operand axis; transpose first to reorder",
        )
    for axis, target in enumerate(dimensions):
        if x.shape[axis] not in (1, shape[target]):
            raise ShapeError(
                f"cannot broadcast {x} to shape {shape}: axis {axis} of size {x.shape[axis]} "
                f"meets size {shape[target]}",
                mend="sizes must be equal or 1",
            )
    return x.with_shape(shape)


def _evaluate_broadcast(x: Array, *, shape: Sizes, dimensions: Sizes) -> Any:
    sizes = [1] * len(shape)
    for axis, target in enumerate(dimensions):
        sizes[target] = x.shape[axis]
    return np.ascontiguousarray(np.broadcast_to(x.reshape(sizes), shape)).reshape(shape)


def _broadcast_vjp(
    g: Value, out: Value, x: Value, *, shape: Sizes, dimensions: Sizes
) -> tuple[Value]:
    kept = {d for axis, d in enumerate(dimensions) if x.shape[axis] == shape[d]}
    summed = tuple(axis for axis in range(len(shape)) if axis not in kept)
    total = ops.reduce_add(g, axes=summed) if summed else g
    return (helpers.reshape(total, x.shape),)


def _broadcast_axes(
    operands: Types, results: Types, *, shape: Sizes, dimensions: Sizes
) -> AxisRule:
    (x,) = operands
    expanded = [axis for axis, d in enumerate(dimensions) if x.shape[axis] != shape[d]]
    labels = tuple(
        own_label(0, axis) if axis in expanded else d for axis, d in enumerate(dimensions)
    )
    whole = frozenset(own_label(0, axis) for axis in expanded)
    return AxisRule((labels,), (tuple(range(len(shape))),), whole=whole)


broadcast_in_dim: Op = Op(
    "broadcast_in_dim",
    doc="Repeat: axis i of the operand becomes axis dimensions[i] of the result.",
    infer=_infer_broadcast,
    evaluate=_evaluate_broadcast,
    lower=lambda b, types, x, *, shape, dimensions: b.broadcast_in_dim(types[0], x, dimensions),
    vjp=_broadcast_vjp,
    axes=_broadcast_axes,
    cost=data_movement_cost,
    slice=resized_param("shape"),
    fusion="loop",
)


def _infer_reshape(x: ShapeDtype, *, shape: Sizes) -> ShapeDtype:
    result = x.with_shape(shape)
    if result.size != x.size:
        raise ShapeError(
            f"cannot reshape {x} ({x.size} elements) to {tuple(shape)} ({result.size} elements)",
            mend="the product of the sizes must stay the same",
        )
    return result


def matching_axes(before: Sequence[int], after: Sequence[int]) -> list[tuple[int, int]]:
    """Return the pairs of axes that a reshape keeps: same size, same product of sizes before.

    Examples
    --------
    >>> matching_axes((2, 3, 4, 5), (2, 12, 5))
    [(0, 0), (3, 2)]
    """
    if 0 in before:
        return []
    pairs = []
    i = j = 0
    while i < len(before) and j < len(after):
        if before[i] == after[j]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif before[i] == 1:
            i += 1
        elif after[j] == 1:
            j += 1
        else:
            i, j = _end_of_group(before, after, i, j)
    return pairs


def _end_of_group(before: Sequence[int], after: Sequence[int], i: int, j: int) -> tuple[int, int]:
    """Return the axes behind the shortest groups from i and j with equal products."""
    left, right = before[i], after[j]
    i, j = i + 1, j + 1
    while left != right:
        if left < right:
            left *= before[i]
            i += 1
        else:
            right *= after[j]
            j += 1
    return i, j


def _reshape_axes(operands: Types, results: Types, *, shape: Sizes) -> AxisRule:
    labels_in = [own_label(0, axis) for axis in range(operands[0].ndim)]
    labels_out = [own_label(1, axis) for axis in range(len(shape))]
    whole = set(labels_in) | set(labels_out)
    for i, j in matching_axes(operands[0].shape, shape):
        whole -= {labels_in[i], labels_out[j]}
        labels_in[i] = labels_out[j]
    return AxisRule((tuple(labels_in),), (tuple(labels_out),), whole=frozenset(whole))


reshape: Op = Op(
    "reshape",
    doc="The same elements in row-major order under another shape.",
    infer=_infer_reshape,
    evaluate=lambda x, *, shape: np.reshape(x, shape),
    lower=lambda b, types, x, *, shape: b.reshape(types[0], x),
    vjp=lambda g, out, x, *, shape: (ops.reshape(g, shape=x.shape),),
    axes=_reshape_axes,
    cost=data_movement_cost,
    slice=resized_param("shape"),
    reuses=(0,),
    fusion="view",
)


def _infer_transpose(x: ShapeDtype, *, permutation: Sizes) -> ShapeDtype:
    if sorted(permutation) != list(range(x.ndim)):
        raise ShapeError(
            f"transpose: {permutation} is no permutation of the axes of {x}",
            mend=f"name each of the axes 0 to {x.ndim - 1} once",
        )
    return x.with_shape(x.shape[axis] for axis in permutation)


def _transpose_axes(operands: Types, results: Types, *, permutation: Sizes) -> AxisRule:
    return AxisRule((tuple(range(len(permutation))),), (tuple(permutation),))


transpose: Op = Op(
    "transpose",
    doc="Permute the axes: axis i of the result is axis permutation[i] of the operand.",
    infer=_infer_transpose,
    evaluate=lambda x, *, permutation: np.transpose(x, permutation),
    lower=lambda b, types, x, *, permutation: b.transpose(x, permutation),
    vjp=lambda g, out, x, *, permutation: (
        ops.transpose(g, permutation=tuple(int(i) for i in np.argsort(permutation))),
    ),
    axes=_transpose_axes,
    cost=data_movement_cost,
    fusion="loop",
)


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
    spaced[tuple(slice_of(None, None, k + 1) for k in interior)] = x
    widths = [(max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=True)]
    grown = np.pad(spaced, widths, constant_values=padding) if x.ndim else spaced
    cut = tuple(
        slice_of(max(-a, 0), max(n - max(-b, 0), max(-a, 0)))
        for a, b, n in zip(low, high, grown.shape, strict=True)
    )
    return grown[cut]


slice_of = slice  # The builtin, before the record below takes its name in this module.


def _pad_vjp(
    g: Value, out: Value, x: Value, padding: Value, *, low: Sizes, high: Sizes, interior: Sizes
) -> tuple[Value, Value]:
    """The cotangent of x is cut out of g; that of the padding is the sum of the rest."""
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
    return _kept_axes(operands, results, untouched)


def _kept_axes(operands: Types, results: Types, kept: Sequence[bool]) -> AxisRule:
    """Axes of the first operand that are kept are parallel, the others whole."""
    inside = tuple(i if keep else own_label(0, i) for i, keep in enumerate(kept))
    outside = tuple(i if keep else own_label(1, i) for i, keep in enumerate(kept))
    whole = frozenset(label for label in (*inside, *outside) if isinstance(label, str))
    scalars: tuple[tuple[int, ...], ...] = ((),) * (len(operands) - 1)
    return AxisRule((inside, *scalars), (outside,), whole=whole)


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
    return _kept_axes(
        operands, results, [a == 0 and b == n and step == 1 for n, a, b, step in ends]
    )


slice: Op = Op(  # noqa: A001 - StableHLO's name
    "slice",
    doc="The elements start, start + stride, ... below limit along each axis.",
    infer=_infer_slice,
    evaluate=lambda x, *, start, limit, strides: x[tuple(map(slice_of, start, limit, strides))],
    lower=lambda b, types, x, *, start, limit, strides: b.slice(x, start, limit, strides),
    vjp=_slice_vjp,
    axes=_slice_axes,
    cost=lambda operands, results, **_: data_movement_cost(results, results),
    slice=resized_param("limit"),
    fusion="loop",
)


def _infer_reverse(x: ShapeDtype, *, dimensions: Sizes) -> ShapeDtype:
    require_axes("reverse", dimensions, x.ndim)
    return x


reverse: Op = Op(
    "reverse",
    doc="Reverse the order of the elements along some axes.",
    infer=_infer_reverse,
    evaluate=lambda x, *, dimensions: np.flip(x, dimensions),
    lower=lambda b, types, x, *, dimensions: b.reverse(x, dimensions),
    vjp=lambda g, out, x, *, dimensions: (ops.reverse(g, dimensions=dimensions),),
    axes=lambda operands, results, *, dimensions: _kept_axes(
        operands, results, [axis not in dimensions for axis in range(operands[0].ndim)]
    ),
    cost=data_movement_cost,
    fusion="loop",
)
