"""Slices at fixed and at computed places. Computed places are clamped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracer import ops
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, convert, normalize_axis, reshape
from tracer.array.dispatch import apply, compound
from tracer.errors import ArrayIndexError, DTypeError, ShapeError
from tracer.lax.operands import integer, integers, of_one_dtype, sequence
from tracer.numpy.ufunc import compare, full_like

_INT64 = np.dtype("int64")


def slice(
    operand: ArrayLike,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Array:
    """Take every so manyth element between fixed bounds.

    Parameters
    ----------
    operand : array_like
        The array.
    start_indices, limit_indices : sequence of int
        For each axis the first element, and the one behind the last.
    strides : sequence of int, optional
        Distances; 1 by default.

    Raises
    ------
    ShapeError
        Bounds that are not within the array.
    """
    x = as_array(operand)
    steps = (1,) * x.ndim if strides is None else integers("slice", "strides", strides, x.ndim)
    return _slice(
        x,
        start=integers("slice", "start_indices", start_indices, x.ndim),
        limit=integers("slice", "limit_indices", limit_indices, x.ndim),
        strides=steps,
    )


@compound
def _slice(x: Array, **params: tuple[int, ...]) -> Array:
    return apply(ops.slice, x, **params)


def slice_in_dim(
    operand: ArrayLike,
    start_index: int | None,
    limit_index: int | None,
    stride: int = 1,
    axis: int = 0,
) -> Array:
    """Take every so manyth element of one axis.

    Parameters
    ----------
    operand : array_like
        The array.
    start_index, limit_index : int or None
        The first element, and the one behind the last; None for the ends. Negative ones count
        from the end.
    stride : int
        Their distance.
    axis : int
        The axis.

    Examples
    --------
    >>> import tracer.lax as lax
    >>> import tracer.numpy as tnp
    >>> lax.slice_in_dim(tnp.arange(6), 1, -1, 2).tolist()
    [1, 3]
    """
    x = as_array(operand)
    place = normalize_axis(axis, x.ndim)
    size = x.shape[place]
    start, limit, strides = [0] * x.ndim, list(x.shape), [1] * x.ndim
    start[place] = _bound(start_index, 0, size)
    limit[place] = _bound(limit_index, size, size)
    strides[place] = integer("slice_in_dim", "stride", stride)
    return slice(x, start, limit, strides)


def _bound(index: int | None, default: int, size: int) -> int:
    if index is None:
        return default
    number = integer("slice_in_dim", "a bound", index)
    return number + size if number < 0 else number


def index_in_dim(operand: ArrayLike, index: int, axis: int = 0, keepdims: bool = True) -> Array:
    """Take one element of an axis, at a fixed place.

    Parameters
    ----------
    operand : array_like
        The array.
    index : int
        The place; negative ones count from the end.
    axis : int
        The axis.
    keepdims : bool
        Keep the axis, with one element.

    Raises
    ------
    ArrayIndexError
        There is no such place.
    """
    x = as_array(operand)
    place = normalize_axis(axis, x.ndim)
    number, size = integer("index_in_dim", "index", index), x.shape[place]
    if not -size <= number < size:
        raise ArrayIndexError(
            f"lax.index_in_dim: index {number} is outside of axis {place} with size {size}",
            mend=f"give an index from {-size} to {size - 1}" if size else "the axis is empty",
        )
    first = number % size
    row = slice_in_dim(x, first, first + 1, 1, place)
    return row if keepdims else _without(row, place)


def _without(x: Array, axis: int) -> Array:
    return reshape(x, x.shape[:axis] + x.shape[axis + 1 :])


def wide(indices: Array) -> Array:
    """Return indices of a dtype that holds every size of an axis, and negative numbers."""
    if indices.dtype == np.uint64:
        largest = full_like(indices, np.iinfo(np.int64).max)
        indices = apply(ops.minimum, indices, largest)
    is_enough = indices.dtype.kind == "i" and indices.dtype.itemsize >= 4
    return indices if is_enough else convert(indices, _INT64)


def alike(starts: Sequence[Array]) -> list[Array]:
    """Return starts in one dtype."""
    found = [wide(start) for start in starts]
    if len({start.dtype for start in found}) > 1:
        return [convert(start, _INT64) for start in found]
    return found


def dynamic_slice(
    operand: ArrayLike,
    start_indices: ArrayLike | Sequence[ArrayLike],
    slice_sizes: Sequence[int],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """Take a window at a computed place, moved inside where it is not.

    Parameters
    ----------
    operand : array_like
        The array.
    start_indices : sequence of integer scalars, or an array of them
        For each axis the first element. Negative ones count from the end.
    slice_sizes : sequence of int
        The window.
    allow_negative_indices : bool or sequence of bool
        Let negative starts count from the end; else they are clamped to 0.

    Returns
    -------
    Array, shape `slice_sizes`
        The window.

    Raises
    ------
    ShapeError, DTypeError
        A window larger than the array, or starts that do not fit.

    Examples
    --------
    >>> import tracer.lax as lax
    >>> import tracer.numpy as tnp
    >>> lax.dynamic_slice(tnp.arange(6), (tnp.array(5),), (2,)).tolist()
    [4, 5]
    """
    x = as_array(operand)
    starts = _starts("dynamic_slice", start_indices, x.ndim)
    return _dynamic_slice(
        x,
        *starts,
        sizes=integers("dynamic_slice", "slice_sizes", slice_sizes, x.ndim),
        counts_back=_flags("dynamic_slice", allow_negative_indices, x.ndim),
    )


def _starts(name: str, starts: Any, ndim: int) -> tuple[Array, ...]:
    if isinstance(starts, Array | np.ndarray):
        given = as_array(starts)
        if given.ndim != 1:
            raise ShapeError(
                f"lax.{name}: start_indices is {given.type}", mend="give one start for each axis"
            )
        found = [given[i] for i in range(given.shape[0])]
    else:
        found = [as_array(start) for start in sequence(name, "start_indices", starts)]
    if len(found) != ndim or any(start.shape for start in found):
        raise ShapeError(
            f"lax.{name}: {len(found)} starts for {ndim} axes",
            mend="give one integer scalar for each axis",
        )
    for start in found:
        if start.dtype.kind not in "iu":
            raise DTypeError(f"lax.{name}: a start is {start.type}", mend="give integers")
    return tuple(found)


def _flags(name: str, given: bool | Sequence[bool], ndim: int) -> tuple[bool, ...]:
    if isinstance(given, bool):
        return (given,) * ndim
    flags = tuple(map(bool, sequence(name, "allow_negative_indices", given)))
    if len(flags) != ndim:
        raise ShapeError(
            f"lax.{name}: allow_negative_indices has {len(flags)} entries, the array {ndim} axes",
            mend="give one truth value, or one for each axis",
        )
    return flags


def _counted(starts: Sequence[Array], x: Array, counts_back: tuple[bool, ...]) -> list[Array]:
    """Let negative starts count from the end."""
    rows = zip(alike(starts), x.shape, counts_back, strict=True)
    return [_from_end(start, size) if back else start for start, size, back in rows]


def _from_end(start: Array, size: int) -> Array:
    is_negative = compare(start, full_like(start, 0), "LT")
    return apply(ops.select, is_negative, apply(ops.add, start, full_like(start, size)), start)


@compound
def _dynamic_slice(
    x: Array, *starts: Array, sizes: tuple[int, ...], counts_back: tuple[bool, ...]
) -> Array:
    return apply(ops.dynamic_slice, x, *_counted(starts, x, counts_back), sizes=sizes)


def dynamic_slice_in_dim(
    operand: ArrayLike,
    start_index: ArrayLike,
    slice_size: int,
    axis: int = 0,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """Take a range of one axis at a computed place, moved inside where it is not.

    Parameters
    ----------
    operand : array_like
        The array.
    start_index : integer scalar
        The first element; negative ones count from the end.
    slice_size : int
        How many.
    axis : int
        The axis.
    allow_negative_indices : bool
        See `dynamic_slice`.
    """
    x = as_array(operand)
    place = normalize_axis(axis, x.ndim)
    sizes = list(x.shape)
    sizes[place] = integer("dynamic_slice_in_dim", "slice_size", slice_size)
    return dynamic_slice(
        x,
        _along(x, place, start_index),
        sizes,
        allow_negative_indices=allow_negative_indices,
    )


def _along(x: Array, axis: int, start: ArrayLike) -> list[ArrayLike]:
    starts: list[ArrayLike] = [0] * x.ndim
    starts[axis] = start
    return starts


def dynamic_index_in_dim(
    operand: ArrayLike,
    index: ArrayLike,
    axis: int = 0,
    keepdims: bool = True,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """Take one element of an axis at a computed place, the nearest one where it is outside.

    Parameters
    ----------
    operand : array_like
        The array.
    index : integer scalar
        The place; negative ones count from the end.
    axis : int
        The axis.
    keepdims : bool
        Keep the axis, with one element.
    allow_negative_indices : bool
        See `dynamic_slice`.
    """
    x = as_array(operand)
    row = dynamic_slice_in_dim(x, index, 1, axis, allow_negative_indices=allow_negative_indices)
    return row if keepdims else _without(row, normalize_axis(axis, x.ndim))


def dynamic_update_slice(
    operand: ArrayLike,
    update: ArrayLike,
    start_indices: ArrayLike | Sequence[ArrayLike],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """Replace a window at a computed place, moved inside where it is not.

    Parameters
    ----------
    operand : array_like
        The array.
    update : array_like
        What to put there: of the same dtype and rank.
    start_indices : sequence of integer scalars, or an array of them
        For each axis the first element. Negative ones count from the end.
    allow_negative_indices : bool or sequence of bool
        See `dynamic_slice`.

    Returns
    -------
    Array
        A new array; the operand is not written.

    Raises
    ------
    ShapeError, DTypeError
        An update that does not fit.

    Examples
    --------
    >>> import tracer.lax as lax
    >>> import tracer.numpy as tnp
    >>> lax.dynamic_update_slice(tnp.zeros(4), tnp.ones(2), (-2,)).tolist()
    [0.0, 0.0, 1.0, 1.0]
    """
    x, new = of_one_dtype("dynamic_update_slice", operand, update)
    return _dynamic_update(
        x,
        new,
        *_starts("dynamic_update_slice", start_indices, x.ndim),
        counts_back=_flags("dynamic_update_slice", allow_negative_indices, x.ndim),
    )


@compound
def _dynamic_update(
    x: Array, update: Array, *starts: Array, counts_back: tuple[bool, ...]
) -> Array:
    return apply(ops.dynamic_update_slice, x, update, *_counted(starts, x, counts_back))


def dynamic_update_slice_in_dim(
    operand: ArrayLike,
    update: ArrayLike,
    start_index: ArrayLike,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """Replace a range of one axis at a computed place; see `dynamic_update_slice`.

    Parameters
    ----------
    operand, update : array_like
        Arrays of one dtype; their other axes are equal.
    start_index : integer scalar
        The first element.
    axis : int
        The axis.
    allow_negative_indices : bool
        See `dynamic_slice`.
    """
    x, new = of_one_dtype("dynamic_update_slice_in_dim", operand, update)
    return dynamic_update_slice(
        x,
        new,
        _along(x, normalize_axis(axis, x.ndim), start_index),
        allow_negative_indices=allow_negative_indices,
    )


def dynamic_update_index_in_dim(
    operand: ArrayLike,
    update: ArrayLike,
    index: ArrayLike,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """Replace one element of an axis at a computed place; see `dynamic_update_slice`.

    Parameters
    ----------
    operand, update : array_like
        Arrays of one dtype. The update may leave the axis out.
    index : integer scalar
        The place.
    axis : int
        The axis.
    allow_negative_indices : bool
        See `dynamic_slice`.
    """
    x, new = of_one_dtype("dynamic_update_index_in_dim", operand, update)
    place = normalize_axis(axis, x.ndim)
    if new.ndim + 1 == x.ndim:
        new = reshape(new, (*new.shape[:place], 1, *new.shape[place:]))
    return dynamic_update_slice_in_dim(
        x, new, index, place, allow_negative_indices=allow_negative_indices
    )
