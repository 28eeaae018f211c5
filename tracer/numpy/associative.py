"""Reductions by associative functions for which there is no op: half by half, or by doubling."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import reshape
from tracer.array.dispatch import apply

Combine = Callable[[Array, Array], Array]


def reduced(x: Array, axes: Sequence[int], combine: Combine) -> Array:
    """Combine the halves of each axis, of one element or more, until one is left; the axes go."""
    for axis in axes:
        while (size := x.shape[axis]) > 1:
            half = size // 2
            combined = combine(_cut(x, axis, 0, half), _cut(x, axis, half, 2 * half))
            rest = [_cut(x, axis, 2 * half, size)] if size % 2 else []
            x = apply(ops.concatenate, combined, *rest, dimension=axis) if rest else combined
    return reshape(x, tuple(size for axis, size in enumerate(x.shape) if axis not in axes))


def accumulated(x: Array, axis: int, combine: Combine) -> Array:
    """Combine each element with those before it: with one, then with two more, then with four.

    Source: Hillis & Steele, "Data parallel algorithms" (1986).
    """
    size, step = x.shape[axis], 1
    while step < size:
        later = combine(_cut(x, axis, 0, size - step), _cut(x, axis, step, size))
        x = apply(ops.concatenate, _cut(x, axis, 0, step), later, dimension=axis)
        step *= 2
    return x


def _cut(x: Array, axis: int, first: int, end: int) -> Array:
    start, limit = [0] * x.ndim, list(x.shape)
    start[axis], limit[axis] = first, end
    return apply(ops.slice, x, start=tuple(start), limit=tuple(limit), strides=(1,) * x.ndim)
