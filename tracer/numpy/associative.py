"""Reductions by associative functions for which there is no op: by halves, or in pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import reshape
from tracer.array.dispatch import apply
from tracer.ops.rules import as_tuple

Combine = Callable[..., Sequence[Array]]
"""Takes the elements on the left, then those on the right, one of each array."""


def reduce_by_halves(arrays: Sequence[Array], axes: Sequence[int], combine: Combine) -> list[Array]:
    """Combine the halves of each axis until one element is left; the axes go.

    Parameters
    ----------
    arrays : sequence of Array
        All of one shape, with an element or more along each of the axes.
    axes : sequence of int
        What is reduced.
    combine : callable
        Combines whole arrays, element by element.
    """
    reduced = list(arrays)
    for axis in axes:
        reduced = _reduced_axis(reduced, axis, combine)
    shape = tuple(n for axis, n in enumerate(arrays[0].shape) if axis not in axes)
    return [reshape(x, shape) for x in reduced]


def _reduced_axis(arrays: list[Array], axis: int, combine: Combine) -> list[Array]:
    while (size := arrays[0].shape[axis]) > 1:
        half = size // 2
        lower = [cut(x, axis, 0, half) for x in arrays]
        upper = [cut(x, axis, half, 2 * half) for x in arrays]
        combined = combine(*lower, *upper)
        if size % 2:
            rest = [cut(x, axis, 2 * half, size) for x in arrays]
            arrays = [
                apply(ops.concatenate, part, last, dimension=axis)
                for part, last in zip(combined, rest, strict=True)
            ]
        else:
            arrays = list(combined)
    return arrays


def accumulated(arrays: Sequence[Array], axis: int, combine: Combine) -> list[Array]:
    """Combine each element with all before it: pairs, then pairs of pairs, then what is between.

    Each level is stored: XLA would compute it again for each element of the next one that reads it.
    Source: G. Blelloch, "Prefix sums and their applications" (1990).

    Parameters
    ----------
    arrays : sequence of Array
        All of one size along the axis.
    axis : int
        Along which.
    combine : callable
        Takes those of the left and those of the right, and returns as many, of their types.
    """
    size = arrays[0].shape[axis]
    if size <= 1:
        return list(arrays)
    pairs, rest = size // 2, (size - 1) // 2
    both = *_every_other(arrays, axis, 0, pairs), *_every_other(arrays, axis, 1, pairs)
    odd = _stored(accumulated(_stored(combine(*both)), axis, combine))
    even = [cut(x, axis, 0, 1) for x in arrays]
    if rest:
        before = [cut(x, axis, 0, rest) for x in odd]
        between = combine(*before, *_every_other(arrays, axis, 2, rest))
        even = _joined(even, between, axis)
    return [_interleaved(x, y, axis) for x, y in zip(even, odd, strict=True)]


def _stored(arrays: Sequence[Array]) -> list[Array]:
    return list(as_tuple(apply(ops.optimization_barrier, *arrays)))


def _every_other(arrays: Sequence[Array], axis: int, start: int, count: int) -> list[Array]:
    return [cut(x, axis, start, start + 2 * count - 1, 2) for x in arrays]


def _joined(first: Sequence[Array], second: Sequence[Array], axis: int) -> list[Array]:
    pairs = zip(first, second, strict=True)
    return [apply(ops.concatenate, x, y, dimension=axis) for x, y in pairs]


def _interleaved(even: Array, odd: Array, axis: int) -> Array:
    """Return even[0], odd[0], even[1], odd[1], ...; there may be one more even one."""
    count = odd.shape[axis]
    before, behind = odd.shape[:axis], odd.shape[axis + 1 :]
    apart = [reshape(x, (*before, count, 1, *behind)) for x in (cut(even, axis, 0, count), odd)]
    pairs = apply(ops.concatenate, *apart, dimension=axis + 1)
    mixed = reshape(pairs, (*before, 2 * count, *behind))
    if even.shape[axis] == count:
        return mixed
    return apply(ops.concatenate, mixed, cut(even, axis, count, count + 1), dimension=axis)


def cut(x: Array, axis: int, first: int, end: int, stride: int = 1) -> Array:
    """Return a range of an axis."""
    start, limit, strides = [0] * x.ndim, list(x.shape), [1] * x.ndim
    start[axis], limit[axis], strides[axis] = first, end, stride
    return apply(ops.slice, x, start=tuple(start), limit=tuple(limit), strides=tuple(strides))
