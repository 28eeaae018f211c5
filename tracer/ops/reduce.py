"""Reductions over axes, arg-max and arg-min. Source: StableHLO specification, reduce.

If a maximum or minimum is reached several times, each position gets an equal share of the gradient,
as in JAX. The product's gradient uses no division, so it is right where factors are 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tracer import ops
from tracer.errors import DTypeError, ShapeError
from tracer.ir import AxisRule, Cost, Merge, NotDifferentiable, Op, ShapeDtype, Value, as_dtype
from tracer.ir.combining import AT_LEAST, AT_MOST, TOTAL, Response
from tracer.ir.library_calls import ReductionCall
from tracer.ir.op import Types
from tracer.ops import helpers
from tracer.ops.batch import leading
from tracer.ops.elementwise import INTEGER, Vjp
from tracer.ops.merges import first_extreme
from tracer.ops.packed_extreme import fits, packed_call
from tracer.ops.rules import (
    dtype_kind,
    is_float,
    moved_bytes,
    own_label,
    require_axes,
    require_kind,
    widened,
)

Array = np.ndarray[Any, Any]
Axes = tuple[int, ...]
# Of a step along a row, beside a sum's: two comparisons for the order and two for NaN.
_PAIR_FLOPS = 4


def lowest(dtype: np.dtype[Any]) -> Any:
    """Return the identity of maximum: -infinity, the smallest integer, or False."""
    if dtype.kind == "b":
        return False
    return np.iinfo(dtype).min if dtype.kind in "iu" else _infinity(dtype, -1)


def highest(dtype: np.dtype[Any]) -> Any:
    """Return the identity of minimum: infinity, the largest integer, or True."""
    if dtype.kind == "b":
        return True
    return np.iinfo(dtype).max if dtype.kind in "iu" else _infinity(dtype, 1)


def _infinity(dtype: np.dtype[Any], sign: int) -> float:
    """Return the infinity, or the largest number of a dtype without one (float8_e4m3fn)."""
    bound = sign * math.inf
    if np.isinf(np.array(bound, dtype).astype(np.float64)):
        return bound
    return sign * 448.0


def kept_axes(ndim: int, axes: Axes) -> Axes:
    """Return the axes that a reduction over `axes` keeps."""
    return tuple(axis for axis in range(ndim) if axis not in axes)


def spread_back(x: Value, shape: tuple[int, ...], axes: Axes) -> Value:
    """Broadcast a reduced array back along the axes that were reduced."""
    dimensions = kept_axes(len(shape), axes)
    return ops.broadcast_in_dim(x, shape=shape, dimensions=dimensions)  # type: ignore[no-any-return]


def _reduce_axes(combiner: str) -> Callable[..., AxisRule]:
    def rule(operands: Types, results: Types, *, axes: Axes) -> AxisRule:
        labels = tuple(range(operands[0].ndim))
        return AxisRule((labels,), (kept_axes(len(labels), axes),), dict.fromkeys(axes, combiner))

    return rule


def _reduce_cost(*, is_extreme: bool) -> Callable[..., Cost]:
    """One operation for each element; what stages leave is the target's to say."""

    def cost(operands: Types, results: Types, *, axes: Axes) -> Cost:
        x = operands[0]
        itemsize = max(4, x.dtype.itemsize) if is_float(x.dtype) else x.dtype.itemsize
        call = ReductionCall(
            x.shape, axes, itemsize, step_flops=int(is_extreme), is_extreme=is_extreme
        )
        return Cost(x.size, moved_bytes(operands, results), calls=(call,))

    return cost


def reduction(
    name: str,
    combiner: str,
    evaluate: np.ufunc,
    identity: Callable[[np.dtype[Any]], Any],
    vjp: Vjp,
    *,
    doc: str,
    kinds: str,
    method: str | None = None,
    response: Response | None = None,
) -> Op:
    """Make the record of a reduction over the parameter `axes`.

    Parameters
    ----------
    name : str
        Name of the op.
    combiner : str
        Name of the element-wise op that joins two partial results.
    evaluate : numpy.ufunc
        NumPy's element-wise function.
    identity : callable
        Neutral element, from the dtype.
    vjp : callable or NotDifferentiable
        See `Op.vjp`.
    doc : str
        What it computes.
    kinds : str
        Dtype kinds taken.
    method : str, optional
        Builder method of the combiner, when its name differs.
    response : Response, optional
        See `Op.response`.
    """

    def infer(x: ShapeDtype, *, axes: Axes) -> ShapeDtype:
        require_kind(name, x, kinds)
        require_axes(name, axes, x.ndim)
        return x.with_shape(x.shape[axis] for axis in kept_axes(x.ndim, axes))

    def evaluate_reduce(x: Array, *, axes: Axes) -> Any:
        wide = widened(x)
        with np.errstate(all="ignore"):
            initial = identity(x.dtype)
            result = evaluate.reduce(wide, axis=axes, dtype=wide.dtype, initial=initial)
        return np.asarray(result).astype(x.dtype, copy=False)

    def lower(b: Any, types: Types, x: Any, *, axes: Axes) -> Any:
        initial = b.splat(identity(types[0].dtype), types[0].with_shape(()))
        combine = getattr(b, method or combiner)

        def combined(_: Any, lhs: Any, rhs: Any) -> tuple[Any]:
            return (combine(lhs, rhs),)

        return b.reduce(types, (x,), (initial,), axes, combined)[0]

    return Op(
        name,
        doc=doc,
        infer=infer,
        evaluate=evaluate_reduce,
        lower=lower,
        vjp=vjp,
        axes=_reduce_axes(combiner),
        cost=_reduce_cost(is_extreme=response in (AT_LEAST, AT_MOST)),
        fusion="reduce",
        batch=leading("axes"),
        response=response,
        neutral=lambda types, **_: (identity(types[0].dtype),),
    )


def _extremum_vjp(g: Value, out: Value, x: Value, *, axes: Axes) -> tuple[Value]:
    if x.type.size == 0:  # 0 / 0 places would reach forward mode as NaN
        return (helpers.zeros_like(x),)
    reached = ops.compare(x, spread_back(out, x.shape, axes), direction="EQ")
    count = ops.reduce_add(helpers.convert(reached, x.dtype), axes=axes)
    return (helpers.where(reached, spread_back(ops.divide(g, count), x.shape, axes)),)


def _multiply_vjp(g: Value, out: Value, x: Value, *, axes: Axes) -> tuple[Value]:
    """Weight with the product of the factors before each one and of those behind it."""
    if not axes:
        return (g,)
    kept = kept_axes(len(x.shape), axes)
    order = (*kept, *axes)
    moved = ops.transpose(x, permutation=order)
    line = ops.reshape(
        moved, shape=(*(x.shape[axis] for axis in kept), math.prod(x.shape[axis] for axis in axes))
    )
    before = exclusive_product(line, axis=len(kept), reverse=False)
    behind = exclusive_product(line, axis=len(kept), reverse=True)
    others = ops.reshape(ops.multiply(before, behind), shape=moved.shape)
    inverse = tuple(int(i) for i in np.argsort(order))
    others = ops.transpose(others, permutation=inverse)
    return (ops.multiply(spread_back(g, x.shape, axes), others),)


def exclusive_product(x: Value, *, axis: int, reverse: bool) -> Value:
    """Return the product of the elements before each one (behind it when `reverse`)."""
    products = ops.cumulative_multiply(x, axis=axis, reverse=reverse)
    return helpers.shifted(products, axis, -1 if reverse else 1, fill=1)


reduce_add: Op = reduction(
    "reduce_add",
    "add",
    np.add,
    lambda dtype: 0,
    lambda g, out, x, *, axes: (spread_back(g, x.shape, axes),),
    doc="Sum over axes.",
    kinds="iufc",
    response=TOTAL,
)
reduce_partial_sums: Op = reduction(
    "reduce_partial_sums",
    "add",
    np.add,
    lambda dtype: -0.0,
    lambda g, out, x, *, axes: (spread_back(g, x.shape, axes),),
    doc="Sum over axes of what `reduce_add` left. It begins with -0: XLA makes one chain of two "
    "sums that begin with the same number.",
    kinds="fc",
    response=TOTAL,
)
reduce_multiply: Op = reduction(
    "reduce_multiply",
    "multiply",
    np.multiply,
    lambda dtype: 1,
    _multiply_vjp,
    doc="Product over axes.",
    kinds="iufc",
)
reduce_maximum: Op = reduction(
    "reduce_maximum",
    "maximum",
    np.maximum,
    lowest,
    _extremum_vjp,
    doc="Largest element over axes; NaN if one is NaN; -infinity of nothing.",
    kinds="biuf",
    response=AT_LEAST,
)
reduce_minimum: Op = reduction(
    "reduce_minimum",
    "minimum",
    np.minimum,
    highest,
    _extremum_vjp,
    doc="Smallest element over axes; NaN if one is NaN; infinity of nothing.",
    kinds="biuf",
    response=AT_MOST,
)
reduce_and: Op = reduction(
    "reduce_and",
    "and",
    np.bitwise_and,
    lambda dtype: True if dtype.kind == "b" else np.invert(np.zeros((), dtype)),
    INTEGER,
    doc="And over axes.",
    kinds="biu",
    method="and_",
)
reduce_or: Op = reduction(
    "reduce_or",
    "or",
    np.bitwise_or,
    lambda dtype: False if dtype.kind == "b" else 0,
    INTEGER,
    doc="Or over axes.",
    kinds="biu",
    method="or_",
)


def _infer_arg(name: str) -> Callable[..., ShapeDtype]:
    def infer(x: ShapeDtype, *, axis: int, index_dtype: np.dtype[Any]) -> ShapeDtype:
        require_axes(name, (axis,), x.ndim)
        require_kind(name, x, "biuf")
        if x.shape[axis] == 0:
            raise ShapeError(
                f"{name} of {x} along axis {axis}, which is empty",
                mend="give an axis of size 1 or more",
            )
        if dtype_kind(as_dtype(index_dtype)) not in "iu":
            raise DTypeError(f"{name}: {index_dtype} holds no index", mend="use int32 or int64")
        return ShapeDtype((*x.shape[:axis], *x.shape[axis + 1 :]), index_dtype)

    return infer


def first_of(direction: str) -> Callable[..., tuple[Any, Any]]:
    """Return the combiner of (value, index) pairs; commutative also for NaN and ties."""

    def is_nan(b: Any, x: Any) -> Any:
        return b.compare("NE", x, x)

    def combine(b: Any, x: Any, i: Any, y: Any, j: Any) -> tuple[Any, Any]:
        only_x_is_nan = b.and_(is_nan(b, x), b.compare("EQ", y, y))
        both_are_nan = b.and_(is_nan(b, x), is_nan(b, y))
        wins = b.or_(b.compare(direction, x, y), only_x_is_nan)
        ties = b.or_(b.compare("EQ", x, y), both_are_nan)
        first = b.or_(wins, b.and_(ties, b.compare("LT", i, j)))
        return b.select(wins, x, y), b.select(first, i, j)

    return combine


def _lower_arg(direction: str, identity: Callable[[np.dtype[Any]], Any]) -> Callable[..., Any]:
    """Lower to one reduction of (value, index) pairs; *pack-extremes* writes others on CPUs."""

    def lower(b: Any, types: Types, x: Any, *, axis: int, index_dtype: np.dtype[Any]) -> Any:
        type = x.type
        indices = b.iota(type.with_dtype(index_dtype), axis)
        initial = b.splat(identity(type.dtype), ShapeDtype((), type.dtype))
        zero = b.splat(0, ShapeDtype((), index_dtype))
        value_type = ShapeDtype(types[0].shape, type.dtype)
        pair = (value_type, types[0])
        combine = first_of(direction)
        return b.reduce(pair, (x, indices), (initial, zero), (axis,), combine)[1]

    return lower


def _arg_axes(name: str) -> Callable[..., AxisRule]:
    def rule(operands: Types, results: Types, *, axis: int, index_dtype: np.dtype[Any]) -> AxisRule:
        labels = tuple(own_label(0, i) if i == axis else i for i in range(operands[0].ndim))
        kept = tuple(label for i, label in enumerate(labels) if i != axis)
        return AxisRule((labels,), (kept,), {labels[axis]: name})

    return rule


def _evaluate_arg(find: Callable[..., Any]) -> Callable[..., Any]:
    def evaluate(x: Array, *, axis: int, index_dtype: np.dtype[Any]) -> Any:
        return np.asarray(find(widened(x), axis=axis)).astype(index_dtype)

    return evaluate


def _arg_cost(operands: Types, results: Types, *, axis: int, **_: Any) -> Cost:
    """Two operations for each element; partial results are values and their places.

    Where they are not packed into one number, XLA writes the extremes beside their places.
    """
    x, moved = operands[0], moved_bytes(operands, results)
    if fits(x, axis):
        return Cost(2 * x.size, moved, calls=(packed_call(x, axis),))
    extremes = results[0].size * x.dtype.itemsize
    call = pair_call(x, results[0], (axis,))
    return Cost(2 * x.size, moved, scratch=extremes, calls=(call,))


def pair_call(x: ShapeDtype, places: ShapeDtype, axes: Axes) -> ReductionCall:
    """Return what a target has to know of a reduction of elements with their places."""
    itemsize = x.dtype.itemsize + places.dtype.itemsize
    return ReductionCall(x.shape, axes, itemsize, step_flops=_PAIR_FLOPS, is_extreme=True)


def _arg(
    name: str,
    find: Callable[..., Any],
    lower: Callable[..., Any],
    merge: Merge,
    last: Callable[[np.dtype[Any]], Any],
    doc: str,
) -> Op:
    return Op(
        name,
        doc=doc,
        infer=_infer_arg(name),
        evaluate=_evaluate_arg(find),
        lower=lower,
        vjp=NotDifferentiable("an index does not move with the values", zero=True),
        axes=_arg_axes(name),
        cost=_arg_cost,
        fusion="reduce",
        batch=leading("axis"),
        merge=merge,
        neutral=lambda types, **_: (last(types[0].dtype),),
    )


argmax: Op = _arg(
    "argmax",
    np.argmax,
    _lower_arg("GT", lowest),
    first_extreme("GT", lambda: reduce_maximum, lowest),
    lowest,
    "Index of the largest element along one axis; the first of several; NaN counts as largest.",
)
argmin: Op = _arg(
    "argmin",
    np.argmin,
    _lower_arg("LT", highest),
    first_extreme("LT", lambda: reduce_minimum, highest),
    highest,
    "Index of the smallest element along one axis; the first of several; NaN counts as smallest.",
)
