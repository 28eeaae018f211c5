"""What a window is for convolution and pooling: sizes, strides, padding."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from tracer.errors import ArgumentError, DTypeError, ShapeError

Sizes = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]
Padding = str | int | Sequence[int | tuple[int, int]]
_MODES = ("VALID", "SAME", "SAME_LOWER")


def integers(name: str, value: int | Sequence[int] | None, count: int) -> Sizes:
    """Return one integer for each spatial axis: a single one is for all of them, None means 1."""
    if value is None:
        return (1,) * count
    try:
        if not isinstance(value, Sequence):
            return (operator.index(value),) * count
        numbers = tuple(operator.index(n) for n in value)
    except TypeError as error:
        raise DTypeError(
            f"{name} is {value!r}, not integers", mend=f"give an integer, or {count} of them"
        ) from error
    if len(numbers) != count:
        raise ShapeError(
            f"{name} {numbers} is for {len(numbers)} spatial axes, the array has {count}",
            mend="give one integer for all spatial axes, or one for each",
        )
    return numbers


def pairs(padding: Padding, sizes: Sizes, windows: Sizes, strides: Sizes) -> Pairs:
    """Return the padding before and behind each spatial axis.

    Parameters
    ----------
    padding : str, int, or sequence of int or of pairs
        "VALID" (none), "SAME" (as many windows as the size divided by the stride, rounded up; an
        odd element goes behind), "SAME_LOWER" (it goes in front), or numbers.
    sizes, windows, strides : tuple of int
        Of each axis; windows with their dilation.

    Returns
    -------
    tuple of (int, int)

    Raises
    ------
    ArgumentError, DTypeError, ShapeError
        No padding of these axes.
    """
    if len({len(sizes), len(windows), len(strides)}) > 1:
        raise ShapeError(
            f"{len(sizes)} sizes, {len(windows)} windows and {len(strides)} strides",
            mend="give one of each for each spatial axis",
        )
    if isinstance(padding, str):
        rows = zip(sizes, windows, strides, strict=True)
        return tuple(_named(padding.upper(), *row) for row in rows)
    if not isinstance(padding, Sequence):
        padding = (padding,) * len(sizes)
    found = tuple(_pair(item) for item in padding)
    if len(found) != len(sizes):
        raise ShapeError(
            f"padding {padding!r} is for {len(found)} spatial axes, the array has {len(sizes)}",
            mend="give one pair of integers for each spatial axis",
        )
    return found


def _named(padding: str, size: int, window: int, stride: int) -> tuple[int, int]:
    if padding not in _MODES:
        raise ArgumentError(
            f"there is no padding {padding!r}",
            mend=f"use one of {', '.join(_MODES)}, or a pair of integers for each spatial axis",
        )
    if padding == "VALID":
        return (0, 0)
    missing = max(0, (-(-size // max(1, stride)) - 1) * stride + window - size)
    less = missing // 2
    return (less, missing - less) if padding == "SAME" else (missing - less, less)


def _pair(item: Any) -> tuple[int, int]:
    try:
        if not isinstance(item, Sequence):
            return (operator.index(item),) * 2
        low, high = map(operator.index, item)
    except (TypeError, ValueError) as error:
        raise DTypeError(
            f"{item!r} is not the padding of an axis",
            mend="give an integer or a pair (before, behind)",
        ) from error
    return low, high


__all__ = ["Padding", "Pairs", "Sizes", "integers", "pairs"]
