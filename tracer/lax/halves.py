"""Reductions with a function of two elements, half by half: the function is associative."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import reshape
from tracer.array.dispatch import apply
from tracer.autodiff.transforms import vmap
from tracer.lax.shapes import cut

Combine = Callable[..., Sequence[Array]]
"""Takes the elements on the left, then those on the right, one of each array."""


def of_elements(combine: Combine, ndim: int) -> Combine:
    """Map a function of scalars over all axes."""
    mapped: Any = combine
    for _ in range(ndim):
        mapped = vmap(mapped)
    return mapped  # type: ignore[no-any-return]


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
