"""Ops that move data without arithmetic. Source of all definitions: StableHLO specification."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd
from typing import Any

import numpy as np

from tracer import ops
from tracer.errors import ShapeError
from tracer.ir import AxisRule, Label, Op, ShapeDtype, Value
from tracer.ir.combining import SAME_ELEMENTS
from tracer.ir.op import Types
from tracer.ops import helpers
from tracer.ops.batch import leading
from tracer.ops.rules import (
    data_movement_cost,
    kept_axes_rule,
    own_label,
    require_axes,
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
    batch=leading("dimensions", shape=None, dimensions=0),
    response=SAME_ELEMENTS,
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
    return [(i, j) for i, j in _first_axes(before, after) if before[i] == after[j]]


def matching_blocks(before: Sequence[int], after: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return (axis, axis, blocks) for the outermost axes of groups that a reshape merges or splits.

    Elements are in row-major order, so equal shares of the outermost axes are the same elements.

    Examples
    --------
    >>> matching_blocks((8, 512, 64), (4096, 64)), matching_blocks((6, 4), (4, 6))
    ([(0, 0, 8)], [(0, 0, 2)])
    """
    pairs = [(i, j) for i, j in _first_axes(before, after) if before[i] != after[j]]
    found = [(i, j, gcd(before[i], after[j])) for i, j in pairs]
    return [(i, j, blocks) for i, j, blocks in found if blocks > 1]


def _first_axes(before: Sequence[int], after: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the outermost axes of the shortest groups with equal products, from the outside."""
    if 0 in before:
        return
    i = j = 0
    while i < len(before) and j < len(after):
        if before[i] == after[j]:
            yield i, j
            i, j = i + 1, j + 1
        elif before[i] == 1:
            i += 1
        elif after[j] == 1:
            j += 1
        else:
            yield i, j
            i, j = _end_of_group(before, after, i, j)


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
    steps: dict[Label, int] = {}
    for i, j, blocks in matching_blocks(operands[0].shape, shape):
        whole -= {labels_in[i], labels_out[j]}
        labels_in[i] = labels_out[j]
        steps[labels_out[j]] = blocks
    return AxisRule((tuple(labels_in),), (tuple(labels_out),), whole=frozenset(whole), steps=steps)


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
    batch=leading(shape=None),
    response=SAME_ELEMENTS,
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
    batch=leading("permutation", permutation=0),
    response=SAME_ELEMENTS,
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
    axes=lambda operands, results, *, dimensions: kept_axes_rule(
        operands, results, [axis not in dimensions for axis in range(operands[0].ndim)]
    ),
    cost=data_movement_cost,
    fusion="loop",
    batch=leading("dimensions"),
    response=SAME_ELEMENTS,
)
