"""Repeating and moving elements: tile, repeat, roll, diff."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer import ops, tree
from tracer.arguments import is_index
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import (
    as_array,
    as_shape,
    broadcast,
    broadcast_shape,
    host_array,
    normalize_axis,
    reshape,
)
from tracer.array.dispatch import apply, compound
from tracer.errors import ArgumentError, DTypeError, ShapeError, TracingError, shown
from tracer.numpy.arithmetic import minimum
from tracer.numpy.cumulative import cumsum
from tracer.numpy.joining import concatenate
from tracer.numpy.positions import checked_size, concrete
from tracer.numpy.ranges import arange
from tracer.numpy.searching import searchsorted
from tracer.numpy.shaping import ravel
from tracer.numpy.taking import take


def tile(A: ArrayLike, reps: Any) -> Array:  # noqa: N803 - NumPy's name
    """Repeat whole arrays along axes; see `numpy.tile`."""
    x = as_array(A)
    counts = as_shape(reps)
    ndim = max(x.ndim, len(counts))
    counts = (1,) * (ndim - len(counts)) + counts
    return _tile(x, counts=counts)


@compound
def _tile(x: Array, *, counts: tuple[int, ...]) -> Array:
    shape = (1,) * (len(counts) - x.ndim) + x.shape
    pairs = zip(counts, shape, strict=True)
    split_shape = tuple(size for size in shape for size in (1, size))
    wide = tuple(size for pair in pairs for size in pair)
    result = broadcast(reshape(x, split_shape), wide)
    return reshape(result, tuple(n * size for n, size in zip(counts, shape, strict=True)))


def repeat(
    a: ArrayLike,
    repeats: ArrayLike,
    axis: int | None = None,
    *,
    total_repeat_length: int | None = None,
) -> Array:
    """Repeat each element.

    Parameters
    ----------
    a : array_like
        What is repeated.
    repeats : int or array_like of int
        How often; an array has one count for each index and must be concrete, unless
        `total_repeat_length` is given.
    axis : int, optional
        The axis; by default the array is flattened first.
    total_repeat_length : int, optional
        The size of the result along the axis, as in JAX: what is more is cut off, and the last
        element fills what is missing.

    Returns
    -------
    Array
        The repeated elements.
    """
    x = as_array(a)
    if axis is None:
        x, axis = ravel(x), 0
    number = normalize_axis(axis, x.ndim)
    if total_repeat_length is not None:
        return _repeat_to(x, repeats, number, checked_size("repeat", total_repeat_length))
    each: Any = repeats
    if not is_index(repeats):
        counts = _concrete_counts(repeats)
        if counts.size != 1:
            if counts.shape != (x.shape[number],):
                raise ShapeError(
                    f"repeat: {counts.size} counts for an axis of {x.shape[number]} elements",
                    mend="give one count, or one for each index",
                )
            indices = np.repeat(np.arange(x.shape[number]), counts)
            return x[(slice(None),) * number + (indices,)]
        if counts.dtype.kind not in "biu":
            raise DTypeError(f"repeat: the counts are {shown(repeats)}", mend="give integers")
        each = counts.reshape(())
    return _repeat(x, repeats=int(each), axis=number)


def _repeat_to(x: Array, repeats: Any, axis: int, total: int) -> Array:
    """Find the element of each place by the running sum of the counts."""
    size = x.shape[axis]
    counts = as_array(repeats)
    if counts.dtype.kind not in "iu":
        raise DTypeError(f"repeat: the counts are {counts.type}", mend="give integers")
    if counts.size == 1:
        counts = broadcast(reshape(counts, ()), (size,))
    if counts.shape != (size,):
        raise ShapeError(
            f"repeat: {counts.size} counts for an axis of {size} elements",
            mend="give one count, or one for each index",
        )
    if not size and total:
        raise ShapeError("repeat: there is no element to fill up with", mend="give an element")
    if not total:
        return x[(slice(None),) * axis + (slice(0, 0),)]
    ends = cumsum(counts)
    places = minimum(searchsorted(ends, arange(total, dtype=ends.dtype), side="right"), size - 1)
    return take(x, places, axis, mode="clip")


def _concrete_counts(repeats: Any) -> np.ndarray[Any, Any]:
    if isinstance(repeats, Array) and repeats.is_traced:
        raise TracingError(
            "repeat with traced counts: the shape of the result would depend on values",
            mend="give the counts as a Python int or a NumPy array",
        )
    return host_array(repeats)


@compound
def _repeat(x: Array, *, repeats: int, axis: int) -> Array:
    before, size, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    expanded = reshape(x, (*before, size, 1, *after))
    wide = broadcast(expanded, (*before, size, repeats, *after))
    return reshape(wide, (*before, size * repeats, *after))


def roll(a: ArrayLike, shift: Any, axis: Any = None) -> Array:
    """Move elements along axes, those that leave at one end entering at the other.

    Parameters
    ----------
    a : array_like
        What is moved.
    shift : int or array_like of int
        How far; may be traced.
    axis : int or sequence or array of int, optional
        Along which axes, broadcast with `shift`; by default the flattened array is moved.

    Returns
    -------
    Array, the shape of `a`
        The moved elements.
    """
    x = as_array(a)
    if axis is None:
        return reshape(roll(ravel(x), shift, 0), x.shape)
    x = x._snapshot()
    for distance, number in _moves(shift, axis):
        place = normalize_axis(number, x.ndim)
        size = x.shape[place]
        if isinstance(distance, Array):
            x = x[(slice(None),) * place + ((arange(size) - distance) % max(size, 1),)]
        elif size and distance % size:
            x = _roll(x, cut=size - distance % size, axis=place)
    return x


def _moves(shift: Any, axis: Any) -> list[tuple[Any, int]]:
    """Pair the distances, as Python integers where they are known, with the axes."""
    axes = concrete("roll", axis, "give the axes as Python integers")
    leaves = [leaf for leaf in tree.leaves(shift) if isinstance(leaf, Array)]
    is_known = not any(leaf.is_traced for leaf in leaves)
    shifts: Any = concrete("roll", shift) if is_known else as_array(shift)
    if any(given.size and given.dtype.kind not in "iu" for given in (shifts, axes)):
        raise DTypeError(
            f"roll takes integers, not {shifts.dtype} along {axes.dtype}", mend="give integers"
        )
    if shifts.ndim > 1 or axes.ndim > 1:
        raise ShapeError(
            f"roll by shifts of shape {shifts.shape} along axes of shape {axes.shape}",
            mend="give one shift, or one for each axis",
        )
    (count,) = broadcast_shape("roll", shifts.shape, axes.shape) or (1,)
    numbers = np.broadcast_to(axes, (count,)).tolist()
    if is_known:
        return list(zip(np.broadcast_to(shifts, (count,)).tolist(), numbers, strict=True))
    spread = broadcast(shifts, (count,))
    return [(spread[i], number) for i, number in enumerate(numbers)]


@compound
def _roll(x: Array, *, cut: int, axis: int) -> Array:
    return apply(
        ops.concatenate,
        slice_axis(x, axis, cut, x.shape[axis]),
        slice_axis(x, axis, 0, cut),
        dimension=axis,
    )


def slice_axis(x: Array, axis: int, start: int, limit: int) -> Array:
    """Return a contiguous slice along one axis."""
    starts, limits = [0] * x.ndim, list(x.shape)
    starts[axis], limits[axis] = start, limit
    return apply(ops.slice, x, start=tuple(starts), limit=tuple(limits), strides=(1,) * x.ndim)


def diff(
    a: ArrayLike,
    n: int = 1,
    axis: int = -1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
) -> Array:
    """Return the differences of neighbours along an axis, `n` times.

    Parameters
    ----------
    a : array_like
        Numbers, or bools (whether neighbours differ).
    n : int
        How often the difference is taken.
    axis : int
        The axis.
    prepend, append : array_like, optional
        Put before and after `a` along the axis first; a scalar means one slice of it.

    Returns
    -------
    Array
        `n` elements shorter along the axis.
    """
    x = as_array(a)
    if n < 0:
        raise ArgumentError(f"diff cannot be taken {n} times", mend="give n >= 0")
    if n == 0:
        return x._snapshot()
    if not x.ndim:
        raise ShapeError("diff needs an axis, got a 0-d array", mend="give an array with an axis")
    number = normalize_axis(axis, x.ndim)
    parts = [_edge(prepend, x, number), x, _edge(append, x, number)]
    x = concatenate([part for part in parts if part is not None], number)
    # Of fewer elements than that nothing is left.
    for _ in range(min(n, x.shape[number])):
        x = _diff(x, axis=number)
    return x


def _edge(value: ArrayLike | None, x: Array, axis: int) -> Array | None:
    if value is None:
        return None
    edge = as_array(value)
    if edge.ndim:
        return edge
    return broadcast(edge, tuple(1 if i == axis else size for i, size in enumerate(x.shape)))


@compound
def _diff(x: Array, *, axis: int) -> Array:
    size = x.shape[axis]
    if size == 0:
        return x
    upper, lower = slice_axis(x, axis, 1, size), slice_axis(x, axis, 0, size - 1)
    if x.dtype.kind == "b":
        return apply(ops.xor, upper, lower)
    return apply(ops.subtract, upper, lower)
