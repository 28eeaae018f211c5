"""NumPy's objects that are indexed to make arrays and indices: r_, c_, s_."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tracer.array import promotion
from tracer.array.array import Array
from tracer.array.convert import as_array, convert, scalar
from tracer.array.promotion import weak_class
from tracer.errors import ArgumentError, ShapeError
from tracer.numpy.joining import concatenate
from tracer.numpy.ranges import arange, linspace
from tracer.numpy.shaping import moveaxis, reshape

index_exp, s_ = np.index_exp, np.s_


class _Joining:
    """Joins what it is indexed with: arrays, numbers, and slices, which are ranges.

    `r_[1:4, 0, x]` joins along the first axis, `c_[x, y]` puts vectors side by side. A slice with
    an imaginary step, `0:1:5j`, is a number of points, both ends included. A string in front,
    "axis,ndim,place", says along which axis, how many axes each has at least, and where its own
    axes are among them.
    """

    def __init__(self, axis: int, ndim: int, place: int) -> None:
        self._defaults = axis, ndim, place

    def __getitem__(self, key: Any) -> Array:
        items = key if isinstance(key, tuple) else (key,)
        axis, ndim, place = self._defaults
        if items and isinstance(items[0], str):
            axis, ndim, place = _directive(items[0], self._defaults)
            items = items[1:]
        if not items:
            raise ShapeError("r_ and c_ of nothing", mend="give one array, number or slice")
        made = [(item, _made(item)) for item in items]
        dtype = promotion.result_type(
            *(item if weak_class(item) is not None else x for item, x in made)
        )
        parts = [
            _shaped(scalar(item, dtype) if weak_class(item) is not None else x, ndim, place)
            for item, x in made
        ]
        result: Array = concatenate([convert(part, dtype) for part in parts], axis)
        return result

    def __len__(self) -> int:
        return 0

    def __iter__(self) -> Iterator[Any]:
        return iter(())


def _directive(text: str, defaults: tuple[int, int, int]) -> tuple[int, int, int]:
    try:
        given = [int(part) for part in text.split(",")]
    except ValueError:
        given = []
    if not 1 <= len(given) <= 3:
        raise ArgumentError(
            f"r_ and c_ do not know {text!r}",
            mend='give "axis", "axis,ndim" or "axis,ndim,place"; there are no matrices here',
        )
    axis, ndim, place = (*given, *defaults[len(given) :])
    return axis, ndim, place


def _made(item: Any) -> Array:
    if isinstance(item, str):
        raise ArgumentError(f"r_ and c_: {item!r} is not in front", mend="put it first")
    if not isinstance(item, slice):
        return as_array(item)
    start, step = item.start or 0, 1 if item.step is None else item.step
    if isinstance(step, complex):
        points: Array = linspace(start, item.stop, int(abs(step)))
        return points
    return arange(start, item.stop, step)


def _shaped(x: Array, ndim: int, place: int) -> Array:
    """Put axes of one element beside those of an array, which start at `place`."""
    missing = ndim - x.ndim
    if missing <= 0:
        return x
    wide = reshape(x, (1,) * missing + x.shape)
    if place in (-1, missing):
        return wide
    own = x.ndim
    first = place if place >= 0 else missing + place + 1
    return moveaxis(wide, tuple(range(missing, ndim)), tuple(range(first, first + own)))


r_ = _Joining(0, 1, -1)
c_ = _Joining(-1, 2, 0)
