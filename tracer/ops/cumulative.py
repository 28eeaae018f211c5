"""Running sums, products, maxima and minima along one axis.

Lowered to StableHLO's reduce_window over the whole axis, which XLA rewrites into a tree. The
gradient of the running product sums cotangents weighted by the factors in between. That is a
first-order linear recurrence, solved without division, in pairs, so zeros are safe. If a running
maximum is reached several times, the first position gets the gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tracer import ops
from tracer.errors import ArgumentError, DTypeError
from tracer.ir import AxisRule, Cost, NotDifferentiable, Op, ShapeDtype, Value, registry
from tracer.ir.library_calls import ScanCall
from tracer.ir.op import Types
from tracer.ops import helpers
from tracer.ops.batch import leading
from tracer.ops.merges import running
from tracer.ops.pairs import Pairs
from tracer.ops.reduce import highest, lowest
from tracer.ops.rules import (
    is_float,
    merged_axis_rule,
    moved_bytes,
    own_axis_rule,
    require_axes,
    require_kind,
    widened,
)

Array = np.ndarray[Any, Any]
_WIDE = 4
"""Bytes of floats that are compared and combined without a conversion."""


def _axes(name: str) -> Callable[..., AxisRule]:
    def rule(operands: Types, results: Types, *, axis: int, reverse: bool) -> AxisRule:
        return merged_axis_rule(name, operands, results, axis)

    return rule


def _cost(combiner: str) -> Callable[..., Cost]:
    """Count about two passes; what is stored depends on the form that a device takes."""

    def cost(operands: Types, results: Types, *, axis: int, reverse: bool) -> Cost:
        call = _call(operands[0], axis, combiner)
        return Cost(2 * operands[0].size, moved_bytes(operands, results), calls=(call,))

    return cost


def _call(x: ShapeDtype, axis: int, combiner: str) -> ScanCall:
    """Say what is cumulated: floats narrower than float32 are combined in that."""
    is_inexact = is_float(x.dtype) or x.dtype.kind == "c"
    is_wide = is_float(x.dtype) and x.dtype.itemsize >= _WIDE
    is_extreme = combiner in ("maximum", "minimum")
    return ScanCall(
        math.prod(x.shape[:axis]),
        x.shape[axis],
        math.prod(x.shape[axis + 1 :]),
        max(x.dtype.itemsize, _WIDE) if is_inexact else x.dtype.itemsize,
        is_inexact,
        is_any_order=x.dtype.kind in "iu" or (is_extreme and is_wide),
        is_product=combiner == "multiply",
    )


def cumulative(
    name: str,
    combiner: str,
    evaluate: np.ufunc,
    identity: Callable[[np.dtype[Any]], Any],
    vjp: Callable[..., tuple[Any, ...]],
    *,
    doc: str,
    kinds: str,
) -> Op:
    """Make the record of a running reduction; parameters are those of `reduce.reduction`."""

    def infer(x: ShapeDtype, *, axis: int, reverse: bool) -> ShapeDtype:
        require_kind(name, x, kinds)
        require_axes(name, (axis,), x.ndim)
        return x

    def evaluate_along(x: Array, *, axis: int, reverse: bool) -> Any:
        wide = widened(np.flip(x, axis) if reverse else x)
        with np.errstate(all="ignore"):
            result = evaluate.accumulate(wide, axis=axis, dtype=wide.dtype)
            result = result.astype(x.dtype, copy=False)
        return np.flip(result, axis) if reverse else result

    def lower(b: Any, types: Types, x: Any, *, axis: int, reverse: bool) -> Any:
        (type,) = types
        if type.size == 0:
            return x
        size = type.shape[axis]
        initial = b.splat(identity(type.dtype), type.with_shape(()))
        window = [size if i == axis else 1 for i in range(type.ndim)]
        own = (0, size - 1) if reverse else (size - 1, 0)
        padding = [own if i == axis else (0, 0) for i in range(type.ndim)]
        combine = getattr(b, combiner)
        return b.reduce_window(
            types,
            (x,),
            (initial,),
            lambda _, lhs, rhs: combine(lhs, rhs),
            window_dimensions=window,
            padding=padding,
        )[0]

    return Op(
        name,
        doc=doc,
        infer=infer,
        evaluate=evaluate_along,
        lower=lower,
        vjp=vjp,
        axes=_axes(name),
        cost=_cost(combiner),
        batch=leading("axis"),
        merge=running(lambda: registry()[combiner], identity),
        neutral=lambda types, **_: (identity(types[0].dtype),),
    )


def _multiply_vjp(g: Value, out: Value, x: Value, *, axis: int, reverse: bool) -> tuple[Value]:
    """Solve s[k] = g[k] + x[k + 1] * s[k + 1], then weight with the product before k."""
    if x.shape[axis] == 0:
        return (g,)
    direction = 1 if reverse else -1
    weight = helpers.shifted(x, axis, direction, fill=0)
    total = _recurrence(g, weight, Pairs(axis, not reverse))
    return (ops.multiply(total, helpers.shifted(out, axis, -direction, fill=1)),)


def _recurrence(addend: Value, factor: Value, pairs: Pairs) -> Value:
    """Solve s[k] = addend[k] + factor[k] * s[k - 1], for the second elements of all pairs first.

    The first factor is 0. What a level takes from the one before it is stored: XLA would compute it
    again for each element that reads it, which doubles with each level.
    """
    if addend.shape[pairs.axis] == 1:
        return addend
    (first, second), (weight, last) = pairs.halves(addend), pairs.halves(factor)
    count = second.shape[pairs.axis]
    paired = pairs.with_second(first, count), pairs.with_second(weight, count)
    addends = ops.add(second, ops.multiply(last, paired[0]))
    factors = ops.multiply(last, paired[1])
    addends, factors = ops.optimization_barrier(addends, factors)
    (second,) = ops.optimization_barrier(_recurrence(addends, factors, pairs))
    before = pairs.before(second, first.shape[pairs.axis], 0)
    return pairs.interleaved(ops.add(first, ops.multiply(weight, before)), second)


def _extremum_vjp(g: Value, out: Value, x: Value, *, axis: int, reverse: bool) -> tuple[Value]:
    """Add each cotangent at the place where the running extremum was set."""
    size = x.shape[axis]
    if size == 0:
        return (g,)
    before = helpers.shifted(out, axis, -1 if reverse else 1, fill=0)
    places = ops.iota(shape=x.shape, dtype=np.dtype(np.int32), dimension=axis)
    start = size - 1 if reverse else 0
    is_set = ops.and_(ops.compare(x, out, direction="EQ"), ops.compare(out, before, direction="NE"))
    latest = ops.cumulative_minimum if reverse else ops.cumulative_maximum
    found = latest(helpers.where(is_set, places, start), axis=axis, reverse=reverse)
    return (helpers.scatter_add_along_axis(x.shape, found, g, axis),)


cumulative_add: Op = cumulative(
    "cumulative_add",
    "add",
    np.add,
    lambda dtype: 0,
    lambda g, out, x, *, axis, reverse: (ops.cumulative_add(g, axis=axis, reverse=not reverse),),
    doc="Sum of the elements up to each one; from each one on when `reverse`.",
    kinds="iufc",
)
cumulative_multiply: Op = cumulative(
    "cumulative_multiply",
    "multiply",
    np.multiply,
    lambda dtype: 1,
    _multiply_vjp,
    doc="Product of the elements up to each one; from each one on when `reverse`.",
    kinds="iufc",
)
cumulative_maximum: Op = cumulative(
    "cumulative_maximum",
    "maximum",
    np.maximum,
    lowest,
    _extremum_vjp,
    doc="Largest of the elements up to each one; NaN stays.",
    kinds="biuf",
)
cumulative_minimum: Op = cumulative(
    "cumulative_minimum",
    "minimum",
    np.minimum,
    highest,
    _extremum_vjp,
    doc="Smallest of the elements up to each one; NaN stays.",
    kinds="biuf",
)


def _infer_numpy_cumulative(
    x: ShapeDtype, *, combiner: str, axis: int, reverse: bool
) -> ShapeDtype:
    name = "numpy_cumulative"
    require_kind(name, x, "iuf")
    require_axes(name, (axis,), x.ndim)
    if combiner not in _COMBINERS:
        raise ArgumentError(
            f"{name} combines by {combiner!r}", mend=f"use one of {', '.join(_COMBINERS)}"
        )
    if is_float(x.dtype) and x.dtype.itemsize < _WIDE:
        raise DTypeError(f"{name} of {x}", mend="convert it to float32")
    return x


def _evaluate_numpy_cumulative(x: Array, *, combiner: str, axis: int, reverse: bool) -> Array:
    wide = np.flip(x, axis) if reverse else x
    with np.errstate(all="ignore"):
        found = _COMBINERS[combiner].accumulate(wide, axis=axis, dtype=x.dtype)
    return np.flip(found, axis) if reverse else found


_COMBINERS = {
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
}

numpy_cumulative: Op = Op(
    "numpy_cumulative",
    doc="All elements along an axis up to each one, from each one on when `reverse`, combined by "
    "NumPy, one after the other.",
    infer=_infer_numpy_cumulative,
    evaluate=_evaluate_numpy_cumulative,
    lower=lambda b, types, x, *, combiner, axis, reverse: b.numpy_call(
        types, x, combiner, axis, is_reversed=reverse
    ),
    vjp=NotDifferentiable("running reductions become it after they are differentiated"),
    axes=lambda operands, results, *, axis, **_: own_axis_rule(operands, results, axis),
    cost=lambda operands, results, **_: Cost(operands[0].size, moved_bytes(operands, results)),
    reuses=(0,),
    calls_host=True,
    batch=leading("axis"),
)
