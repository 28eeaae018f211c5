"""Reductions over sliding windows. Source: StableHLO specification, reduce_window.

Positions added by padding and dilation hold the neutral element. If a window holds its maximum or
minimum several times, the first position in row-major order gets the gradient, as in XLA's
select_and_scatter; `reduce_window_argmax` finds it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracer import ops
from tracer.ir import AxisRule, Cost, NotDifferentiable, Op, ShapeDtype, Value
from tracer.ir.op import Types
from tracer.ops import helpers
from tracer.ops.batch import leading
from tracer.ops.elementwise import Vjp
from tracer.ops.reduce import first_of, highest, lowest
from tracer.ops.reduce_window_gradient import collapse, multiply_vjp, restore
from tracer.ops.rules import kept_axes_rule, moved_bytes, require_kind, size_of, widened
from tracer.ops.window import Windows

Array = np.ndarray[Any, Any]
_BATCH = leading(
    window_dimensions=1, window_strides=1, base_dilation=1, window_dilation=1, padding=(0, 0)
)


def _axes(operands: Types, results: Types, **params: Any) -> AxisRule:
    sliding = Windows(**params).sliding_axes
    kept = [axis not in sliding for axis in range(operands[0].ndim)]
    return kept_axes_rule(operands, results, kept)


def _result(name: str, x: ShapeDtype, kinds: str, windows: Windows) -> ShapeDtype:
    require_kind(name, x, kinds)
    windows.check(name, x.shape)
    return x.with_shape(windows.counts(x.shape))


def windowed(
    name: str,
    combiner: str,
    evaluate: np.ufunc,
    identity: Callable[[np.dtype[Any]], Any],
    vjp: Vjp,
    *,
    doc: str,
    kinds: str,
) -> Op:
    """Make the record of a windowed reduction; parameters are those of `reduce.reduction`."""

    def infer(x: ShapeDtype, **params: Any) -> ShapeDtype:
        return _result(name, x, kinds, Windows(**params))

    def evaluate_windows(x: Array, **params: Any) -> Any:
        windows = Windows(**params)
        counts = windows.counts(x.shape)
        wide = widened(x)
        fill = np.array(identity(x.dtype), x.dtype).astype(wide.dtype)
        total = np.full(counts, fill)
        padded = windows.padded(wide, fill)
        with np.errstate(all="ignore"):
            for _, seen in windows.positions(counts) if total.size else ():
                total = evaluate(total, padded[seen])
        return np.asarray(total).astype(x.dtype, copy=False)

    def lower(b: Any, types: Types, x: Any, **params: Any) -> Any:
        (type,) = types
        initial = b.splat(identity(type.dtype), type.with_shape(()))
        combine = getattr(b, combiner)
        return b.reduce_window(
            types, (x,), (initial,), lambda _, lhs, rhs: combine(lhs, rhs), **params
        )[0]

    return Op(
        name,
        doc=doc,
        infer=infer,
        evaluate=evaluate_windows,
        lower=lower,
        vjp=vjp,
        axes=_axes,
        cost=_cost,
        batch=_BATCH,
    )


def _cost(operands: Types, results: Types, **params: Any) -> Cost:
    flops = results[0].size * Windows(**params).size
    return Cost(flops, moved_bytes(operands, results))


def _add_vjp(g: Value, out: Value, x: Value, **params: Any) -> tuple[Value]:
    """Sum the cotangents of the windows that an element is in."""
    if 0 in (*g.shape, *x.shape):
        return (helpers.zeros_like(x),)
    back = Windows(**params).transposed(x.shape, g.shape)
    return (ops.reduce_window_add(g, **back.parameters),)


def _extremum_vjp(find: str) -> Vjp:
    def vjp(g: Value, out: Value, x: Value, **params: Any) -> tuple[Value]:
        """Add each cotangent at the place where the extremum was found."""
        axes = Windows(**params).sliding_axes
        if 0 in (*g.shape, *x.shape):
            return (helpers.zeros_like(x),)
        places = collapse(getattr(ops, find)(x, **params), axes)
        shape = (*places.shape[:-1], size_of(x.type, axes))
        updates = collapse(g, axes)
        total = helpers.scatter_add_along_axis(shape, places, updates, len(shape) - 1)
        return (restore(total, x.shape, axes),)

    return vjp


reduce_window_add: Op = windowed(
    "reduce_window_add",
    "add",
    np.add,
    lambda dtype: 0,
    _add_vjp,
    doc="Sum over each window.",
    kinds="iufc",
)
reduce_window_multiply: Op = windowed(
    "reduce_window_multiply",
    "multiply",
    np.multiply,
    lambda dtype: 1,
    multiply_vjp,
    doc="Product over each window.",
    kinds="iufc",
)
reduce_window_maximum: Op = windowed(
    "reduce_window_maximum",
    "maximum",
    np.maximum,
    lowest,
    _extremum_vjp("reduce_window_argmax"),
    doc="Largest element of each window; NaN if one is NaN.",
    kinds="biuf",
)
reduce_window_minimum: Op = windowed(
    "reduce_window_minimum",
    "minimum",
    np.minimum,
    highest,
    _extremum_vjp("reduce_window_argmin"),
    doc="Smallest element of each window; NaN if one is NaN.",
    kinds="biuf",
)


def _index_dtype(x: ShapeDtype, windows: Windows) -> np.dtype[Any]:
    size = size_of(x, windows.sliding_axes)
    return np.dtype(np.int32 if size < 2**31 - 1 else np.int64)


def _windowed_arg(
    name: str,
    direction: str,
    beats: np.ufunc,
    identity: Callable[[np.dtype[Any]], Any],
    doc: str,
) -> Op:
    def infer(x: ShapeDtype, **params: Any) -> ShapeDtype:
        windows = Windows(**params)
        return _result(name, x, "biuf", windows).with_dtype(_index_dtype(x, windows))

    def evaluate(x: Array, **params: Any) -> Any:
        windows = Windows(**params)
        counts = windows.counts(x.shape)
        wide = widened(x)
        fill = np.array(identity(x.dtype), x.dtype).astype(wide.dtype)
        places, outside = _places(x, windows)
        values, indices = windows.padded(wide, fill), windows.padded(places, outside)
        best, found = np.full(counts, fill), np.full(counts, outside)
        for _, seen in windows.positions(counts) if best.size else ():
            y, j = values[seen], indices[seen]
            first = (y == best) | (np.isnan(y) & np.isnan(best))
            wins = beats(y, best) | (np.isnan(y) & ~np.isnan(best))
            found = np.where(wins | (first & (j < found)), j, found)
            best = np.where(wins, y, best)
        return found.astype(_index_dtype(ShapeDtype(x.shape, x.dtype), windows))

    def lower(b: Any, types: Types, x: Any, **params: Any) -> Any:
        windows = Windows(**params)
        index = types[0].with_shape(())
        # XLA writes the places out: before a loop those of all its windows would stay through it.
        start = b.kept_in_loop(b.splat(0, index), x)
        places, stride = b.broadcast_in_dim(x.type.with_dtype(index.dtype), start, ()), 1
        for axis in reversed(windows.sliding_axes):
            line = b.iota(places.type, axis)
            places = b.add(places, b.multiply(line, b.splat(stride, line.type)))
            stride *= x.shape[axis]
        initial = b.splat(identity(x.dtype), x.type.with_shape(())), b.splat(stride, index)
        pair = types[0].with_dtype(x.dtype), types[0]
        return b.reduce_window(pair, (x, places), initial, first_of(direction), **params)[1]

    return Op(
        name,
        doc=doc,
        infer=infer,
        evaluate=evaluate,
        lower=lower,
        vjp=NotDifferentiable("an index does not move with the values", zero=True),
        axes=_axes,
        cost=_arg_cost,
        batch=_BATCH,
    )


def _places(x: Array, windows: Windows) -> tuple[Array, int]:
    """Return the row-major index of each element over the sliding axes, and their number."""
    axes = windows.sliding_axes
    sizes = [n if axis in axes else 1 for axis, n in enumerate(x.shape)]
    count = int(np.prod(sizes, dtype=int))
    return np.broadcast_to(np.arange(count).reshape(sizes), x.shape), count


def _arg_cost(operands: Types, results: Types, **params: Any) -> Cost:
    """XLA writes the index of each element out, and finds the extremum together with its place."""
    x = operands[0]
    indices = x.size * results[0].dtype.itemsize
    values = results[0].size * x.dtype.itemsize
    flops = 4 * results[0].size * Windows(**params).size
    return Cost(flops, moved_bytes(operands, results) + indices, indices + values)


reduce_window_argmax: Op = _windowed_arg(
    "reduce_window_argmax",
    "GT",
    np.greater,
    lowest,
    "Where each window has its largest element: the row-major index over the axes that slide; the "
    "first of several; NaN counts as largest; one behind the last index if all is padding.",
)
reduce_window_argmin: Op = _windowed_arg(
    "reduce_window_argmin",
    "LT",
    np.less,
    highest,
    "Where each window has its smallest element: the row-major index over the axes that slide; the "
    "first of several; NaN counts as smallest; one behind the last index if all is padding.",
)
