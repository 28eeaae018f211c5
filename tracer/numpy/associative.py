"""Reductions by associative functions for which there is no op: half by half, or by doubling."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import reshape
from tracer.array.dispatch import apply

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


def accumulated(x: Array, axis: int, combine: Callable[[Array, Array], Array]) -> Array:
    """Combine each element with those before it: with one, then with two more, then with four.

    Source: Hillis & Steele, "Data parallel algorithms" (1986).
    """
    size, step = x.shape[axis], 1
    while step < size:
        later = combine(cut(x, axis, 0, size - step), cut(x, axis, step, size))
        x = apply(ops.concatenate, cut(x, axis, 0, step), later, dimension=axis)
        step *= 2
    return x


def cut(x: Array, axis: int, first: int, end: int) -> Array:
    """Return a range of an axis."""
    start, limit = [0] * x.ndim, list(x.shape)
    start[axis], limit[axis] = first, end
    return apply(ops.slice, x, start=tuple(start), limit=tuple(limit), strides=(1,) * x.ndim)
