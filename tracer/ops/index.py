"""Slices at computed positions. Source: StableHLO specification.

Starts are clamped so that every slice lies within the operand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracer import ops
from tracer.errors import ShapeError
from tracer.ir import AxisRule, Chunk, Cost, Label, Op, Piece, ShapeDtype, Value
from tracer.ir.op import Types
from tracer.ops import helpers
from tracer.ops.batch_index import batch_dynamic_slice, batch_dynamic_update_slice
from tracer.ops.rules import own_label, require_kind, require_same_dtypes

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]


def _require_starts(name: str, x: ShapeDtype, starts: Sequence[ShapeDtype], sizes: Sizes) -> None:
    if len(starts) != x.ndim or len(sizes) != x.ndim or any(t.shape for t in starts):
        raise ShapeError(
            f"{name} of {x} got starts {[*map(str, starts)]} and sizes {sizes}",
            mend="give one scalar start and one size for each axis",
        )
    if any(not 0 <= size <= n for size, n in zip(sizes, x.shape, strict=True)):
        raise ShapeError(
            f"{name}: a window of sizes {sizes} does not fit into {x}",
            mend="no size may be larger than the axis",
        )
    if starts:
        require_same_dtypes(f"the starts of {name}", starts)
        require_kind(f"the starts of {name}", starts[0], "iu")


def _window(x: Array, starts: Sequence[Array], sizes: Sizes) -> tuple[slice, ...]:
    """Return the window with its starts clamped."""
    places = [
        min(max(int(start), 0), n - size)
        for start, n, size in zip(starts, x.shape, sizes, strict=True)
    ]
    return tuple(slice(place, place + size) for place, size in zip(places, sizes, strict=True))


def _infer_dynamic_slice(x: ShapeDtype, *starts: ShapeDtype, sizes: Sizes) -> ShapeDtype:
    _require_starts("dynamic_slice", x, starts, sizes)
    return x.with_shape(sizes)


def _dynamic_slice_vjp(
    g: Value, out: Value, x: Value, *starts: Value, sizes: Sizes
) -> tuple[Value | None, ...]:
    zeros = helpers.zeros_like(x)
    return (ops.dynamic_update_slice(zeros, g, *starts), *(None for _ in starts))


def _window_axes(
    outer: ShapeDtype, inner: ShapeDtype
) -> tuple[list[Label], list[Label], set[Label]]:
    """Label the axes of an array and of a window in it: parallel where the window is as large."""
    outer_labels: list[Label] = []
    inner_labels: list[Label] = []
    whole: set[Label] = set()
    for axis, (n, size) in enumerate(zip(outer.shape, inner.shape, strict=True)):
        outer_labels.append(axis)
        inner_labels.append(axis if n == size else own_label(1, axis))
        if n != size:
            whole |= {axis, own_label(1, axis)}
    return outer_labels, inner_labels, whole


def _dynamic_slice_axes(operands: Types, results: Types, *, sizes: Sizes) -> AxisRule:
    outer, inner, whole = _window_axes(operands[0], results[0])
    starts: list[tuple[Label, ...]] = [()] * (len(operands) - 1)
    return AxisRule((tuple(outer), *starts), (tuple(inner),), whole=frozenset(whole))


def _slice_dynamic_slice(operands: tuple[Value, ...], chunk: Chunk, *, sizes: Sizes) -> Any:
    axis = chunk.result_axis
    return ops.dynamic_slice(*operands, sizes=(*sizes[:axis], chunk.size, *sizes[axis + 1 :]))


def _known_start(x: ShapeDtype, window: ShapeDtype, axis: int, start: Array | None) -> int | None:
    """Return where a window begins along an axis that alone it does not span, if that is known."""
    others = (i for i in range(x.ndim) if i != axis)
    if start is None or any(x.shape[i] != window.shape[i] for i in others):
        return None
    return min(max(int(start), 0), x.shape[axis] - window.shape[axis])


def _dynamic_slice_pieces(
    operands: Types,
    results: Types,
    axis: int,
    constants: Sequence[Array | None],
    *,
    sizes: Sizes,
) -> list[Piece] | None:
    start = _known_start(operands[0], results[0], axis, constants[1 + axis])
    return None if start is None else [Piece(0, start, sizes[axis])]


dynamic_slice: Op = Op(
    "dynamic_slice",
    doc="The window of the given sizes that starts at scalar operands, clamped to lie inside.",
    infer=_infer_dynamic_slice,
    evaluate=lambda x, *starts, sizes: x[_window(x, starts, sizes)],
    lower=lambda b, types, x, *starts, sizes: b.dynamic_slice(x, starts, sizes),
    vjp=_dynamic_slice_vjp,
    axes=_dynamic_slice_axes,
    cost=lambda operands, results, *, sizes: Cost(0, 2 * results[0].nbytes),
    slice=_slice_dynamic_slice,
    fusion="loop",
    batch=batch_dynamic_slice,
    pieces=_dynamic_slice_pieces,
)


def infer_update(x: ShapeDtype, update: ShapeDtype, *starts: ShapeDtype) -> ShapeDtype:
    """Check the operands of an update of a window; the result is as the first."""
    require_same_dtypes("dynamic_update_slice", (x, update))
    _require_starts("dynamic_update_slice", x, starts, update.shape)
    return x


def _evaluate_update(x: Array, update: Array, *starts: Array) -> Any:
    result = x.copy()
    result[_window(x, starts, update.shape)] = update
    return result


def _update_vjp(
    g: Value, out: Value, x: Value, update: Value, *starts: Value
) -> tuple[Value | None, ...]:
    outside = ops.dynamic_update_slice(g, helpers.zeros_like(update), *starts)
    inside = ops.dynamic_slice(g, *starts, sizes=update.shape)
    return (outside, inside, *(None for _ in starts))


def update_axes(operands: Types, results: Types) -> AxisRule:
    """Axes that the window spans are parallel; the others are whole."""
    outer, inner, whole = _window_axes(operands[0], operands[1])
    starts: list[tuple[Label, ...]] = [()] * (len(operands) - 2)
    rows = (tuple(outer), tuple(inner), *starts)
    return AxisRule(rows, (tuple(outer),), whole=frozenset(whole))


def _update_pieces(
    operands: Types, results: Types, axis: int, constants: Sequence[Array | None]
) -> list[Piece] | None:
    x, update = operands[:2]
    start = _known_start(x, update, axis, constants[2 + axis])
    if start is None:
        return None
    stop = start + update.shape[axis]
    return [
        Piece(0, 0, start),
        Piece(1, 0, update.shape[axis]),
        Piece(0, stop, x.shape[axis] - stop),
    ]


dynamic_update_slice: Op = Op(
    "dynamic_update_slice",
    doc="The first operand with a window replaced by the second, at scalar starts (clamped).",
    infer=infer_update,
    evaluate=_evaluate_update,
    lower=lambda b, types, x, update, *starts: b.dynamic_update_slice(x, update, starts),
    vjp=_update_vjp,
    axes=update_axes,
    cost=lambda operands, results: Cost(0, 2 * operands[1].nbytes),
    reuses=(0,),
    fusion="opaque",
    batch=batch_dynamic_update_slice,
    pieces=_update_pieces,
)
