"""`add.reduceat` and its like: reductions of runs of an axis.

Where the indices are known, the runs are cut into pieces of at most one length, which are gathered
as rows and reduced; what remains of a run is reduced in the same way, until it is one number. That
is O(n) time and memory while the runs overlap little, and sums round as those of `sum` do.
Otherwise each run is a masked reduction of the whole axis: m x n elements, which a memory limit has
computed in slices.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tracer import ops
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, broadcast, convert, normalize_axis, reshape
from tracer.array.dispatch import apply_many, compound
from tracer.array.promotion import Dtype
from tracer.errors import ArgumentError, ArrayIndexError, DTypeError, ShapeError
from tracer.ir import as_dtype
from tracer.numpy.arithmetic import maximum, minimum
from tracer.numpy.bounds import filled, filling, is_inside, looked_at, wide_index
from tracer.numpy.joining import concatenate
from tracer.numpy.ranges import iota
from tracer.numpy.reductions import accumulation_dtype, masked
from tracer.numpy.taking import as_index, take
from tracer.numpy.ufunc import compare
from tracer.ops.reduce import highest, lowest

Reduction = Callable[..., Array]
Runs = np.ndarray[Any, Any]

_SHORTEST_CUT = 32
"""Runs up to here are one piece, however short the others are."""
_OVERLAP = 4
"""Runs are gathered while together they are at most so many times as long as the axis."""


def reduce_runs(
    name: str, over_axis: Reduction, x: Array, indices: ArrayLike, axis: Any, dtype: Dtype
) -> Array:
    """Reduce a[indices[i] : indices[i + 1]] for each i, a[indices[i]] where that is empty.

    Parameters
    ----------
    name : str
        Of the ufunc.
    over_axis : callable
        `(array, axis) -> array`: its reduction. The dtype stays.
    x : Array
        Converted to the dtype of the result.
    indices : array_like of int, one axis
        Starts of the runs, from 0.
    axis : int
        The axis; a tuple of one axis is taken too.
    dtype : dtype
        Of the result.
    """
    number, starts, first = checked_runs(name, x, indices, axis)
    wide = convert(x, accumulation_dtype(dtype)) if name in ("add", "multiply") else x
    size = x.shape[number]
    if first is None:
        found = _by_masks(wide, starts, name=name, over_axis=over_axis, axis=number)
        return convert(found, dtype)
    past = np.maximum(np.append(first[1:], size)[: first.size], first + 1)
    if not first.size or (past - first).sum() > _OVERLAP * size:
        found = _by_masks(wide, starts, name=name, over_axis=over_axis, axis=number)
    else:
        found = _by_pieces(wide, first, past, name=name, over_axis=over_axis, axis=number)
    return convert(found, dtype)


def checked_runs(
    name: str, x: Array, indices: ArrayLike, axis: Any
) -> tuple[int, Array, Runs | None]:
    """Return the number of an axis, the starts of its runs, and what they are where it is known.

    Raises
    ------
    ArrayIndexError
        A start whose value is known is out of bounds.
    ArgumentError, DTypeError, ShapeError
        The array has no axis, `axis` is not one, or the indices are no vector of integers.
    """
    number = _axis(name, x, axis)
    starts = as_index(indices) if isinstance(indices, list | tuple) else indices
    known = looked_at(starts)
    _check(name, starts if known is None else known)
    if known is None:
        return number, as_array(starts), None
    first, size = known.astype(np.int64), x.shape[number]
    bad = first[(first < 0) | (first >= size)]
    if bad.size:
        raise ArrayIndexError(
            f"{name}.reduceat: index {bad[0]} of an axis of {size} elements",
            mend=f"give indices from 0 to {size - 1}" if size else "give no indices",
        )
    return number, as_array(first), first


def _axis(name: str, x: Array, axis: Any) -> int:
    if not x.ndim:
        raise ArgumentError(f"{name}.reduceat of a 0-d array", mend="give an array with axes")
    if isinstance(axis, tuple) and len(axis) == 1:
        (axis,) = axis
    if axis is None or isinstance(axis, tuple):
        raise ArgumentError(f"{name}.reduceat: axis={axis}", mend="give one axis")
    return normalize_axis(axis, x.ndim)


def _check(name: str, indices: Any) -> None:
    if not np.can_cast(indices.dtype, np.int64):
        raise DTypeError(f"{name}.reduceat: indices are {indices.dtype}", mend="give int64")
    if indices.ndim != 1:
        raise ShapeError(
            f"{name}.reduceat: indices of shape {tuple(indices.shape)}", mend="give a vector"
        )


def _by_pieces(x: Array, starts: Runs, past: Runs, *, axis: int, **method: Any) -> Array:
    """Reduce runs in pieces, then what the pieces of each run gave."""
    while True:
        lengths = past - starts
        typical = max(_SHORTEST_CUT, math.ceil(lengths.sum() / lengths.size))
        width = min(int(lengths.max()), typical)
        counts = -(-lengths // width)
        run = np.repeat(np.arange(lengths.size), counts)
        first = np.cumsum(counts) - counts
        begin = starts[run] + width * (np.arange(run.size) - first[run])
        sizes = np.minimum(width, past[run] - begin)
        x = _rows(x, as_array(begin), as_array(sizes), width=width, axis=axis, **method)
        if run.size == lengths.size:
            return x
        # Unheld, XLA computes the row of a piece again for each element that is read of it.
        (x,) = apply_many(ops.optimization_barrier, x)
        starts, past = first, first + counts


@compound
def _rows(x: Array, begin: Array, sizes: Array, *, width: int, axis: int, **method: Any) -> Array:
    """Reduce pieces: `sizes` elements from `begin` on, at most `width`."""
    shape = (begin.shape[0], width)
    steps = iota(shape=shape, dtype=begin.dtype, dimension=1)
    sizes = broadcast(reshape(sizes, (shape[0], 1)), shape)
    places = reshape(begin, (shape[0], 1)) + minimum(steps, sizes - 1)
    rows = take(x, places, axis, mode="promise_in_bounds")
    return _reduced(rows, compare(steps, sizes, "LT"), axis=axis, **method)


@compound
def _by_masks(x: Array, starts: Array, *, axis: int, **method: Any) -> Array:
    """Reduce the whole axis for each run, without what is outside of it."""
    count, size = starts.shape[0], x.shape[axis]
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    if not count or not size:
        return broadcast(filling(x.dtype, None), (*before, count, *after))
    begin = wide_index(starts)
    end = broadcast(as_array(np.int64(size)), (1,))
    past = maximum(concatenate([begin[1:], end]), begin + 1)
    places = iota(shape=(count, size), dtype=begin.dtype, dimension=1)
    inside = (places >= reshape(begin, (count, 1))) & (places < reshape(past, (count, 1)))
    rows = broadcast(reshape(x, (*before, 1, size, *after)), (*before, count, size, *after))
    found = _reduced(rows, inside, axis=axis, **method)
    shape = (*(1,) * axis, count, *(1,) * len(after))
    return filled(found, is_inside([begin], [size]), shape, None)


def _reduced(rows: Array, inside: Array, *, axis: int, name: str, over_axis: Reduction) -> Array:
    """Reduce the axis behind `axis`, where `inside` holds."""
    shape = (*(1,) * axis, *inside.shape, *(1,) * (rows.ndim - axis - 2))
    return over_axis(masked(rows, reshape(inside, shape), _neutral(name, rows.dtype)), axis + 1)


def _neutral(name: str, dtype: Dtype) -> Any:
    """Return what a reduction may meet as often as it likes."""
    if name in ("add", "multiply"):
        return 0 if name == "add" else 1
    if name in ("fmax", "fmin") and dtype.kind not in "biu":
        return math.nan
    if name.startswith("bitwise"):
        return all_bits(dtype) if name == "bitwise_and" else 0
    is_highest = name in ("minimum", "fmin", "logical_and")
    if dtype.kind == "c":
        bound = math.inf if is_highest else -math.inf
        return complex(bound, bound)
    return highest(dtype) if is_highest else lowest(dtype)


def all_bits(dtype: Dtype) -> int:
    """Return the number of which all bits are set."""
    return -1 if dtype.kind == "i" else int(highest(dtype))


def converted(x: Array, dtype: Any) -> Array:
    """Return an array in the dtype in which sums and products of it are."""
    return convert(x, promotion.sum_dtype(x.dtype) if dtype is None else as_dtype(dtype))
