"""Taking elements along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer import ops
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import (
    as_array,
    broadcast,
    broadcast_shape,
    convert,
    holds_arrays,
    host_array,
    normalize_axis,
    reshape,
)
from tracer.array.dispatch import apply, compound
from tracer.errors import ArgumentError, ShapeError, shown
from tracer.numpy.bounds import (
    INDEX_DTYPE,
    TAKE,
    TRUSTED,
    Bounds,
    bounds_of,
    clipped,
    filled,
    is_inside,
    wide_index,
    wrap_negative,
)
from tracer.numpy.index_parser import checked_indices, require_integers
from tracer.numpy.indexing import get_item, nothing
from tracer.numpy.ufunc import full_like


def take(
    a: ArrayLike,
    indices: ArrayLike,
    axis: int | None = None,
    *,
    mode: str | None = "raise",
    fill_value: Any = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
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
    mode : {"raise", "clip", "wrap", "fill", "promise_in_bounds"}
        What happens out of bounds. "raise", or None: indices whose values are known raise, traced
        ones read `fill_value`. "clip" takes the nearest element (negative indices are out of
        bounds then, as in NumPy), "wrap" counts around, "fill" reads `fill_value`;
        "promise_in_bounds" is your word that there are none.
    fill_value : number, optional
        By default NaN, the smallest signed or the largest unsigned integer, True. With it "fill"
        is the default.
    unique_indices, indices_are_sorted : bool
        Taken as in JAX, and not needed.

    Returns
    -------
    Array
        The shape of `indices` in place of the axis.

    Raises
    ------
    ArrayIndexError
        An index whose value is known is out of bounds.
    ArgumentError
        The mode is not known.

    Examples
    --------
    >>> import tracer.numpy as tnp
    >>> tnp.take(tnp.array([1.0, 2.0]), tnp.array([0, 7]), mode="fill")
    Array([ 1., nan])
    """
    del unique_indices, indices_are_sorted
    x = as_array(a)
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    number = normalize_axis(axis, x.ndim)
    size = x.shape[number]
    index: Any = as_index(indices) if isinstance(indices, list | tuple) else indices
    if getattr(index, "dtype", None) == np.bool_:
        index = index.astype(np.int64)
    if mode in ("clip", "wrap") and size:
        given = as_array(index)
        index = _clipped(given, size=size) if mode == "clip" else _wrapped(given, size=size)
    bounds = _bounds("take", mode, fill_value, ("clip", "wrap"))
    return get_item(x, (slice(None),) * number + (index,), bounds)


def _bounds(name: str, mode: str | None, fill_value: Any, settled: tuple[str, ...] = ()) -> Bounds:
    """Return the bounds of a mode; those of `settled` modes are met already."""
    if mode is None or mode == "raise":
        return bounds_of(None if fill_value is None else "fill", TAKE, fill_value)
    if fill_value is not None and mode != "fill":
        raise ArgumentError(f"{name}: mode={mode!r} uses no fill_value", mend='give mode="fill"')
    return TRUSTED if mode in settled else bounds_of(mode, TAKE, fill_value)


def as_index(value: Any) -> Any:
    """Return a list of indices as one array, on the host where its items are."""
    if not len(value):
        return np.asarray(value, np.int64)
    if holds_arrays(value):
        return as_array(value)
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ArgumentError(
            f"{shown(value)} is no array of indices: {error}", mend="give rows of one length"
        ) from error


@compound
def _clipped(index: Array, *, size: int) -> Array:
    return clipped(wide_index(index), size)


@compound
def _wrapped(index: Array, *, size: int) -> Array:
    wide = index if index.dtype == np.uint64 else convert(index, INDEX_DTYPE)
    rest = apply(ops.remainder, wide, full_like(wide, size))
    return wrap_negative(convert(rest, INDEX_DTYPE), size)


def take_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    axis: int | None = -1,
    *,
    mode: str | None = None,
    fill_value: Any = None,
) -> Array:
    """Take elements along an axis by indices that differ from element to element.

    Parameters
    ----------
    arr : array_like
        Where to take from.
    indices : array_like of int
        As many axes as `arr`; the other axes broadcast. What `argsort` returns, for one.
    axis : int or None
        The axis; None takes from the flattened array.
    mode : {None, "clip", "fill", "promise_in_bounds"}
        What happens out of bounds, where negative indices count from the end: None raises for
        indices whose values are known, and reads `fill_value` for traced ones; for the others see
        `take`.
    fill_value : number, optional
        See `take`.

    Returns
    -------
    Array, the shape of `indices` (broadcast)
        The elements.

    Raises
    ------
    ArrayIndexError
        An index whose value is known is out of bounds.
    ShapeError
        `indices` has not as many axes as `arr`.
    ArrayIndexError
        The indices are no integers.
    """
    bounds = _bounds("take_along_axis", mode, fill_value)
    x, index = as_array(arr), as_array(indices)
    require_integers(index)
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    if x.ndim != index.ndim:
        raise ShapeError(
            f"take_along_axis: indices of shape {index.shape} for an array of shape {x.shape}",
            mend="give as many axes of indices as of the array",
        )
    number = normalize_axis(axis, x.ndim)
    known = _known(indices, bounds)
    if bounds.raises and known is not None:
        checked_indices(known, number, x.shape[number])
        bounds = TRUSTED
    rest = [(*shape[:number], 1, *shape[number + 1 :]) for shape in (x.shape, index.shape)]
    shape = list(broadcast_shape("take_along_axis", *rest))
    shape[number] = index.shape[number]
    if x.shape[number] == 0 or 0 in shape:
        return nothing(x, tuple(shape), bounds)
    return _take_along(x, index, axis=number, shape=tuple(shape), bounds=bounds)


def _known(indices: ArrayLike, bounds: Bounds) -> np.ndarray[Any, Any] | None:
    """Return the values of indices if they can be read."""
    if isinstance(indices, Array):
        return indices._host("an index") if bounds.is_known(indices) else None
    return (
        None if isinstance(indices, list | tuple) and holds_arrays(indices) else host_array(indices)
    )


@compound
def _take_along(
    x: Array, index: Array, *, axis: int, shape: tuple[int, ...], bounds: Bounds
) -> Array:
    index = broadcast(wrap_negative(wide_index(index), x.shape[axis]), shape)
    rest = tuple(i for i in range(x.ndim) if i != axis)
    found = apply(
        ops.gather,
        broadcast(x, (*shape[:axis], x.shape[axis], *shape[axis + 1 :])),
        reshape(index, (*shape, 1)),
        offset_dims=(),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
        index_vector_dim=x.ndim,
        slice_sizes=(1,) * x.ndim,
        operand_batching_dims=rest,
        start_indices_batching_dims=rest,
    )
    if not bounds.guards:
        return found
    return filled(found, is_inside([index], [x.shape[axis]]), shape, bounds.fill)
