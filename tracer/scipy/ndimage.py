"""Values between the elements of arrays: `tracer.scipy.ndimage.map_coordinates`."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, as_arrays, convert
from tracer.array.dispatch import compound
from tracer.errors import ShapeError, UnsupportedError
from tracer.scipy.choice import choose

Node = tuple[Array, Array | None]
"""Places along an axis and their weights; None are ones."""


def map_coordinates(
    input: ArrayLike,
    coordinates: Sequence[ArrayLike],
    order: int,
    mode: str = "constant",
    cval: ArrayLike = 0.0,
) -> Array:
    """Interpolate an array at coordinates, which count its elements.

    Parameters
    ----------
    input : array_like of n axes
        The values; not empty.
    coordinates : sequence of n array_like
        Where to, along each axis; they are broadcast together.
    order : {0, 1}
        0 takes the nearest element (halves away from zero), 1 interpolates linearly.
    mode : {"constant", "nearest", "wrap", "mirror", "reflect"}
        What is outside: `cval`, the nearest element, the array again, or the array mirrored about
        the middle or the outer edge of its last elements. "constant" and "wrap" are SciPy's
        "grid-constant" and "grid-wrap", as in JAX.
    cval : number
        What is outside in mode "constant".

    Returns
    -------
    Array
        The shape of the coordinates and the dtype of `input`; integers are rounded.

    Raises
    ------
    UnsupportedError
        Another order or mode.
    ShapeError
        As many coordinates are needed as there are axes, one or more, which are not empty.

    Examples
    --------
    >>> import tracer.numpy as tnp
    >>> from tracer.scipy.ndimage import map_coordinates
    >>> x = tnp.arange(12.0).reshape(3, 4)
    >>> map_coordinates(x, [[0.5, 1.5], [1.5, 2.5]], order=1).tolist()
    [3.5, 8.5]
    """
    x, places = as_array(input), as_arrays(*coordinates)
    _check(x, places, order, mode)
    outside = tnp.asarray(cval).astype(x.dtype)
    return _interpolated(x, outside, *places, order=operator.index(order), mode=mode)


@compound
def _interpolated(x: Array, outside: Array, *places: Array, order: int, mode: str) -> Array:
    axes = [_nearest(place) if order == 0 else _neighbours(place) for place in places]
    parts = [_contribution(x, nodes, mode, outside) for nodes in itertools.product(*axes)]
    total = functools.reduce(operator.add, parts)
    if x.dtype.kind in "iu" and total.dtype.kind == "f":
        total = _rounded(total)
    return convert(total, x.dtype)


def _check(x: Array, places: Sequence[Array], order: int, mode: str) -> None:
    if order not in (0, 1):
        raise UnsupportedError(
            f"map_coordinates of order {order!r}", mend="use order 0 (nearest) or 1 (linear)"
        )
    if mode not in ("constant", *_INSIDE):
        raise UnsupportedError(
            f"map_coordinates in mode {mode!r}",
            mend=f"use one of constant, {', '.join(_INSIDE)}",
        )
    if not x.size or not x.ndim or len(places) != x.ndim:
        raise ShapeError(
            f"map_coordinates: {len(places)} coordinates for an array of shape {x.shape}",
            mend="give an array that is not empty, and coordinates for each of its axes",
        )


def _rounded(x: Array) -> Array:
    """Round halves away from zero."""
    whole = tnp.trunc(x)
    return whole + choose(abs(x - whole) >= 0.5, tnp.sign(x), 0)


def _nearest(place: Array) -> list[Node]:
    whole = _rounded(place) if place.dtype.kind == "f" else place
    return [(whole.astype("int64"), None)]


def _neighbours(place: Array) -> list[Node]:
    lower = tnp.floor(place)
    upper_weight = place - lower
    index = lower.astype("int64")
    return [(index, 1 - upper_weight), (index + 1, upper_weight)]


def _mirrored(index: Array, size: int) -> Array:
    if size == 1:
        return tnp.zeros_like(index)
    return abs((index + size - 1) % (2 * size - 2) - (size - 1))


_INSIDE: dict[str, Callable[[Array, int], Array]] = {
    "nearest": lambda index, size: tnp.clip(index, 0, size - 1),
    "wrap": lambda index, size: index % size,
    "mirror": _mirrored,
    "reflect": lambda index, size: (_mirrored(2 * index + 1, 2 * size + 1) - 1) // 2,
}
"""Which element is found at an index, for each mode that has one everywhere."""


def _contribution(x: Array, nodes: Sequence[Node], mode: str, outside: Array) -> Any:
    inside = _INSIDE["nearest" if mode == "constant" else mode]
    where = [inside(index, size) for (index, _), size in zip(nodes, x.shape, strict=True)]
    found = x[tuple(where)]
    if mode == "constant":
        hits = [same == index for same, (index, _) in zip(where, nodes, strict=True)]
        found = choose(functools.reduce(operator.and_, hits), found, outside)
    weights = [weight for _, weight in nodes if weight is not None]
    return functools.reduce(operator.mul, [*weights, found])


__all__ = ["map_coordinates"]
