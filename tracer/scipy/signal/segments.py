"""Segments of a signal: their windows and lengths, cutting them out and adding them up again."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.array.promotion import Dtype
from tracer.errors import ArgumentError, ShapeError

Window = str | tuple[Any, ...] | ArrayLike


class Segments(NamedTuple):
    """How a signal is cut.

    Attributes
    ----------
    window : Array, shape (length,)
        What each segment is multiplied by.
    length, step : int
        Of a segment, and from one to the next.
    nfft : int
        The length that segments are filled up to.
    """

    window: Array
    length: int
    step: int
    nfft: int


def cut(
    window: Window,
    length: int | None,
    default: int,
    noverlap: int | None,
    nfft: int | None,
    dtype: Dtype,
) -> Segments:
    """Say how a signal is cut.

    Parameters
    ----------
    window : str, tuple or array_like
        As of `scipy.signal.get_window`, or the window itself.
    length, noverlap, nfft : int, optional
        As users give them.
    default : int
        The length with a named window where none is given.
    dtype : dtype
        Of the window, a real one.

    Raises
    ------
    ArgumentError
        There is no such window, or the lengths do not fit each other.
    ShapeError
        The window is no vector of that length.
    """
    values = _window(window, length, default, dtype)
    size = values.shape[0]
    shared = size // 2 if noverlap is None else operator.index(noverlap)
    points = size if nfft is None else operator.index(nfft)
    if not 0 <= shared < size or points < size:
        raise ArgumentError(
            f"segments of length {size} that share {shared}, and transforms of {points} points",
            mend="noverlap must be less than nperseg, and nfft not less",
        )
    return Segments(values, size, size - shared, points)


def _window(window: Window, length: int | None, default: int, dtype: Dtype) -> Array:
    if length is not None and length < 1:
        raise ArgumentError(f"nperseg is {length}", mend="give 1 or more")
    if isinstance(window, str | tuple):
        return tnp.asarray(
            _named(window, default if length is None else operator.index(length)), dtype
        )
    found = tnp.asarray(window)
    if found.dtype.kind == "c":
        raise ArgumentError("the window is complex", mend="give a real window")
    if found.ndim != 1 or not found.size or length not in (None, found.size):
        raise ShapeError(
            f"a window of shape {found.shape} for segments of length {length}",
            mend="give a vector, with its length as nperseg",
        )
    return found.astype(dtype)


def _named(window: str | tuple[Any, ...], length: int) -> np.ndarray[Any, Any]:
    """Return one of SciPy's windows, made by SciPy: it is known before anything runs."""
    import scipy.signal

    try:
        return np.asarray(scipy.signal.get_window(window, length))
    except (ValueError, IndexError, TypeError) as error:
        raise ArgumentError(
            f"there is no window {window!r}: {error}",
            mend="use a name that scipy.signal.get_window knows, or give the window",
        ) from error


def split(x: Array, length: int, step: int) -> Array:
    """Return the segments of the last axis, shape (..., count, length)."""
    count = (x.shape[-1] - length) // step + 1
    return x[..., step * np.arange(count)[:, None] + np.arange(length)]


def overlap_and_add(frames: Array, step: int) -> Array:
    """Add up segments of shape (..., count, length) where they overlap."""
    count, length = frames.shape[-2:]
    places = step * np.arange(count)[:, None] + np.arange(length)
    total = tnp.zeros((*frames.shape[:-2], step * (count - 1) + length), frames.dtype)
    return total.at[..., places].add(frames)
