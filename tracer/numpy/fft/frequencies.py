"""The frequencies of Fourier transforms, and their order."""

from __future__ import annotations

import operator
from typing import Any

from tracer.arguments import is_index
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, convert, normalize_axes
from tracer.errors import ArgumentError, DTypeError
from tracer.ir import as_dtype
from tracer.numpy.creation import placed
from tracer.numpy.joining import concatenate
from tracer.numpy.ranges import arange
from tracer.numpy.repeating import roll


def fftfreq(n: int, d: float = 1.0, device: Any = None, *, dtype: Any = None) -> Array:
    """Return the frequencies of the elements of `fft`, in cycles per unit of the spacing.

    Parameters
    ----------
    n : int
        Number of points.
    d : float
        Spacing of the points.
    device : Device or str, optional
        Where the array goes.
    dtype : dtype, optional
        A real floating dtype; float64 by default.

    Returns
    -------
    Array of floats, shape (n,)
        0, 1, ..., then the negative ones, divided by n d.

    Raises
    ------
    ArgumentError
        `n` is not a positive integer.
    DTypeError
        `dtype` is not a real floating dtype.
    """
    count = _as_count(n)
    positive = (count - 1) // 2 + 1
    places = concatenate([arange(0, positive), arange(-(count // 2), 0)])
    return _scaled(places, count * d, dtype, device)


def rfftfreq(n: int, d: float = 1.0, device: Any = None, *, dtype: Any = None) -> Array:
    """Return the frequencies of the elements of `rfft`, n // 2 + 1 of them; see `fftfreq`."""
    count = _as_count(n)
    return _scaled(arange(0, count // 2 + 1), count * d, dtype, device)


def _scaled(places: Array, length: float, dtype: Any, device: Any) -> Array:
    wanted = as_dtype(float if dtype is None else dtype)
    if wanted.kind in "biuc":
        raise DTypeError(
            f"frequencies are real floating numbers, not {wanted}", mend="give float32 or float64"
        )
    if not length:
        raise ArgumentError("frequencies of samples at distance 0", mend="give a distance")
    return placed(convert(places * (1.0 / length), wanted), device)


def _as_count(n: Any) -> int:
    if not is_index(n) or operator.index(n) < 1:
        raise ArgumentError(
            f"there are no frequencies of {n!r} points", mend="give a positive integer"
        )
    return int(n.__index__())


def fftshift(x: ArrayLike, axes: Any = None) -> Array:
    """Move the zero frequency to the middle.

    Parameters
    ----------
    x : array_like
        What a transform gave, or its frequencies.
    axes : int or sequence of int, optional
        The axes to shift; all by default.

    Returns
    -------
    Array, the shape of `x`
        The second half of each axis comes before the first.
    """
    return _shift(as_array(x), axes, 1)


def ifftshift(x: ArrayLike, axes: Any = None) -> Array:
    """Undo `fftshift`; the two differ for odd sizes."""
    return _shift(as_array(x), axes, -1)


def _shift(x: Array, axes: Any, direction: int) -> Array:
    places = normalize_axes(axes, x.ndim)
    steps = [direction * (x.shape[axis] // 2) for axis in places]
    return roll(x, tuple(steps), places)
