"""Merges: how slices along an axis are combined for arg-max, top-k, running sums and scatter.

Each gives the result of the whole op: ties go to the lowest index, across slices too, and NaN
counts as the record says. Only running sums and products of floats round in another order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracer import ops
from tracer.ir import Chunk, Merge, Op, Value
from tracer.ir.combining import Order, in_order
from tracer.ir.op import Types
from tracer.ops import helpers
from tracer.ops.rules import is_float, is_inexact

State = tuple[Value, ...]
Identity = Callable[[np.dtype[Any]], Any]


def _index_dtype(size: int) -> np.dtype[Any]:
    return np.dtype(np.int32 if size < 2**31 else np.int64)


def _is_nan(x: Value) -> Value:
    return ops.compare(x, x, direction="NE")  # type: ignore[no-any-return]


def first_extreme(direction: str, reduce: Callable[[], Op], identity: Identity) -> Merge:
    """Return the merge of arg-max ("GT") or arg-min ("LT"): the extreme so far and its index.

    Parameters
    ----------
    direction : str
        The comparison that a better element passes.
    reduce : callable
        Gives the reduction to the extreme value.
    identity : callable
        What every element is as good as, from the dtype.
    """

    def initial(operands: Any, types: Types, results: Types, *, axis: int, **_: Any) -> State:
        # Where all elements are as bad as the identity, the first of them is at 0.
        indices = results[0].with_dtype(_index_dtype(types[0].shape[axis]))
        value = helpers.full(identity(types[0].dtype), results[0].with_dtype(types[0].dtype))
        return value, helpers.full(0, indices)

    def fold(state: State, operands: State, chunk: Chunk, *, axis: int, **_: Any) -> State:
        (x, i), (part,) = state, operands
        y = reduce()(part, axes=(axis,))
        inside = chunk.op(part, axis=axis, index_dtype=i.dtype)
        start = helpers.convert(chunk.start, i.dtype)
        j = ops.add(inside, helpers.spread(start, i.shape))
        return _first_of(direction, (x, i), (y, j))

    def finish(state: State, *, index_dtype: np.dtype[Any], **_: Any) -> State:
        return (helpers.convert(state[1], index_dtype),)

    return Merge(initial, fold, finish)


def _first_of(direction: str, old: State, new: State) -> State:
    """Return the better of two (value, index) pairs; the lower index where they are as good."""
    (x, i), (y, j) = old, new
    wins, ties = ops.compare(x, y, direction=direction), ops.compare(x, y, direction="EQ")
    if is_inexact(x.dtype):
        x_is_nan, y_is_nan = _is_nan(x), _is_nan(y)
        wins = ops.or_(wins, ops.and_(x_is_nan, ops.not_(y_is_nan)))
        ties = ops.or_(ties, ops.and_(x_is_nan, y_is_nan))
    first = ops.or_(wins, ops.and_(ties, ops.compare(i, j, direction="LT")))
    return ops.select(wins, x, y), ops.select(first, i, j)


def largest_k(identity: Identity) -> Merge:
    """Return the merge of top-k: the k largest elements so far and their indices, in order.

    The candidates of a slice come after those found before, so ties go to the lower index.
    While fewer than k were found, the places behind them hold the identity, which loses every tie.
    """

    def initial(operands: Any, types: Types, results: Types, *, k: int) -> State:
        return helpers.full(identity(results[0].dtype), results[0]), helpers.full(0, results[1])

    def fold(state: State, operands: State, chunk: Chunk, *, k: int) -> State:
        count = min(k, chunk.size)
        values, inside = chunk.op(operands[0], k=count)
        start = helpers.convert(chunk.start, inside.dtype)
        indices = ops.add(inside, helpers.spread(start, inside.shape))
        found = ops.minimum(start, helpers.scalar(k, start.dtype))
        fill = identity(values.dtype)
        values = _appended(state[0], values, found, fill)
        indices = _appended(state[1], indices, found, 0)
        values, places = chunk.op(values, k=k)
        return values, helpers.gather_along_axis(indices, places, len(indices.shape) - 1)

    return Merge(initial, fold, order=in_order)


def _appended(state: Value, part: Value, found: Value, fill: Any) -> Value:
    """Write a slice's candidates behind those that were found before."""
    last = len(state.shape) - 1
    high = tuple(part.shape[last] if axis == last else 0 for axis in range(last + 1))
    none = (0,) * (last + 1)
    longer = ops.pad(state, helpers.scalar(fill, state.dtype), low=none, high=high, interior=none)
    zero = helpers.scalar(0, found.dtype)
    starts = [found if axis == last else zero for axis in range(last + 1)]
    return ops.dynamic_update_slice(longer, part, *starts)  # type: ignore[no-any-return]


def running(combine: Callable[[], Op], identity: Identity) -> Merge:
    """Return the merge of a running reduction: the result so far and its last line.

    The line is float32 for floats of 8 and 16 bits, as sums within one slice are.
    """

    def initial(operands: Any, types: Types, results: Types, *, axis: int, reverse: bool) -> State:
        (type,) = results
        line = type.resized(axis, 1).with_dtype(_wide(type.dtype))
        return helpers.full(0, type), helpers.full(identity(type.dtype), line)

    def fold(state: State, operands: State, chunk: Chunk, *, axis: int, reverse: bool) -> State:
        (result, line), (part,) = state, operands
        inside = chunk.op(helpers.convert(part, line.dtype), axis=axis, reverse=reverse)
        before = ops.broadcast_in_dim(
            line, shape=inside.shape, dimensions=tuple(range(len(line.shape)))
        )
        total = combine()(before, inside)
        last = 0 if reverse else chunk.size - 1
        zero = helpers.scalar(0, chunk.start.dtype)
        starts = [chunk.start if i == axis else zero for i in range(len(part.shape))]
        written = ops.dynamic_update_slice(result, helpers.convert(total, result.dtype), *starts)
        return written, helpers.slice_axis(total, axis, last, last + 1)

    def order(*, axis: int, reverse: bool) -> Order:
        return "backward" if reverse else "forward"

    return Merge(initial, fold, lambda state, **_: state[:1], order)


def _wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.float32) if is_float(dtype) and dtype.itemsize < 4 else dtype


def _start_from_operand(
    operands: tuple[Value | None, ...], types: Types, results: Types, **_: Any
) -> State:
    assert operands[0] is not None
    return (operands[0],)


def _scatter_more(state: State, operands: tuple[Any, ...], chunk: Chunk, **params: Any) -> State:
    return (chunk.op(state[0], *operands[1:], **params),)


INTO_OPERAND = Merge(_start_from_operand, _scatter_more, order=in_order, replaced=(0,))
"""Scatter: each slice of the updates goes into the array, in the order of the updates."""


__all__ = ["INTO_OPERAND", "first_extreme", "largest_k", "running"]
