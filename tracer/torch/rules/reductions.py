"""Rules of reductions and of cumulative functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import broadcast, convert, reshape
from tracer.array.dispatch import apply
from tracer.errors import ShapeError
from tracer.ir import Op, ShapeDtype
from tracer.numpy.segments import segment_sum
from tracer.numpy.ufunc import compare, full_like, is_nonzero, select
from tracer.torch.rules.operands import axes_of, axis_of, filled, kept
from tracer.torch.table import RULES, Node, rule


def _reduced(op: Op, x: Array, axes: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    return reshape(apply(op, x, axes=axes) if axes else x, shape)


@rule("sum")
def total(node: Node, x: Array, dim: Any = None, keepdim: bool = False, **_: Any) -> Array:
    """Sum, in the dtype of the result."""
    x = convert(x, node.result.dtype)
    return _reduced(ops.reduce_add, x, axes_of(dim, x.ndim), node.result.shape)


@rule("prod")
def product(node: Node, x: Array, dim: Any = None, keepdim: bool = False, **_: Any) -> Array:
    """Multiply all, in the dtype of the result."""
    x = convert(x, node.result.dtype)
    return _reduced(ops.reduce_multiply, x, axes_of(dim, x.ndim), node.result.shape)


@rule("mean")
def mean(node: Node, x: Array, dim: Any = None, keepdim: bool = False, **_: Any) -> Array:
    """Sum and divide by the number of elements."""
    axes = axes_of(dim, x.ndim)
    found = total(node, x, dim, keepdim)
    return apply(ops.divide, found, full_like(found, _count(x, axes)))


def _count(x: Array, axes: tuple[int, ...]) -> int:
    count = 1
    for axis in axes:
        count *= x.shape[axis]
    return count


def moments(x: Array, axes: tuple[int, ...], correction: float) -> tuple[Array, Array]:
    """Return mean and variance, with one element along the axes."""
    shape = kept(x.shape, axes)
    count = _count(x, axes)

    def total(y: Array) -> Array:
        return _reduced(ops.reduce_add, y, axes, shape)

    sums = total(x)
    mean = apply(ops.divide, sums, full_like(sums, count))
    distance = apply(ops.subtract, x, broadcast(mean, x.shape))
    squares = total(apply(ops.multiply, distance, distance))
    return mean, apply(ops.divide, squares, full_like(squares, max(0.0, count - correction)))


@rule("var", "var.correction")
def variance(
    node: Node, x: Array, dim: Any = None, *, correction: Any = 1, keepdim: bool = False
) -> Array:
    """Sum the squares of distances to the mean; divide by their number less the correction."""
    correction = 1 if correction is None else correction
    _, found = moments(x, axes_of(dim, x.ndim), correction)
    return reshape(found, node.result.shape)


@rule("var_mean.correction")
def variance_and_mean(
    node: Node, x: Array, dim: Any = None, *, correction: Any = 1, keepdim: bool = False
) -> Sequence[Array]:
    """Return variance and mean."""
    correction = 1 if correction is None else correction
    mean, found = moments(x, axes_of(dim, x.ndim), correction)
    return [reshape(y, node.result.shape) for y in (found, mean)]


@rule("var.default", "var.dim")
def unbiased_variance(
    node: Node, x: Array, dim: Any = None, unbiased: bool = True, keepdim: bool = False
) -> Array:
    """Divide by one less, unless told not to."""
    if isinstance(dim, bool):  # the overload without dimensions
        dim, unbiased = None, dim
    return variance(node, x, dim, correction=int(unbiased))


def _extreme(op: Op) -> Any:
    def reduce(node: Node, x: Array, dim: Any = (), keepdim: bool = False) -> Array:
        axes = axes_of(dim, x.ndim)
        if not all(x.shape[axis] for axis in axes):
            # torch's own trace lets the largest of all elements pass.
            raise ShapeError(
                f"the largest or smallest element of no elements ({x.type})",
                mend="leave empty tensors out before",
            )
        return _reduced(op, x, axes, node.result.shape)

    return reduce


for _name, _op in {"max": ops.reduce_maximum, "min": ops.reduce_minimum}.items():
    RULES[f"aten.a{_name}"] = RULES[f"aten.{_name}.default"] = _extreme(_op)


def _extreme_and_place(op: Op, find: Op) -> Any:
    def reduce(node: Node, x: Array, dim: int, keepdim: bool = False) -> Sequence[Array]:
        if x.ndim == 0:
            return [x, filled(0, ShapeDtype((), "int64"))]
        axis = axis_of(dim, x.ndim)
        shape = node.result.shape
        place = apply(find, x, axis=axis, index_dtype=np.dtype("int64"))
        return [_reduced(op, x, (axis,), shape), reshape(place, shape)]

    return reduce


RULES["aten.max.dim"] = _extreme_and_place(ops.reduce_maximum, ops.argmax)
RULES["aten.min.dim"] = _extreme_and_place(ops.reduce_minimum, ops.argmin)


def _place(find: Op) -> Any:
    def reduce(node: Node, x: Array, dim: Any = None, keepdim: bool = False) -> Array:
        of_all = dim is None or x.ndim == 0
        flat = reshape(x, (x.size,)) if of_all else x
        axis = 0 if of_all else axis_of(dim, x.ndim)
        found = apply(find, flat, axis=axis, index_dtype=node.result.dtype)
        return reshape(found, node.result.shape)

    return reduce


RULES["aten.argmax"] = _place(ops.argmax)
RULES["aten.argmin"] = _place(ops.argmin)


@rule("histc")
def histc(node: Node, x: Array, bins: int = 100, min: Any = 0, max: Any = 0) -> Array:
    """Count the elements in bins of one width; those outside and NaN are left out."""
    line = reshape(x, (x.size,))
    low, high = (filled(value, ShapeDtype((), x.dtype)) for value in (min, max))
    if min == max and x.size:
        low, high = (apply(op, line, axes=(0,)) for op in (ops.reduce_minimum, ops.reduce_maximum))
    one = full_like(low, 1)
    is_point = compare(low, high, "EQ")
    low = select(is_point, apply(ops.subtract, low, one), low)
    high = select(is_point, apply(ops.add, high, one), high)
    first, width = (broadcast(y, line.shape) for y in (low, apply(ops.subtract, high, low)))
    share = apply(ops.multiply, apply(ops.subtract, line, first), full_like(line, bins))
    place = convert(apply(ops.divide, share, width), np.dtype("int64"))
    place = apply(ops.minimum, place, full_like(place, bins - 1))
    last = broadcast(high, line.shape)
    inside = apply(ops.and_, compare(line, first, "GE"), compare(line, last, "LE"))
    place = select(inside, place, full_like(place, -1))
    return segment_sum(full_like(line, 1), place, num_segments=bins)  # type: ignore[no-any-return]


def _logical(op: Op) -> Any:
    def reduce(node: Node, x: Array, dim: Any = None, keepdim: bool = False) -> Array:
        found = _reduced(op, is_nonzero(x), axes_of(dim, x.ndim), node.result.shape)
        return convert(found, node.result.dtype)

    return reduce


RULES["aten.any"] = _logical(ops.reduce_or)
RULES["aten.all"] = _logical(ops.reduce_and)


def _cumulative(op: Op) -> Any:
    def accumulate(node: Node, x: Array, dim: int, **_: Any) -> Array:
        x = convert(x, node.result.dtype)
        if x.ndim == 0 or not x.size:
            return x
        return apply(op, x, axis=axis_of(dim, x.ndim), reverse=False)

    return accumulate


def _cumulative_extreme(op: Op) -> Any:
    def accumulate(node: Node, x: Array, dim: int) -> Sequence[Array]:
        if x.ndim == 0 or not x.size:
            return [x, filled(0, ShapeDtype(x.shape, "int64"))]
        axis = axis_of(dim, x.ndim)
        values = apply(op, x, axis=axis, reverse=False)
        # The last place that was as good as all before it, or NaN.
        is_hit = apply(ops.or_, compare(x, values, "EQ"), compare(x, x, "NE"))
        places = apply(ops.iota, shape=x.shape, dtype=np.dtype("int64"), dimension=axis)
        hits = select(is_hit, places, full_like(places, 0))
        return [values, apply(ops.cumulative_maximum, hits, axis=axis, reverse=False)]

    return accumulate


RULES["aten.cummax"] = _cumulative_extreme(ops.cumulative_maximum)
RULES["aten.cummin"] = _cumulative_extreme(ops.cumulative_minimum)
RULES["aten.cumsum"] = _cumulative(ops.cumulative_add)
RULES["aten.cumprod"] = _cumulative(ops.cumulative_multiply)
