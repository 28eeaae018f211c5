"""Removing trends: `detrend`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, convert, normalize_axis
from tracer.array.dispatch import compound
from tracer.array.promotion import division_dtype, real_dtype
from tracer.errors import ArgumentError, ShapeError, UnsupportedError


def detrend(
    data: ArrayLike,
    axis: int = -1,
    type: str = "linear",
    bp: int | Sequence[int] | np.ndarray[Any, Any] = 0,
    overwrite_data: None = None,
) -> Array:
    """Subtract the mean or the line of least squares along an axis.

    Parameters
    ----------
    data : array_like
        Not empty along the axis. Integers and bools become floats.
    axis : int
        The axis.
    type : {"linear", "constant"}
        What is subtracted: lines or the mean.
    bp : int or sequence of int
        Where lines begin: each piece has its own. The mean is that of the whole axis.
    overwrite_data : None
        Not supported.

    Returns
    -------
    Array
        The shape of `data`.

    Raises
    ------
    ArgumentError
        There is no such trend, or a piece would begin outside of the axis.
    ShapeError
        The axis is empty.

    Examples
    --------
    >>> from tracer.scipy.signal import detrend
    >>> detrend([1.0, 2.0, 6.0]).round(6).tolist()
    [0.5, -1.0, 0.5]
    """
    if overwrite_data is not None:
        raise UnsupportedError(
            f"detrend: overwrite_data is {overwrite_data!r}", mend="leave it out"
        )
    if type not in ("linear", "constant"):
        raise ArgumentError(f"detrend has no type {type!r}", mend='use "linear" or "constant"')
    x = as_array(data)
    axis = normalize_axis(axis, x.ndim)
    if not x.shape[axis]:
        raise ShapeError(f"detrend of shape {x.shape} along axis {axis}", mend="give some elements")
    x = convert(x, division_dtype(x.dtype))
    if type == "constant":
        return x - x.mean(axis, keepdims=True)
    return _without_lines(x, axis=axis, ends=_ends(bp, x.shape[axis]))


def _ends(bp: Any, length: int) -> tuple[int, ...]:
    places = np.atleast_1d(np.asarray(bp))
    if places.size and (places.dtype.kind not in "iu" or places.min() < 0 or places.max() > length):
        raise ArgumentError(
            f"detrend: bp is {bp!r} along an axis of length {length}",
            mend=f"give integers from 0 to {length}",
        )
    return tuple(sorted({0, length, *map(int, places.ravel())}))


@compound
def _without_lines(x: Array, *, axis: int, ends: tuple[int, ...]) -> Array:
    x = tnp.moveaxis(x, axis, -1)
    pieces = [_without_line(x[..., i:j]) for i, j in itertools.pairwise(ends)]
    return tnp.moveaxis(tnp.concatenate(pieces, -1), -1, axis)


def _without_line(x: Array) -> Array:
    """Subtract the line of least squares along the last axis.

    Distances from the middle are orthogonal to constants: mean and slope do not depend on each
    other.
    """
    count = x.shape[-1]
    centred = x - x.mean(-1, keepdims=True)
    # Counted in float64, which has halves of any place; the squares add up to (count^2 - 1) / 12.
    places = (tnp.arange(count) - (count - 1) / 2) / count
    weights = places / ((count * count - 1) / (12 * count) or 1.0)
    dtype = real_dtype(x.dtype)
    slope = (centred * weights.astype(dtype)).sum(-1, keepdims=True)
    return centred - slope * places.astype(dtype)
