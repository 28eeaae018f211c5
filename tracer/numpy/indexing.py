"""Indexing: what `x[index]`, `x[index] = y` and `x.at[index]` do, and take.

Basic indices read a window (a slice, or a dynamic slice); index arrays become one gather or
scatter. Of indices in device arrays those out of bounds are clamped when reading and dropped when
writing; indices known now are checked and raise, as in NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tracer import ops
from tracer.errors import ArrayIndexError, ShapeError
from tracer.ir import Op
from tracer.numpy import window as windows
from tracer.numpy.base import ArrayBase, ArrayLike
from tracer.numpy.convert import (
    as_array,
    broadcast,
    broadcast_shape,
    convert,
    reshape,
    scalar,
)
from tracer.numpy.dispatch import apply, compound
from tracer.numpy.following import place_beside
from tracer.numpy.index_parser import Plan, has_truth, parse, replace_truths
from tracer.numpy.promotion import weak_class
from tracer.numpy.ufunc import select
from tracer.numpy.window import INDEX_DTYPE, Window, wrap_negative

if TYPE_CHECKING:
    from tracer.numpy.array import Array

_COMBINERS: dict[str, Op] = {
    "add": ops.add,
    "multiply": ops.multiply,
    "minimum": ops.minimum,
    "maximum": ops.maximum,
}
REPLACE = "replace"


@dataclass(frozen=True)
class Gather:
    """Where the axes of index arrays are, in the operand and in the result.

    Attributes
    ----------
    axes : tuple of int
        Axes of the operand that index arrays stand for.
    wrapped : tuple of bool
        Whether each of them may hold negative indices.
    place : int
        First axis of the result that belongs to the index arrays.
    """

    axes: tuple[int, ...]
    wrapped: tuple[bool, ...]
    place: int

    def offset_dims(self, ndim: int, index_ndim: int) -> tuple[int, ...]:
        """Axes of the result that belong to the operand of `ndim` axes."""
        total = ndim - len(self.axes) + index_ndim
        taken = range(self.place, self.place + index_ndim)
        return tuple(axis for axis in range(total) if axis not in taken)


def get_item(x: Array, index: Any) -> Array:
    """Return `x[index]`."""
    if has_truth(index):
        shape, index = replace_truths(x.shape, index)
        x = reshape(x, shape)
    plan = parse(x.shape, index)
    shape = _result_shape(plan)
    if not plan.arrays:
        return windows.read_as(x, *plan.starts, window=plan.window, shape=shape)
    gather = _gather_of(plan)
    part = windows.read(x, *plan.starts, window=plan.window)
    part = _gather(part, *[plan.arrays[axis] for axis in gather.axes], gather=gather)
    return reshape(part, shape)


def _gather_of(plan: Plan) -> Gather:
    axes = tuple(sorted(plan.arrays))
    entries = [entry for entry in plan.layout if entry != ("new",)]
    place = entries.index(("arrays",))
    return Gather(axes, tuple(axis in plan.wrap for axis in axes), place)


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


def _index_vectors(x: Array, indices: tuple[Array, ...], gather: Gather) -> Array:
    """Return the index arrays, broadcast, as components of a last axis."""
    shape = broadcast_shape("indexing", *[index.shape for index in indices])
    columns = []
    for index, axis, wrapped in zip(indices, gather.axes, gather.wrapped, strict=True):
        column = convert(index, INDEX_DTYPE)
        column = wrap_negative(column, x.shape[axis]) if wrapped else column
        columns.append(reshape(broadcast(column, shape), (*shape, 1)))
    if len(columns) == 1:
        return columns[0]
    return apply(ops.concatenate, *columns, dimension=len(shape))


@compound
def _gather(x: Array, *indices: Array, gather: Gather) -> Array:
    vectors = _index_vectors(x, indices, gather)
    if _without_elements(x, vectors, gather):
        return _nothing(x, vectors, gather)
    sizes = tuple(1 if axis in gather.axes else size for axis, size in enumerate(x.shape))
    return apply(
        ops.gather,
        x,
        vectors,
        offset_dims=gather.offset_dims(x.ndim, vectors.ndim - 1),
        collapsed_slice_dims=gather.axes,
        start_index_map=gather.axes,
        index_vector_dim=vectors.ndim - 1,
        slice_sizes=sizes,
    )


def _without_elements(x: Array, vectors: Array, gather: Gather) -> bool:
    """Tell whether an axis that is indexed is empty: then nothing can be taken from it."""
    if 0 not in [x.shape[axis] for axis in gather.axes]:
        return False
    if vectors.size:
        raise ArrayIndexError(
            f"index out of bounds: an axis of shape {x.shape} has no elements",
            mend="give no indices of an empty axis",
        )
    return True


def _nothing(x: Array, vectors: Array, gather: Gather) -> Array:
    rest = [size for axis, size in enumerate(x.shape) if axis not in gather.axes]
    shape = (*rest[: gather.place], *vectors.shape[:-1], *rest[gather.place :])
    return broadcast(scalar(0, x.dtype), shape)


@compound
def _scatter(
    x: Array, updates: Array, *indices: Array, gather: Gather, combiner: str, unique: bool
) -> Array:
    vectors = _index_vectors(x, indices, gather)
    if _without_elements(x, vectors, gather):
        return x
    return apply(
        ops.scatter,
        x,
        vectors,
        updates,
        combiner=combiner,
        update_window_dims=gather.offset_dims(x.ndim, vectors.ndim - 1),
        inserted_window_dims=gather.axes,
        scatter_dims_to_operand_dims=gather.axes,
        index_vector_dim=vectors.ndim - 1,
        unique_indices=unique,
    )


def update_item(x: Array, index: Any, value: ArrayLike, combiner: str = REPLACE) -> Array:
    """Return `x` with `x[index]` replaced by, or combined with, `value`."""
    if has_truth(index):
        shape, index = replace_truths(x.shape, index)
        return reshape(update_item(reshape(x, shape), index, value, combiner), x.shape)
    update = _as_update(x, value)
    if _is_single_mask(index):
        mask = as_array(index)
        if mask.shape == x.shape[: mask.ndim] and update.ndim <= x.ndim - mask.ndim:
            return _update_where(x, mask, update, combiner=combiner)
    plan = parse(x.shape, index)
    update = _fit(update, _result_shape(plan))
    if not plan.arrays:
        return _update_window(x, update, *plan.starts, window=plan.window, combiner=combiner)
    gather = _gather_of(plan)
    indices = [plan.arrays[axis] for axis in gather.axes]
    part = windows.read(x, *plan.starts, window=plan.window)
    update = reshape(update, _without_new_axes(plan))
    part = _scatter(part, update, *indices, gather=gather, combiner=combiner, unique=False)
    return windows.write(x, part, *plan.starts, window=plan.window)


def _as_update(x: Array, value: ArrayLike) -> Array:
    if weak_class(value) is not None:
        return scalar(value, x.dtype)
    return convert(as_array(value, place_beside(x)), x.dtype)


def _is_single_mask(index: Any) -> bool:
    if isinstance(index, tuple):
        index = index[0] if len(index) == 1 else None
    return isinstance(index, np.ndarray | ArrayBase) and index.dtype.kind == "b"


@compound
def _update_where(x: Array, mask: Array, update: Array, *, combiner: str) -> Array:
    spread = reshape(mask, mask.shape + (1,) * (x.ndim - mask.ndim))
    rest = x.shape[mask.ndim :]
    update = broadcast(_fit(update, rest), x.shape)
    if combiner != REPLACE:
        update = apply(_COMBINERS[combiner], x, update)
    return select(broadcast(spread, x.shape), update, x)


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
    return _result_shape(Plan(plan.window, [], plan.arrays, set(), layout))


@compound
def _update_window(x: Array, update: Array, *starts: Array, window: Window, combiner: str) -> Array:
    update = reshape(update, window.shape)
    if combiner != REPLACE:
        current = windows.read(x, *starts, window=window)
        update = apply(_COMBINERS[combiner], current, update)
    return windows.write(x, update, *starts, window=window)


class IndexUpdate:
    """Updates of one part of an array, made by `x.at[index]`; each returns a new array.

    Examples
    --------
    >>> import tracer.numpy as tnp
    >>> x = tnp.zeros(3)
    >>> x.at[1].add(5.0)
    Array([0., 5., 0.])
    """

    __slots__ = ("_array", "_index")

    def __init__(self, array: Array, index: Any) -> None:
        self._array = array
        self._index = index

    def get(self) -> Array:
        """Return the part."""
        return get_item(self._array, self._index)

    def set(self, value: ArrayLike) -> Array:
        """Return the array with the part replaced; of repeated indices one value stays."""
        return update_item(self._array, self._index, value)

    def add(self, value: ArrayLike) -> Array:
        """Return the array with values added to the part; repeated indices add up."""
        return update_item(self._array, self._index, value, "add")

    def subtract(self, value: ArrayLike) -> Array:
        """Return the array with values subtracted from the part."""
        return update_item(self._array, self._index, -as_array(value), "add")

    def multiply(self, value: ArrayLike) -> Array:
        """Return the array with the part multiplied; repeated indices multiply up."""
        return update_item(self._array, self._index, value, "multiply")

    def divide(self, value: ArrayLike) -> Array:
        """Return the array with the part divided."""
        return update_item(self._array, self._index, 1 / as_array(value), "multiply")

    def min(self, value: ArrayLike) -> Array:
        """Return the array with the smaller of part and values."""
        return update_item(self._array, self._index, value, "minimum")

    def max(self, value: ArrayLike) -> Array:
        """Return the array with the larger of part and values."""
        return update_item(self._array, self._index, value, "maximum")


class Indexer:
    """What `x.at` is: takes an index in brackets."""

    __slots__ = ("_array",)

    def __init__(self, array: Array) -> None:
        self._array = array

    def __getitem__(self, index: Any) -> IndexUpdate:
        """Choose the part."""
        return IndexUpdate(self._array, index)
