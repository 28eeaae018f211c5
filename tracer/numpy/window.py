"""Reading and writing a rectangular, possibly strided part of an array: basic indexing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import broadcast, reshape, scalar
from tracer.array.dispatch import apply, compound
from tracer.ir import as_dtype
from tracer.numpy.bounds import INDEX_DTYPE, Bounds, filled, is_inside, wide_index, wrap_negative
from tracer.numpy.ufunc import select


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
    guarded : tuple of int
        Axes whose start is an operand that may be out of bounds: there is nothing to read then,
        and nothing is written. Other starts are clamped.
    """

    starts: tuple[int | None, ...]
    extents: tuple[int, ...]
    steps: tuple[int, ...]
    guarded: tuple[int, ...] = ()

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
def read_as(
    x: Array, *starts: Array, window: Window, shape: tuple[int, ...], bounds: Bounds
) -> Array:
    """Return the part in another shape (without the axes of integers, with new axes)."""
    part = reshape(read(x, *starts, window=window), shape)
    if not window.guarded:
        return part
    places = _places(x, starts, window)
    inside = is_inside([places[i] for i in window.guarded], [x.shape[i] for i in window.guarded])
    return filled(part, inside, (1,) * len(shape), bounds.fill)


@compound
def write(x: Array, update: Array, *starts: Array, window: Window) -> Array:
    """Return `x` with the part replaced by `update`, which has its shape."""
    update = _reverse(update, window)
    if window.is_strided:
        solid = replace(window, steps=(1,) * x.ndim)
        update = _interleave(read(x, *starts, window=solid), update, window)
    if window.covers(x.shape):
        return update
    places = _places(x, starts, window)
    op = ops.guarded_update_slice if window.guarded else ops.dynamic_update_slice
    return apply(op, x, update, *places)


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
    return wrap_negative(wide_index(start), size)


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
