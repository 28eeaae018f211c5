"""Cutting along an axis: split, array_split, unstack."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracer.arguments import is_index
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, normalize_axis
from tracer.errors import ArgumentError, DTypeError, ShapeError
from tracer.numpy.positions import concrete

_MANY = 1_000_000
"""More parts than elements, and than this, are a mistake that would fill the memory."""
Cuts = int | Sequence[int] | Array | np.ndarray[Any, Any]


def array_split(ary: ArrayLike, indices_or_sections: Cuts, axis: int = 0) -> list[Array]:
    """Cut along an axis into parts, as equal as they can be.

    Parameters
    ----------
    ary : array_like
        What is cut.
    indices_or_sections : int or sequence or array of int
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
    given = _cuts(indices_or_sections)
    if isinstance(given, int):
        sections = given
        if sections > max(size, _MANY):
            raise ArgumentError(
                f"cannot cut {size} elements into {sections} parts: most would be empty",
                mend="give no more parts than elements",
            )
        if sections <= 0:
            raise ArgumentError(f"cannot cut into {sections} parts", mend="give 1 or more")
        each, extra = divmod(size, sections)
        cuts = [part * each + min(part, extra) for part in range(sections + 1)]
    else:
        cuts = [0, *given, size]
    places = [slice(None)] * number
    return [
        x[(*places, slice(cuts[part], cuts[part + 1] if part + 2 < len(cuts) else None))]
        for part in range(len(cuts) - 1)
    ]


def split(ary: ArrayLike, indices_or_sections: Cuts, axis: int = 0) -> list[Array]:
    """Cut along an axis into equal parts, or at places; see `array_split`.

    Raises
    ------
    ShapeError
        The axis cannot be cut into so many equal parts.
    """
    x, given = as_array(ary), _cuts(indices_or_sections)
    if isinstance(given, int):
        size = x.shape[normalize_axis(axis, x.ndim)]
        if given < 1 or size % given:
            raise ShapeError(
                f"an axis of {size} elements cannot be cut into {given} equal parts",
                mend="use array_split",
            )
    return array_split(x, given, axis)


def _cuts(indices_or_sections: Any) -> int | list[int]:
    """Return the number of parts, or the places of the cuts, as Python integers."""
    if not isinstance(indices_or_sections, Array | np.ndarray):
        if is_index(indices_or_sections):
            return operator.index(indices_or_sections)
        return [operator.index(cut) for cut in indices_or_sections]
    mend = "give Python integers, or an array that is known while tracing"
    known = concrete("split", indices_or_sections, mend)
    if known.ndim > 1:
        raise ShapeError(
            f"split: positions are a vector, not of shape {known.shape}",
            mend="give a vector of places",
        )
    if known.dtype.kind not in "biu" and known.size:
        raise DTypeError(f"split: positions are {known.dtype}", mend="give integers")
    return [int(cut) for cut in known] if known.ndim else int(known)


def vsplit(ary: ArrayLike, indices_or_sections: Cuts) -> list[Array]:
    """Cut along the first axis."""
    return split(ary, indices_or_sections, 0)


def hsplit(ary: ArrayLike, indices_or_sections: Cuts) -> list[Array]:
    """Cut along the second axis; a vector along the first."""
    return split(ary, indices_or_sections, 0 if as_array(ary).ndim == 1 else 1)


def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """Return the slices along an axis."""
    array = as_array(x)
    number = normalize_axis(axis, array.ndim)
    return tuple(array[(slice(None),) * number + (i,)] for i in range(array.shape[number]))
