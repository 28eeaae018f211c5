"""Reading and writing a rectangular, possibly strided part of an array: basic indexing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracer import ops
from tracer.ir import as_dtype
from tracer.numpy.convert import broadcast, convert, reshape, scalar
from tracer.numpy.dispatch import apply, compound
from tracer.numpy.ufunc import compare, full_like, select

if TYPE_CHECKING:
    from tracer.numpy.array import Array

INDEX_DTYPE = as_dtype("int64")


@dataclass(frozen=True)
class Window:
    """A part of an array, along each axis.

    Attributes
    ----------
    starts : tuple of (int or None)
        Lowest index; None where it is an operand.
    extents : tuple of int
        Indices from the lowest to the highest, both counted.
    steps : tuple of int
        Distance from one element to the next; negative ones go downwards from the highest index.
    """

    starts: tuple[int | None, ...]
    extents: tuple[int, ...]
    steps: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the part."""
        return tuple(
            -(-extent // abs(step)) for extent, step in zip(self.extents, self.steps, strict=True)
        )

    @property
    def is_strided(self) -> bool:
        """Tell whether elements in between are left out."""
        return any(abs(step) != 1 for step in self.steps)

    @property
    def reversed_axes(self) -> tuple[int, ...]:
        """Axes that are read downwards."""
        return tuple(axis for axis, step in enumerate(self.steps) if step < 0)

    def covers(self, shape: tuple[int, ...]) -> bool:
        """Tell whether the window spans the whole array (leaving out what the steps leave out)."""
        return self.extents == shape and None not in self.starts


@compound
def read(x: Array, *starts: Array, window: Window) -> Array:
    """Return the part; `starts` are the scalar operands, in the order of their axes."""
    if None in window.starts:
        places = _places(x, starts, window)
        x = apply(ops.dynamic_slice, x, *places, sizes=window.extents)
        first: tuple[int, ...] = (0,) * x.ndim
    else:
        first = tuple(start for start in window.starts if start is not None)
    limit = tuple(start + extent for start, extent in zip(first, window.extents, strict=True))
    strides = tuple(abs(step) for step in window.steps)
    if window.is_strided or limit != x.shape or any(first):
        x = apply(ops.slice, x, start=first, limit=limit, strides=strides)
    return _reverse(x, window)


@compound
def read_as(x: Array, *starts: Array, window: Window, shape: tuple[int, ...]) -> Array:
    """Return the part in another shape (without the axes of integers, with new axes)."""
    return reshape(read(x, *starts, window=window), shape)


@compound
def write(x: Array, update: Array, *starts: Array, window: Window) -> Array:
    """Return `x` with the part replaced by `update`, which has its shape."""
    update = _reverse(update, window)
    if window.is_strided:
        solid = Window(window.starts, window.extents, (1,) * x.ndim)
        update = _interleave(read(x, *starts, window=solid), update, window)
    if window.covers(x.shape):
        return update
    places = _places(x, starts, window)
    return apply(ops.dynamic_update_slice, x, update, *places)


def _reverse(x: Array, window: Window) -> Array:
    axes = window.reversed_axes
    return apply(ops.reverse, x, dimensions=axes) if axes else x


def _places(x: Array, starts: Sequence[Array], window: Window) -> list[Array]:
    """Return all starts as scalars of one dtype, negative operands counted from the end."""
    operands = iter(starts)
    return [
        _wrapped(next(operands), size) if start is None else scalar(start, INDEX_DTYPE)
        for start, size in zip(window.starts, x.shape, strict=True)
    ]


def _wrapped(start: Array, size: int) -> Array:
    return wrap_negative(convert(start, INDEX_DTYPE), size)


def wrap_negative(index: Array, size: int) -> Array:
    """Count negative indices from the end of an axis of `size` elements."""
    if index.dtype.kind == "u":
        return index
    is_negative = compare(index, full_like(index, 0), "LT")
    return select(is_negative, apply(ops.add, index, full_like(index, size)), index)


def _interleave(old: Array, update: Array, window: Window) -> Array:
    """Put `update` at every step into `old`."""
    steps = [abs(step) for step in window.steps]
    sizes = zip(old.shape, update.shape, steps, strict=True)
    high = tuple(size - ((count - 1) * step + 1) for size, count, step in sizes)
    low = (0,) * old.ndim
    interior = tuple(step - 1 for step in steps)
    spread = apply(ops.pad, update, scalar(0, update.dtype), low=low, high=high, interior=interior)
    truth = as_dtype("bool")
    mask = apply(
        ops.pad,
        broadcast(scalar(True, truth), update.shape),
        scalar(False, truth),
        low=low,
        high=high,
        interior=interior,
    )
    return select(mask, spread, old)
