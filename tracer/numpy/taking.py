"""Taking elements along an axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tracer import ops
from tracer.errors import ArgumentError, ShapeError
from tracer.numpy.base import ArrayBase, ArrayLike
from tracer.numpy.convert import (
    as_array,
    broadcast,
    broadcast_shape,
    convert,
    normalize_axis,
    reshape,
    scalar,
)
from tracer.numpy.dispatch import apply, compound
from tracer.numpy.window import INDEX_DTYPE, wrap_negative

if TYPE_CHECKING:
    from tracer.numpy.array import Array
from tracer.numpy.indexing import get_item


def take(
    a: ArrayLike, indices: ArrayLike, axis: int | None = None, *, mode: str = "raise"
) -> Array:
    """Take elements along an axis.

    Parameters
    ----------
    a : array_like
        Where to take from.
    indices : array_like of int
        What to take; negative ones count from the end.
    axis : int, optional
        The axis; by default `a` is flattened.
    mode : {"raise", "clip", "wrap"}
        What happens out of bounds. Indices in device arrays cannot raise and are clamped.

    Returns
    -------
    Array
        The shape of `indices` in place of the axis.
    """
    x = as_array(a)
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    number = normalize_axis(axis, x.ndim)
    if mode == "raise":
        index: Any = indices
    elif mode == "clip":
        index = _clipped(as_array(indices), size=x.shape[number])
    elif mode == "wrap":
        index = as_array(indices) % x.shape[number]
    else:
        raise ArgumentError(f"mode {mode!r} is not known", mend="use raise, clip or wrap")
    if isinstance(index, list | tuple):
        index = np.asarray(index, np.int64) if not index else as_index(index)
    return get_item(x, (slice(None),) * number + (index,))


def as_index(value: Any) -> Any:
    """Return a list of indices as one array, on the host where its items are."""
    holds_arrays = any(isinstance(item, ArrayBase) for item in value)
    return as_array(value) if holds_arrays else np.asarray(value)


@compound
def _clipped(index: Array, *, size: int) -> Array:
    wide = convert(index, INDEX_DTYPE)
    bounds = [broadcast(scalar(bound, INDEX_DTYPE), wide.shape) for bound in (0, size - 1)]
    return apply(ops.clamp, bounds[0], wide, bounds[1])


def take_along_axis(arr: ArrayLike, indices: ArrayLike, axis: int | None = -1) -> Array:
    """Take elements along an axis by indices that differ from place to place.

    Parameters
    ----------
    arr : array_like
        Where to take from.
    indices : array_like of int
        As many axes as `arr`; the other axes broadcast. What `argsort` returns, for one.
    axis : int or None
        The axis; None takes from the flattened array.

    Returns
    -------
    Array, the shape of `indices` (broadcast)
        The elements.
    """
    x, index = as_array(arr), as_array(indices)
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    if x.ndim != index.ndim:
        raise ShapeError(
            f"take_along_axis: indices of shape {index.shape} for an array of shape {x.shape}",
            mend="give as many axes of indices as of the array",
        )
    number = normalize_axis(axis, x.ndim)
    rest = [(*shape[:number], 1, *shape[number + 1 :]) for shape in (x.shape, index.shape)]
    shape = list(broadcast_shape("take_along_axis", *rest))
    shape[number] = index.shape[number]
    return _take_along(x, index, axis=number, shape=tuple(shape))


@compound
def _take_along(x: Array, index: Array, *, axis: int, shape: tuple[int, ...]) -> Array:
    index = wrap_negative(convert(index, INDEX_DTYPE), x.shape[axis])
    vectors = reshape(broadcast(index, shape), (*shape, 1))
    rest = tuple(i for i in range(x.ndim) if i != axis)
    return apply(
        ops.gather,
        broadcast(x, (*shape[:axis], x.shape[axis], *shape[axis + 1 :])),
        vectors,
        offset_dims=(),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
        index_vector_dim=x.ndim,
        slice_sizes=(1,) * x.ndim,
        operand_batching_dims=rest,
        start_indices_batching_dims=rest,
    )
