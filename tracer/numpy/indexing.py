"""Indexing: what `x[index]`, `x[index] = y` and `x.at[index]` do and accept.

Basic indices read a window (a slice, or a dynamic slice). Index arrays become one gather or
scatter. `bounds.py` says what happens to indices out of bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tracer import ops
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import (
    as_array,
    as_written,
    broadcast,
    broadcast_shape,
    reshape,
    scalar,
)
from tracer.array.dispatch import apply, compound
from tracer.array.placement import place_beside
from tracer.array.promotion import weak_class
from tracer.errors import ArrayIndexError, ShapeError
from tracer.ir import Op
from tracer.numpy import window as windows
from tracer.numpy.bounds import (
    READ,
    WRITE,
    Bounds,
    clipped,
    filled,
    filling,
    is_inside,
    wide_index,
    wrap_negative,
)
from tracer.numpy.diagonals import is_computed_diagonal
from tracer.numpy.index_parser import Plan, has_truth, parse, replace_truths
from tracer.numpy.ufunc import compare, select
from tracer.numpy.window import Window

_COMBINERS: dict[str, Op] = {
    "add": ops.add,
    "multiply": ops.multiply,
    "minimum": ops.minimum,
    "maximum": ops.maximum,
}
REPLACE = "replace"
_INT64 = np.dtype("int64")


@dataclass(frozen=True)
class Gather:
    """Where the axes of index arrays are, in the operand and in the result.

    Attributes
    ----------
    axes : tuple of int
        Axes of the operand that index arrays index.
    wrapped : tuple of bool
        Whether each of them may hold negative indices.
    place : int
        First axis of the result that belongs to the index arrays.
    unknown : tuple of bool
        Whether indices of each of them may be out of bounds.
    bounds : Bounds
        What happens to those.
    batch : tuple of int
        Axes whose index arrays count along an axis of theirs, each along another one.
    along : tuple of int
        Those axes of the index arrays.
    """

    axes: tuple[int, ...]
    wrapped: tuple[bool, ...]
    place: int
    unknown: tuple[bool, ...]
    bounds: Bounds
    batch: tuple[int, ...] = ()
    along: tuple[int, ...] = ()

    def offset_dims(self, ndim: int, index_ndim: int) -> tuple[int, ...]:
        """Axes of the result that belong to the operand of `ndim` axes."""
        total = ndim - len(self.axes) + index_ndim
        taken = range(self.place, self.place + index_ndim)
        return tuple(axis for axis in range(total) if axis not in taken)


def get_item(x: Array, index: Any, bounds: Bounds = READ) -> Array:
    """Return `x[index]`; `bounds` say what is read out of bounds."""
    if has_truth(index):
        shape, index = replace_truths(x.shape, index)
        x = reshape(x, shape)
    plan = parse(x.shape, index, bounds)
    shape = _result_shape(plan)
    if plan.empty:
        return nothing(x, shape, bounds)
    if not plan.arrays:
        return windows.read_as(x, *plan.starts, window=plan.window, shape=shape, bounds=bounds)
    gather = _gather_of(plan, bounds)
    part = windows.read(x, *plan.starts, window=plan.window)
    part = _gather(part, *[plan.arrays[axis] for axis in gather.axes], gather=gather)
    return reshape(part, shape)


def _gather_of(plan: Plan, bounds: Bounds) -> Gather:
    axes = tuple(sorted(plan.arrays))
    entries = [entry for entry in plan.layout if entry != ("new",)]
    place = entries.index(("arrays",))
    wrapped, unknown = ([axis in of for axis in axes] for of in (plan.wrap, plan.unknown))
    pairs = _batch_of(plan)
    batch, along = tuple(pairs), tuple(pairs.values())
    return Gather(axes, tuple(wrapped), place, tuple(unknown), bounds, batch, along)


def _batch_of(plan: Plan) -> dict[int, int]:
    """Return the axes whose index arrays count, by axis of the index arrays; not all axes."""
    ndim, found = len(_index_shape(plan)), dict[int, int]()
    for axis in sorted(plan.counting):
        shape = plan.arrays[axis].shape
        place = ndim - len(shape) + shape.index(max(shape))
        if place not in found.values() and len(found) + 1 < len(plan.arrays):
            found[axis] = place
    return found


def _index_shape(plan: Plan) -> tuple[int, ...]:
    return broadcast_shape("indexing", *[index.shape for index in plan.arrays.values()])


def _result_shape(plan: Plan) -> tuple[int, ...]:
    sizes = plan.window.shape
    shape: list[int] = []
    for entry in plan.layout:
        if entry[0] == "new":
            shape.append(1)
        elif entry[0] == "axis":
            shape.append(sizes[entry[1]])
        else:
            shape.extend(_index_shape(plan))
    return tuple(shape)


def _columns(x: Array, indices: tuple[Array, ...], gather: Gather) -> list[Array]:
    """Return the index arrays as int64 of one shape, negative ones counted from the end."""
    shape = broadcast_shape("indexing", *[index.shape for index in indices])
    columns = []
    for index, axis, wrapped in zip(indices, gather.axes, gather.wrapped, strict=True):
        column = wide_index(index)
        column = wrap_negative(column, x.shape[axis]) if wrapped else column
        columns.append(broadcast(column, shape))
    return columns


def _vectors(columns: list[Array]) -> Array:
    """Return index arrays as components of a last axis."""
    shape = columns[0].shape
    columns = [reshape(column, (*shape, 1)) for column in columns]
    if len(columns) == 1:
        return columns[0]
    return apply(ops.concatenate, *columns, dimension=len(shape))


@compound
def _gather(x: Array, *indices: Array, gather: Gather) -> Array:
    columns = _columns(x, indices, gather)
    index_shape = columns[0].shape
    if _without_elements(x, gather):
        rest = [size for axis, size in enumerate(x.shape) if axis not in gather.axes]
        shape = (*rest[: gather.place], *index_shape, *rest[gather.place :])
        return nothing(x, shape, gather.bounds)
    sizes = tuple(1 if axis in gather.axes else size for axis, size in enumerate(x.shape))
    offsets = gather.offset_dims(x.ndim, len(index_shape))
    searched = tuple(axis for axis in gather.axes if axis not in gather.batch)
    found = apply(
        ops.gather,
        x,
        _vectors([columns[gather.axes.index(axis)] for axis in searched]),
        offset_dims=offsets,
        collapsed_slice_dims=searched,
        start_index_map=searched,
        index_vector_dim=len(index_shape),
        slice_sizes=sizes,
        operand_batching_dims=gather.batch,
        start_indices_batching_dims=gather.along,
    )
    if not gather.bounds.guards or not any(gather.unknown):
        return found
    asked = [i for i, unknown in enumerate(gather.unknown) if unknown]
    inside = is_inside([columns[i] for i in asked], [x.shape[gather.axes[i]] for i in asked])
    shape = tuple(1 if axis in offsets else n for axis, n in enumerate(found.shape))
    return filled(found, inside, shape, gather.bounds.fill)


def _without_elements(x: Array, gather: Gather) -> bool:
    """Tell whether an axis that is indexed is empty: then nothing can be taken from it."""
    return 0 in [x.shape[axis] for axis in gather.axes]


def nothing(x: Array, shape: tuple[int, ...], bounds: Bounds) -> Array:
    """Return the result of reading an empty axis."""
    if 0 not in shape and (bounds.raises or not bounds.guards):
        raise ArrayIndexError(
            f"index out of bounds: an axis of shape {x.shape} has no elements",
            mend='give no indices of an empty axis, or x.at[index].get(mode="fill")',
        )
    return broadcast(filling(x.dtype, bounds.fill), shape)


@compound
def _scatter(
    x: Array, updates: Array, *indices: Array, gather: Gather, combiner: str, unique: bool
) -> Array:
    if _without_elements(x, gather):
        return x
    columns = _columns(x, indices, gather)
    if gather.bounds.mode == "clip":
        pairs = zip(columns, gather.axes, strict=True)
        columns = [clipped(column, x.shape[axis]) for column, axis in pairs]
    index_ndim = columns[0].ndim
    return apply(
        ops.scatter,
        x,
        _vectors(columns),
        updates,
        combiner=combiner,
        update_window_dims=gather.offset_dims(x.ndim, index_ndim),
        inserted_window_dims=gather.axes,
        scatter_dims_to_operand_dims=gather.axes,
        index_vector_dim=index_ndim,
        unique_indices=unique,
    )


def update_item(
    x: Array,
    index: Any,
    value: ArrayLike,
    combiner: str = REPLACE,
    *,
    bounds: Bounds = WRITE,
    unique: bool = False,
) -> Array:
    """Return `x` with `x[index]` replaced by, or combined with, `value`.

    `unique` is the caller's promise that no index occurs twice.
    """
    if has_truth(index):
        shape, index = replace_truths(x.shape, index)
        inner = reshape(x, shape)
        updated = update_item(inner, index, value, combiner, bounds=bounds, unique=unique)
        return reshape(updated, x.shape)
    update = _as_update(x, value)
    if is_single_mask(index):
        mask = as_array(mask_of(index))
        if mask.shape == x.shape[: mask.ndim] and update.ndim <= x.ndim - mask.ndim:
            return _update_where(x, mask, update, combiner=combiner)
    if is_computed_diagonal(x, index):
        return _update_diagonal(x, _fit(update, x.shape[:1]), combiner)
    plan = parse(x.shape, index, bounds)
    update = _fit(update, _result_shape(plan))
    if plan.empty:
        return x._snapshot()
    if not plan.arrays:
        return _update_window(x, update, *plan.starts, window=plan.window, combiner=combiner)
    gather = _gather_of(plan, bounds)
    indices = [plan.arrays[axis] for axis in gather.axes]
    part = windows.read(x, *plan.starts, window=plan.window)
    update = reshape(update, _without_new_axes(plan))
    part = _scatter(part, update, *indices, gather=gather, combiner=combiner, unique=unique)
    return windows.write(x, part, *plan.starts, window=plan.window)


def _as_update(x: Array, value: ArrayLike) -> Array:
    if weak_class(value) is not None:
        return scalar(value, x.dtype)
    return as_written(value, x.dtype, place_beside(x))


def mask_of(index: Any) -> Any:
    """Return the index without a tuple around it."""
    return index[0] if isinstance(index, tuple) and len(index) == 1 else index


def is_single_mask(index: Any) -> bool:
    """Tell whether an index is one array of truth values."""
    index = mask_of(index)
    return isinstance(index, np.ndarray | Array) and index.dtype.kind == "b"


@compound
def _update_where(x: Array, mask: Array, update: Array, *, combiner: str) -> Array:
    spread = reshape(mask, mask.shape + (1,) * (x.ndim - mask.ndim))
    rest = x.shape[mask.ndim :]
    return _choice(x, broadcast(spread, x.shape), _fit(update, rest), combiner)


def _update_diagonal(x: Array, update: Array, combiner: str) -> Array:
    rows, columns = (apply(ops.iota, shape=x.shape, dtype=_INT64, dimension=i) for i in (0, 1))
    column = reshape(update, (*update.shape, 1))
    return _choice(x, compare(rows, columns, "EQ"), column, combiner)


def _choice(x: Array, places: Array, update: Array, combiner: str) -> Array:
    update = broadcast(update, x.shape)
    if combiner != REPLACE:
        update = apply(_COMBINERS[combiner], x, update)
    return select(places, update, x)


def _fit(update: Array, shape: tuple[int, ...]) -> Array:
    """Broadcast a value to the part that it is stored in; leading axes of size one may go."""
    extra = update.ndim - len(shape)
    if extra > 0 and all(size == 1 for size in update.shape[:extra]):
        update = reshape(update, update.shape[extra:])
    tail = shape[len(shape) - update.ndim :]
    if update.ndim > len(shape) or any(
        size not in (1, wanted) for size, wanted in zip(update.shape, tail, strict=True)
    ):
        raise ShapeError(
            f"cannot store a value of shape {update.shape} in a part of shape {shape}",
            mend="give a value that broadcasts to the shape of the part",
        )
    return broadcast(update, shape)


def _without_new_axes(plan: Plan) -> tuple[int, ...]:
    layout = [entry for entry in plan.layout if entry != ("new",)]
    return _result_shape(Plan(plan.window, arrays=plan.arrays, layout=layout))


@compound
def _update_window(x: Array, update: Array, *starts: Array, window: Window, combiner: str) -> Array:
    update = reshape(update, window.shape)
    if combiner != REPLACE:
        current = windows.read(x, *starts, window=window)
        update = apply(_COMBINERS[combiner], current, update)
    return windows.write(x, update, *starts, window=window)
