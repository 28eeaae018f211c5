"""Methods of ufuncs that combine one element after the other: `subtract.reduce`, `gcd.at`, ...

A loop over the axis (`scan`) holds the function once, however long the axis is, and keeps the order
that functions such as `power` need. Where NumPy knows a function as one that may be reordered, its
reduction is computed by halves instead, unless the function has many ops.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tracer import ops
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import (
    as_array,
    as_keepdims,
    broadcast,
    convert,
    reduced_axes,
    reshape,
    scalar,
    transpose,
)
from tracer.array.dispatch import apply, apply_many, compound
from tracer.array.promotion import Dtype
from tracer.array.recording import Recording, recorded
from tracer.errors import ArgumentError, DTypeError
from tracer.ir import Graph, as_dtype
from tracer.numpy.arithmetic import maximum
from tracer.numpy.associative import accumulated, cut, reduce_by_halves
from tracer.numpy.bounds import INDEX_DTYPE, WRITE, bounds_of, filling, looked_at, wide_index
from tracer.numpy.indexing import get_item, update_item
from tracer.numpy.joining import concatenate
from tracer.numpy.ranges import iota
from tracer.numpy.reduceat import checked_runs
from tracer.numpy.reductions import (
    Axis,
    accumulation_dtype,
    as_mask,
    finish,
    masked,
    refuse_out,
    start_value,
)
from tracer.numpy.shaping import broadcast_to
from tracer.numpy.taking import take
from tracer.numpy.ufunc import Binary, compare, full_like, is_nonzero, select

Step = Callable[..., Array]
Along = Callable[[Array, int, Any], Array]
"""Takes an array, an axis and the dtype that is asked for."""
Update = Callable[[Array, Any, ArrayLike], Array]
"""Takes an array, an index and values; returns the array with them."""


@dataclass(frozen=True)
class Fold:
    """A function of two arrays whose methods are loops.

    Attributes
    ----------
    function : callable
        The function; it has NumPy's name.
    dtype_of : callable
        `dtype -> dtype` of the function's results where both operands have the former: what
        elements are converted to. It raises `DTypeError` for dtypes without such a loop.
    identity : number, optional
        What reductions begin with. Functions without one are not reordered: they reduce one axis.
    by_halves : bool
        Whether elements may be combined in any order, and the function has few ops.
    """

    function: Binary
    dtype_of: Callable[[Dtype], Dtype]
    identity: Any = None
    by_halves: bool = False

    @property
    def name(self) -> str:
        """NumPy's name."""
        return self.function.__name__

    def converted(self, array: ArrayLike, dtype: Any) -> Array:
        """Return an array in the dtype in which its elements are combined.

        Raises
        ------
        DTypeError
            The function does not give results of the dtype that is asked for.
        """
        x = as_array(array)
        wanted = as_dtype(x.dtype if dtype is None else dtype)
        found = self.dtype_of(wanted)
        if dtype is not None and found != wanted:
            raise DTypeError(
                f"{self.name} gives {found} for {wanted}", mend="use astype on the result"
            )
        if found.kind == "b" and x.dtype.kind != "b":
            return _truths(x)
        return convert(x, found)

    def widened(self, x: Array) -> Array:
        """Return floats of 16 bits in 32 where elements may be combined in any order, as sums are.

        Each step would round what its derivatives are computed from.
        """
        return convert(x, accumulation_dtype(x.dtype)) if self.by_halves else x


@compound
def _truths(x: Array) -> Array:
    return is_nonzero(x)


def reduction(fold: Fold) -> Callable[..., Array]:
    """Return the method `reduce`."""

    def reduce(
        array: ArrayLike,
        axis: Axis = 0,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: Any = True,
    ) -> Array:
        refuse_out(out)
        x = fold.converted(array, dtype)
        axes = reduced_axes(axis, x.ndim)
        if len(axes) > 1 and fold.identity is None:
            raise ArgumentError(
                f"{fold.name}.reduce along {len(axes)} axes: its order matters",
                mend="reduce one axis after the other",
            )
        start = _start(fold, x, axes, initial, has_mask=where is not True)
        masks = () if where is True else (as_mask(fold.name, x, where),)
        given = (x, *masks) if start is None else (x, *masks, start)
        kept = _reduced(*given, fold=fold, axes=axes, masks=len(masks))
        return finish(kept, x.shape, axes, as_keepdims(keepdims))

    return reduce


def _start(
    fold: Fold, x: Array, axes: tuple[int, ...], initial: ArrayLike | None, *, has_mask: bool
) -> Array | None:
    """Return what a reduction begins with; None where that is the first element."""
    if initial is None:
        initial = fold.identity
    if initial is not None:
        return start_value(fold.name, initial, x.dtype)
    if has_mask or 0 in [x.shape[axis] for axis in axes]:
        raise ArgumentError(
            f"{fold.name}.reduce of no elements, or with where, has no identity",
            mend="give initial=",
        )
    return None


@compound
def _reduced(x: Array, *more: Array, fold: Fold, axes: tuple[int, ...], masks: int) -> Array:
    """Combine the elements along axes; `more` is the mask, if there is one, and the start."""
    dtype, x = x.dtype, fold.widened(x)
    mask, start = more[:masks], [convert(one, x.dtype) for one in more[masks:]]
    rest = tuple(size for axis, size in enumerate(x.shape) if axis not in axes)
    rows = [_rows(broadcast(part, x.shape), axes) for part in (x, *mask)]
    first = broadcast(start[0], rest) if start else _part(rows[0], 0)
    if not start:
        rows = [cut(part, 0, 1, part.shape[0]) for part in rows]
    if not rows[0].shape[0]:
        return convert(first, dtype)
    if fold.by_halves:
        held = masked(rows[0], rows[1] if mask else None, fold.identity)
        found = reduce_by_halves([held], (0,), _pairs(fold.function))[0]
        return convert(fold.function(first, found), dtype)

    def step(kept: Array, row: Array, *chosen: Array) -> Array:
        return _where(chosen[0], fold, kept, row) if chosen else fold.function(kept, row)

    return _loop(step, first, rows, keeps=False)


def _where(chosen: Array, fold: Fold, kept: Array, row: Array) -> Array:
    """Combine elements where it is asked for; elsewhere ones, whose derivatives are finite."""
    ones = full_like(row, 1)
    new = fold.function(select(chosen, kept, ones), select(chosen, row, ones))
    return select(chosen, new, kept)


def _pairs(function: Binary) -> Callable[..., Sequence[Array]]:
    return lambda x, y: [function(x, y)]


def _rows(x: Array, axes: tuple[int, ...]) -> Array:
    """Move axes to the front, and make one of them."""
    rest = tuple(axis for axis in range(x.ndim) if axis not in axes)
    moved = transpose(x, (*axes, *rest))
    count = math.prod(moved.shape[: len(axes)])
    return reshape(moved, (count, *moved.shape[len(axes) :]))


def _first_to(rows: Array, axis: int) -> Array:
    """Move the first axis behind so many others, undoing `_rows` of one axis."""
    return transpose(rows, (*range(1, axis + 1), 0, *range(axis + 1, rows.ndim)))


def _part(rows: Array, number: int) -> Array:
    return reshape(cut(rows, 0, number, number + 1), rows.shape[1:])


def _loop(step: Step, first: Array, rows: Sequence[Array], *, keeps: bool) -> Array:
    """Return the last carry of `step(carry, *row)`, or with `keeps` that of every step."""

    def record(recording: Recording) -> tuple[Graph, list[Array]]:
        types = [first.type, *(part.type.with_shape(part.shape[1:]) for part in rows)]
        new = convert(step(*[recording.argument(one) for one in types]), first.dtype)
        return recording.finish([new, new] if keeps else [new])

    body, captured = recorded(record)
    assert not captured, "functions of elements use no arrays from outside"
    options = {"length": rows[0].shape[0], "num_consts": 0, "num_carry": 1, "reverse": False}
    return apply_many(ops.scan, first, *rows, body=body, **options)[-1]


def running(fold: Fold) -> Along:
    """Return what the method `accumulate` does along an axis."""
    return lambda x, axis, dtype: _running(fold.converted(x, dtype), fold=fold, axis=axis)


@compound
def _running(x: Array, *, fold: Fold, axis: int) -> Array:
    if fold.by_halves:
        (found,) = accumulated([fold.widened(x)], axis, _pairs(fold.function))
        return convert(found, x.dtype)
    if x.shape[axis] < 2:
        return x
    rows = _rows(x, (axis,))
    first, later = cut(rows, 0, 0, 1), cut(rows, 0, 1, rows.shape[0])
    kept = _loop(fold.function, reshape(first, rows.shape[1:]), [later], keeps=True)
    found = apply(ops.concatenate, first, kept, dimension=0)
    return _first_to(found, axis)


def runs(fold: Fold) -> Callable[..., Array]:
    """Return the method `reduceat`: one loop over the axis, for all runs at once."""

    def reduceat(
        array: ArrayLike, indices: ArrayLike, axis: int = 0, dtype: Any = None, out: None = None
    ) -> Array:
        refuse_out(out)
        x = fold.converted(array, dtype)
        number, starts, _ = checked_runs(fold.name, x, indices, axis)
        return _runs(x, as_array(starts), fold=fold, axis=number)

    return reduceat


@compound
def _runs(x: Array, starts: Array, *, fold: Fold, axis: int) -> Array:
    dtype, rows = x.dtype, _rows(fold.widened(x), (axis,))
    size, count, rest = x.shape[axis], starts.shape[0], rows.shape[1:]
    kept = broadcast(filling(rows.dtype, None), (count, *rest))
    begin = wide_index(starts)
    if size and count:
        end = broadcast(scalar(size, INDEX_DTYPE), (1,))
        past = maximum(concatenate([begin[1:], end]), begin + 1)
        places = iota(shape=(size, count), dtype=INDEX_DTYPE, dimension=0)
        is_first = compare(places, broadcast(begin, places.shape), "EQ")
        is_inside = (places > begin) & (places < past)

        def step(kept: Array, row: Array, first: Array, inside: Array) -> Array:
            row = broadcast(row, kept.shape)
            spread = [
                broadcast(reshape(one, (count, *(1,) * len(rest))), kept.shape)
                for one in (first, inside)
            ]
            return select(spread[0], row, _where(spread[1], fold, kept, row))

        kept = _loop(step, kept, [rows, is_first, is_inside], keeps=False)
    return _first_to(convert(kept, dtype), axis)


def update_in_turn(function: Binary, mode: str | None = None) -> Update:
    """Return what `at` writes: each element combined as often as it is named, in order."""

    def updated(x: Array, indices: Any, values: ArrayLike) -> Array:
        places = reshape(iota(shape=(x.size,), dtype=INDEX_DTYPE, dimension=0), x.shape)
        bounds = bounds_of(mode, WRITE)
        named = get_item(places, indices, replace(bounds, fill=x.size))
        spread = broadcast_to(values, named.shape)
        known = looked_at(named)
        if known is not None and np.unique(known).size == known.size:
            part = function(get_item(x, indices, replace(bounds, mode="clip")), spread)
            return x.at[indices].set(convert(part, x.dtype), mode=mode)
        return _updated(x, named.ravel(), spread.ravel(), function=function)

    return updated


@compound
def _updated(x: Array, places: Array, values: Array, *, function: Binary) -> Array:
    if not places.size or not x.size:
        return x

    def step(kept: Array, place: Array, value: Array) -> Array:
        new = function(take(kept, place, mode="clip"), value)
        return update_item(kept, place, convert(new, kept.dtype), "replace", bounds=WRITE)

    flat = _loop(step, reshape(x, (x.size,)), [places, values], keeps=False)
    return reshape(flat, x.shape)
