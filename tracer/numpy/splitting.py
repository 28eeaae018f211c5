"""Cutting along an axis: split, array_split, unstack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tracer.errors import ArgumentError, ShapeError
from tracer.numpy.base import ArrayLike
from tracer.numpy.convert import (
    as_array,
    normalize_axis,
)

if TYPE_CHECKING:
    from tracer.numpy.array import Array


def array_split(
    ary: ArrayLike, indices_or_sections: int | Sequence[int], axis: int = 0
) -> list[Array]:
    """Cut along an axis into parts, as equal as they can be.

    Parameters
    ----------
    ary : array_like
        What is cut.
    indices_or_sections : int or sequence of int
        The number of parts, or the places of the cuts.
    axis : int
        The axis.

    Returns
    -------
    list of Array
        The parts.
    """
    x = as_array(ary)
    number = normalize_axis(axis, x.ndim)
    size = x.shape[number]
    if hasattr(indices_or_sections, "__index__"):
        sections = int(indices_or_sections)
        if sections <= 0:
            raise ArgumentError(f"cannot cut into {sections} parts", mend="give 1 or more")
        each, extra = divmod(size, sections)
        cuts = [part * each + min(part, extra) for part in range(sections + 1)]
    else:
        cuts = [0, *[int(cut) for cut in indices_or_sections], size]
    places = [slice(None)] * number
    return [
        x[(*places, slice(cuts[part], cuts[part + 1] if part + 2 < len(cuts) else None))]
        for part in range(len(cuts) - 1)
    ]


def split(ary: ArrayLike, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Array]:
    """Cut along an axis into equal parts, or at places; see `array_split`.

    Raises
    ------
    ShapeError
        The axis cannot be cut into so many equal parts.
    """
    x = as_array(ary)
    if hasattr(indices_or_sections, "__index__"):
        size = x.shape[normalize_axis(axis, x.ndim)]
        if size % int(indices_or_sections):
            raise ShapeError(
                f"an axis of {size} elements cannot be cut into {indices_or_sections} equal parts",
                mend="use array_split",
            )
    return array_split(x, indices_or_sections, axis)


def vsplit(ary: ArrayLike, indices_or_sections: int | Sequence[int]) -> list[Array]:
    """Cut along the first axis."""
    return split(ary, indices_or_sections, 0)


def hsplit(ary: ArrayLike, indices_or_sections: int | Sequence[int]) -> list[Array]:
    """Cut along the second axis; a vector along the first."""
    return split(ary, indices_or_sections, 0 if as_array(ary).ndim == 1 else 1)


def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """Return the slices along an axis."""
    array = as_array(x)
    number = normalize_axis(axis, array.ndim)
    return tuple(array[(slice(None),) * number + (i,)] for i in range(array.shape[number]))
