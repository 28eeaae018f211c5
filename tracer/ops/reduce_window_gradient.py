"""Gradients of windowed reductions: the shared part, and that of the product."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracer import ops
from tracer.ir import ShapeDtype, Value
from tracer.ops import helpers
from tracer.ops.reduce import exclusive_product, kept_axes
from tracer.ops.window import Sizes, Windows


def collapse(x: Value, axes: Sizes) -> Value:
    """Move `axes` behind the others and make one axis of them."""
    kept = kept_axes(len(x.shape), axes)
    shape = tuple(x.shape[axis] for axis in kept)
    moved = helpers.in_order(x, (*kept, *axes))
    return helpers.reshape(moved, (*shape, math.prod(x.shape[axis] for axis in axes)))


def restore(x: Value, shape: Sizes, axes: Sizes) -> Value:
    """Undo `collapse` of an array of `shape`."""
    order = (*kept_axes(len(shape), axes), *axes)
    moved = helpers.reshape(x, tuple(shape[axis] for axis in order))
    return helpers.in_order(moved, tuple(int(i) for i in np.argsort(order)))


def multiply_vjp(g: Value, out: Value, x: Value, **params: Any) -> tuple[Value]:
    """Weight with the products of the other factors, without division: right where some are 0.

    Every window is written out, which takes as many times the memory as a window has elements.
    """
    windows = Windows(**params)
    axes = windows.sliding_axes
    if 0 in (*g.shape, *x.shape):
        return (helpers.zeros_like(x),)
    if not axes:
        return (g,)
    low, high = (tuple(pair[i] for pair in windows.padding) for i in (0, 1))
    interior = tuple(n - 1 for n in windows.base_dilation)
    one = helpers.scalar(1, x.dtype)
    padded = ops.pad(x, one, low=low, high=high, interior=interior)
    line = collapse(padded, axes)
    table = ops.constant(value=_table(windows, padded.shape, g.shape))
    factors = _read(line, table)
    last = len(factors.shape) - 1
    before = exclusive_product(factors, axis=last, reverse=False)
    behind = exclusive_product(factors, axis=last, reverse=True)
    seeds = collapse(g, axes)
    spread = ops.broadcast_in_dim(seeds, shape=factors.shape, dimensions=tuple(range(last)))
    total = _write(line, table, ops.multiply(spread, ops.multiply(before, behind)))
    whole = restore(total, padded.shape, axes)
    return (_unpad(whole, x, low, high, interior),)


def _table(windows: Windows, padded: Sizes, counts: Sizes) -> np.ndarray[Any, Any]:
    """Return for each window and place in it the index into the collapsed padded array.

    Shape (windows, elements of a window, 1).
    """
    axes = windows.sliding_axes
    table = np.zeros((1, 1), np.int64)
    for axis in axes:
        starts = np.arange(counts[axis]) * windows.window_strides[axis]
        steps = np.arange(windows.window_dimensions[axis]) * windows.window_dilation[axis]
        line = starts[:, None] + steps
        joined = table[:, None, :, None] * padded[axis] + line[None, :, None, :]
        table = joined.reshape(table.shape[0] * line.shape[0], -1)
    return table[..., None].astype(np.int32 if math.prod(padded) < 2**31 else np.int64)


def _read(line: Value, table: Value) -> Value:
    last = len(line.shape) - 1
    return ops.gather(  # type: ignore[no-any-return]
        line,
        table,
        offset_dims=tuple(range(last)),
        collapsed_slice_dims=(last,),
        start_index_map=(last,),
        index_vector_dim=2,
        slice_sizes=(*line.shape[:-1], 1),
    )


def _write(line: Value, table: Value, updates: Value) -> Value:
    last = len(line.shape) - 1
    return ops.scatter(  # type: ignore[no-any-return]
        helpers.full(0, ShapeDtype(line.shape, updates.dtype)),
        table,
        updates,
        combiner="add",
        update_window_dims=tuple(range(last)),
        inserted_window_dims=(last,),
        scatter_dims_to_operand_dims=(last,),
        index_vector_dim=2,
        unique_indices=False,
    )


def _unpad(x: Value, like: Value, low: Sizes, high: Sizes, interior: Sizes) -> Value:
    """Read the elements of `like` out of what padding made of it."""
    none = (0,) * len(low)
    cut = ops.pad(
        x,
        helpers.scalar(0, x.dtype),
        low=tuple(-n for n in low),
        high=tuple(-n for n in high),
        interior=none,
    )
    strides = tuple(n + 1 for n in interior)
    return ops.slice(cut, start=none, limit=cut.shape, strides=strides)  # type: ignore[no-any-return]


__all__ = ["collapse", "multiply_vjp", "restore"]
