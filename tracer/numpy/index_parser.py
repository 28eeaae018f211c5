"""Parse an index into a plan: a window, index arrays, the result's shape."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tracer.array.array import Array
from tracer.array.convert import as_array, holds_arrays, scalar
from tracer.array.dispatch import from_host
from tracer.array.recording import current_recording, made_at
from tracer.errors import ArrayIndexError, TracingError, shown
from tracer.numpy.bounds import INDEX_DTYPE, Bounds
from tracer.numpy.counting import is_counting
from tracer.numpy.window import Window

_MEND = (
    "use integers, slices, None, Ellipsis, arrays or lists of integers, or masks of bools; "
    "as many as the array has axes"
)


_FAR = 2**62
"""Farther out of bounds than any axis is long."""


@dataclass
class Plan:
    """How an index reads an array.

    Attributes
    ----------
    window : Window
        The part that the slices and scalars leave; axes of index arrays are whole.
    starts : list of Array
        The starts of the window that are operands.
    arrays : dict of int to Array
        The index arrays by axis, negative indices not yet wrapped where `wrap` says.
    wrap : set of int
        Axes whose index arrays may hold negative indices.
    unknown : set of int
        Axes whose index arrays were not looked at, and may be out of bounds.
    empty : bool
        The axis of a scalar that was not looked at is empty: there is nothing at any place.
    counting : set of int
        Axes whose index arrays are 0, 1, 2, ... to the axis' end, found in traces only: slices of
        the result can then be read from slices of the operand.
    layout : list
        The axes of the result: ("new",), ("axis", axis), or ("arrays",) where the broadcast shape
        of the index arrays goes.
    """

    window: Window
    starts: list[Array] = field(default_factory=list)
    arrays: dict[int, Array] = field(default_factory=dict)
    wrap: set[int] = field(default_factory=set)
    unknown: set[int] = field(default_factory=set)
    counting: set[int] = field(default_factory=set)
    layout: list[tuple[Any, ...]] = field(default_factory=list)
    empty: bool = False


def parse(shape: tuple[int, ...], index: Any, bounds: Bounds) -> Plan:
    """Return the plan of an index into an array of a shape.

    `bounds` say which indices are looked at, and what is done with the others.

    Raises
    ------
    ArrayIndexError
        Too many indices, an index out of bounds, or something that is no index.
    TracingError
        A traced mask, whose number of elements is not known.
    """
    items = _expand_ellipsis(_expand_masks(_as_items(index), shape), shape)
    parser = _Parser(shape, bounds, is_advanced=any(_is_array(item) for item in items))
    for item in items:
        parser.take(item)
    return parser.finish()


def has_truth(index: Any) -> bool:
    """Tell whether an index holds a single truth value, which is a mask of no axes."""
    return any(map(_is_truth, index)) if isinstance(index, tuple) else _is_truth(index)


def _is_truth(item: Any) -> bool:
    if isinstance(item, bool):
        return True
    is_scalar = isinstance(item, np.ndarray | np.generic | Array) and item.ndim == 0
    return bool(is_scalar and item.dtype.kind == "b")


def replace_truths(shape: tuple[int, ...], index: Any) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """Return a shape with an axis of size one for each truth value, and an index of that axis."""
    items = list(index) if isinstance(index, tuple) else [index]
    sizes = list(shape)
    for position, item in enumerate(items):
        if _is_truth(item):
            before = [part if _is_truth(part) else _normalized(part) for part in items]
            sizes.insert(_axis_of(before, position, tuple(sizes)), 1)
            items[position] = np.zeros(1 if item else 0, np.int64)
    return tuple(sizes), tuple(items)


def _as_items(index: Any) -> list[Any]:
    items = list(index) if isinstance(index, tuple) else [index]
    return [_normalized(item) for item in items]


def _normalized(item: Any) -> Any:
    if item is None or item is Ellipsis or isinstance(item, slice | Array):
        return item
    if isinstance(item, int) and not isinstance(item, bool):
        return item
    if hasattr(item, "__index__") and not isinstance(item, np.ndarray | bool):
        return operator.index(item)
    if isinstance(item, list | tuple) and holds_arrays(item):
        return as_array(item)
    try:
        array = np.asarray(item)
    except ValueError as error:
        raise ArrayIndexError(f"{shown(item)} is no index: {error}", mend=_MEND) from error
    if array.size == 0 and isinstance(item, list | tuple):
        array = array.astype(np.int64)
    if array.dtype.kind not in "biu":
        raise ArrayIndexError(f"{shown(item)} is no index", mend=_MEND)
    return int(array) if array.ndim == 0 and array.dtype.kind in "iu" else array


def _is_array(item: Any) -> bool:
    return isinstance(item, np.ndarray) or (isinstance(item, Array) and item.ndim > 0)


def _is_mask(item: Any) -> bool:
    return isinstance(item, np.ndarray | Array) and item.dtype.kind == "b"


def _consumed(item: Any) -> int:
    """Return how many axes an item indexes."""
    if item is None or item is Ellipsis:
        return 0
    if _is_truth(item):
        return 0
    return int(item.ndim) if _is_mask(item) else 1


def _expand_masks(items: list[Any], shape: tuple[int, ...]) -> list[Any]:
    """Replace masks by the indices of their true elements."""
    result: list[Any] = []
    for position, item in enumerate(items):
        if _is_mask(item):
            result.extend(_mask_indices(item, _axis_of(items, position, shape), shape))
        else:
            result.append(item)
    return result


def _axis_of(items: list[Any], position: int, shape: tuple[int, ...]) -> int:
    """Return the axis at which an item of the index begins."""
    before = items[:position]
    if any(item is Ellipsis for item in before):
        return len(shape) - sum(_consumed(item) for item in items[position:])
    return sum(_consumed(item) for item in before)


def _mask_indices(mask: Any, axis: int, shape: tuple[int, ...]) -> tuple[np.ndarray[Any, Any], ...]:
    if isinstance(mask, Array) and mask.is_traced:
        raise TracingError(
            f"an index with a traced mask, {mask.type} (made at {made_at(mask)}): "  # type: ignore[arg-type] # traced
            "the shape of the result would depend on values",
            mend="use tracer.numpy.where(mask, x, 0), or x.at[mask].set(number)",
        )
    # As in NumPy a mask without elements along an axis fits any size of it.
    sizes = shape[axis : axis + mask.ndim]
    if len(sizes) != mask.ndim or any(
        size not in (0, wanted) for size, wanted in zip(mask.shape, sizes, strict=True)
    ):
        raise ArrayIndexError(
            f"a mask of shape {mask.shape} does not fit the axes of shape {shape} from {axis} on",
            mend="give a mask of the shape of the axes that it indexes",
        )
    return np.nonzero(np.asarray(mask))


def _expand_ellipsis(items: list[Any], shape: tuple[int, ...]) -> list[Any]:
    places = [i for i, item in enumerate(items) if item is Ellipsis]
    consumed = sum(_consumed(item) for item in items)
    missing = len(shape) - consumed
    if len(places) > 1 or missing < 0:
        raise ArrayIndexError(
            f"too many indices for shape {shape}: {consumed}, and {len(places)} Ellipsis",
            mend=_MEND,
        )
    rest = [slice(None)] * missing
    place = places[0] if places else len(items)
    # The Ellipsis itself stays: it separates index arrays even if it indexes no axis.
    return [*items[:place], Ellipsis, *rest, *items[place + 1 :]]


class _Parser:
    """Takes the items one by one; each but None indexes the next axis."""

    def __init__(self, shape: tuple[int, ...], bounds: Bounds, is_advanced: bool) -> None:
        self.shape = shape
        self.wanted = bounds
        self.guarded: list[int] = []
        self.is_advanced = is_advanced
        self.bounds: list[tuple[int | None, int, int]] = []
        self.plan = Plan(Window((), (), ()))
        self.groups = 0
        self.last_was_array = False

    def take(self, item: Any) -> None:
        """Take one item of the index."""
        if item is None:
            self._place(("new",))
            return
        if item is Ellipsis:
            self.last_was_array = False
            return
        axis = len(self.bounds)
        size = self.shape[axis]
        if isinstance(item, slice):
            self._place(("axis", axis))
            self.bounds.append(_slice_bounds(item, size))
        elif self.is_advanced:
            self._take_array(item, axis, size)
        else:
            self._take_scalar(item, axis, size)

    def _place(self, entry: tuple[Any, ...]) -> None:
        self.last_was_array = False
        self.plan.layout.append(entry)

    def _take_array(self, item: Any, axis: int, size: int) -> None:
        if not self.last_was_array:
            self.groups += 1
            if self.groups == 1:
                self.plan.layout.append(("arrays",))
        self.last_was_array = True
        self.bounds.append((0, size, 1))
        if current_recording() is not None and _is_array(item) and is_counting(item, size):
            self.plan.counting.add(axis)
        if not isinstance(item, Array) and self.wanted.raises:
            self.plan.arrays[axis] = from_host(checked_indices(np.asarray(item), axis, size))
            return
        index = item if isinstance(item, Array) else from_host(np.asarray(item))
        require_integers(index)
        self.plan.arrays[axis] = as_array(index)
        self.plan.wrap.add(axis)
        if self.wanted.is_known(index):
            checked_indices(index._host("an index"), axis, size)
        else:
            self.plan.unknown.add(axis)

    def _take_scalar(self, item: Any, axis: int, size: int) -> None:
        if isinstance(item, Array):
            require_integers(item)
        elif self.wanted.raises or -size <= item < size:
            self.bounds.append((_checked_index(int(item), axis, size), 1, 1))
            return
        else:
            item = from_host(np.asarray(min(max(item, -_FAR), _FAR)))
        self.plan.starts.append(as_array(item))
        self.bounds.append((None, 1, 1))
        if self.wanted.is_known(item):
            _checked_index(int(item._host("an index")), axis, size)
            return
        self.plan.empty |= size == 0
        if self.wanted.guards:
            self.guarded.append(axis)

    def finish(self) -> Plan:
        """Return the plan."""
        plan = self.plan
        if self.groups > 1:
            # NumPy's rule: index arrays that slices separate put their axes in front.
            plan.layout.remove(("arrays",))
            plan.layout.insert(0, ("arrays",))
        starts, extents, steps = zip(*self.bounds, strict=True) if self.bounds else ((), (), ())
        plan.window = Window(starts, extents, steps, tuple(self.guarded))
        if current_recording() is None:
            _make_dynamic(plan, self.shape)
        return plan


def _make_dynamic(plan: Plan, shape: tuple[int, ...]) -> None:
    """Make the starts operands, so that one compiled program serves all positions."""
    window = plan.window
    given = iter(plan.starts)
    starts: list[int | None] = []
    operands = []
    for start, extent, size in zip(window.starts, window.extents, shape, strict=True):
        if start is None:
            operands.append(next(given))
        elif extent < size and extent > 0:
            operands.append(scalar(start, INDEX_DTYPE))
            start = None
        starts.append(start)
    plan.starts = operands
    plan.window = replace(window, starts=tuple(starts))


def _slice_bounds(item: slice, size: int) -> tuple[int, int, int]:
    """Return lowest index, extent and step of a slice."""
    try:
        start, stop, step = item.indices(size)
    except (TypeError, ValueError) as error:
        raise ArrayIndexError(
            f"{item} is no slice of concrete integers: {error}",
            mend="use integers (step not 0); for a traced start use "
            "x[start + tracer.numpy.arange(size)]",
        ) from error
    count = len(range(start, stop, step))
    if count == 0:
        return 0, 0, 1
    extent = (count - 1) * abs(step) + 1
    return (start if step > 0 else start + (count - 1) * step), extent, step


def _checked_index(index: int, axis: int, size: int) -> int:
    if not -size <= index < size:
        raise ArrayIndexError(
            f"index {index} is out of bounds for axis {axis} with size {size}",
            mend=f"use an index from {-size} to {size - 1}" if size else "the axis is empty",
        )
    return index + size if index < 0 else index


def checked_indices(indices: np.ndarray[Any, Any], axis: int, size: int) -> np.ndarray[Any, Any]:
    """Return indices known now with negative ones wrapped, or raise `ArrayIndexError`."""
    # Before they are converted: wider integers would wrap.
    outside = (indices < -size) | (indices >= size)
    if outside.any():
        _checked_index(int(indices[outside].flat[0]), axis, size)
    indices = indices.astype(INDEX_DTYPE)
    return np.where(indices < 0, indices + size, indices)


def require_integers(index: Array) -> None:
    """Refuse an index array of another kind."""
    if index.dtype.kind not in "iu":
        raise ArrayIndexError(f"an array of {index.dtype} is no index", mend=_MEND)
