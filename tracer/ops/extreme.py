"""The extreme of elements that come with their places. Source: StableHLO, reduce of two operands.

XLA:CPU does not vectorise it, so narrow elements are packed with their places
(`ops/packed_extreme.py`); wider ones do not fit. *pack-extremes* writes it for the stages of a long
arg-max or arg-min, behind all derivatives.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer.errors import DTypeError, ShapeError
from tracer.ir import AxisRule, Cost, NotDifferentiable, Op, ShapeDtype
from tracer.ir.op import Types
from tracer.ops.batch import leading
from tracer.ops.reduce import Array, Axes, first_of, highest, kept_axes, lowest, pair_call
from tracer.ops.rules import moved_bytes, own_label, require_axes, require_kind, widened

NAME = "reduce_extreme"


def _infer(
    x: ShapeDtype, places: ShapeDtype, *, axes: Axes, largest: bool
) -> tuple[ShapeDtype, ShapeDtype]:
    require_kind(NAME, x, "biuf")
    require_axes(NAME, axes, x.ndim)
    if places.dtype.kind not in "iu":
        raise DTypeError(f"{NAME}: {places} holds no places", mend="use int32 or int64")
    if places.shape != x.shape:
        raise ShapeError(f"{NAME}: {x} with places {places}", mend="give one for each element")
    kept = [x.shape[axis] for axis in kept_axes(x.ndim, axes)]
    return x.with_shape(kept), places.with_shape(kept)


def _evaluate(x: Array, places: Array, *, axes: Axes, largest: bool) -> Any:
    wide, start = widened(x), _start(x.dtype, largest=largest)
    find = np.maximum if largest else np.minimum
    with np.errstate(all="ignore"):
        best = find.reduce(wide, axis=axes, keepdims=True, initial=start, dtype=wide.dtype)
    is_best = (wide == best) | ((wide != wide) & (best != best))
    most = np.iinfo(places.dtype).max
    first = np.where(is_best, places, most).min(axis=axes, keepdims=True, initial=most)
    first = np.where(best == start, 0, first).astype(places.dtype)
    kept = [x.shape[axis] for axis in kept_axes(x.ndim, axes)]
    return best.reshape(kept).astype(x.dtype), first.reshape(kept)


def _start(dtype: np.dtype[Any], *, largest: bool) -> Any:
    return (lowest if largest else highest)(dtype)


def _lower(b: Any, types: Types, x: Any, places: Any, *, axes: Axes, largest: bool) -> Any:
    starts = (_start(types[0].dtype, largest=largest), 0)
    initial = [b.splat(n, t.with_shape(())) for n, t in zip(starts, types, strict=True)]
    return b.reduce(types, (x, places), initial, axes, first_of("GT" if largest else "LT"))


def _axes(operands: Types, results: Types, *, axes: Axes, largest: bool) -> AxisRule:
    """Keep the reduced axes whole: who slices comes before this op is written."""
    ndim = operands[0].ndim
    labels = tuple(own_label(0, i) if i in axes else i for i in range(ndim))
    kept = kept_axes(ndim, axes)
    return AxisRule((labels, labels), (kept, kept), whole=frozenset(set(labels) - set(kept)))


def _cost(operands: Types, results: Types, *, axes: Axes, **_: Any) -> Cost:
    call = pair_call(operands[0], operands[1], axes)
    return Cost(2 * operands[0].size, moved_bytes(operands, results), calls=(call,))


reduce_extreme: Op = Op(
    NAME,
    doc="The largest (or smallest) element over axes, and the smallest of the places that equal "
    "ones have; NaN counts as both. Where nothing is larger than -infinity, -infinity at 0.",
    infer=_infer,
    evaluate=_evaluate,
    lower=_lower,
    vjp=NotDifferentiable("it is written behind all derivatives"),
    axes=_axes,
    cost=_cost,
    fusion="reduce",
    batch=leading("axes"),
    neutral=lambda types, *, largest, **_: (_start(types[0].dtype, largest=largest), 0),
)
