"""Rules of sorting. NaN counts as the largest, as in torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import convert, reshape
from tracer.array.dispatch import apply, apply_many
from tracer.errors import UnsupportedError
from tracer.ir import ShapeDtype
from tracer.numpy.searching import searchsorted as find_places
from tracer.numpy.taking import take_along_axis
from tracer.numpy.ufunc import compare, full_like, select
from tracer.torch.rules.operands import axis_of, filled
from tracer.torch.rules.shapes import cut
from tracer.torch.table import Node, rule

_INT64 = np.dtype("int64")


def _sorted(x: Array, axis: int, is_descending: bool) -> list[Array]:
    """Sort, equal ones in their order; returns the places too."""
    places = apply(ops.iota, shape=x.shape, dtype=_INT64, dimension=axis)
    arrays = [x, places]
    if is_descending:
        arrays = [apply(ops.reverse, y, dimensions=(axis,)) for y in arrays]
    found = apply_many(ops.sort, *arrays, dimension=axis, num_keys=1, is_stable=True)
    if is_descending:
        return [apply(ops.reverse, y, dimensions=(axis,)) for y in found]
    return list(found)


@rule("sort.default")
def sort(node: Node, x: Array, dim: int = -1, descending: bool = False) -> Sequence[Array]:
    """Sort along an axis."""
    if x.ndim == 0:
        return [x, filled(0, ShapeDtype((), _INT64))]
    return _sorted(x, axis_of(dim, x.ndim), descending)


@rule("sort.stable")
def sort_stable(
    node: Node, x: Array, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> Sequence[Array]:
    """Sort along an axis."""
    return sort(node, x, dim, descending)


@rule("argsort")
def argsort(node: Node, x: Array, dim: int = -1, descending: bool = False) -> Array:
    """Return the places in order."""
    return sort(node, x, dim, descending)[1]


@rule("topk")
def topk(
    node: Node, x: Array, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> Sequence[Array]:
    """Find the largest or smallest elements along an axis."""
    if x.ndim == 0:
        return [x, filled(0, ShapeDtype((), _INT64))]
    axis = axis_of(dim, x.ndim)
    if largest and axis == x.ndim - 1 and 0 < k and x.dtype.kind in "iuf":
        values, places = apply_many(ops.top_k, x, k=k)
        return [values, convert(places, _INT64)]
    return [cut(y, axis, 0, k) for y in _sorted(x, axis, largest)]


@rule("searchsorted", "bucketize")
def searchsorted(
    node: Node,
    first: Array,
    second: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Array | None = None,
) -> Array:
    """Find where elements belong between sorted ones; each line of several has its own."""
    line, x = (second, first) if "bucketize" in node.name else (first, second)
    if not isinstance(x, Array):
        x = filled(x, ShapeDtype((), line.dtype))
    if line.dtype != x.dtype:
        raise UnsupportedError(
            f"torch's {node.name} of two dtypes", mend="search among elements of the same dtype"
        )
    if sorter is not None:
        line = take_along_axis(line, sorter, -1, mode="promise_in_bounds")
    is_right = right or side == "right"
    if line.ndim == 1:
        found = find_places(line, x, side="right" if is_right else "left")
    else:
        found = _places_in_lines(line, x, is_right)
    return convert(found, node.result.dtype)


def _places_in_lines(lines: Array, x: Array, is_right: bool) -> Array:
    """Halve what is left of each line, as often for each element; NaN is behind all."""
    found = filled(0, ShapeDtype(x.shape, _INT64))
    left = lines.shape[-1]
    while left > 0:
        half = max(left // 2, 1)
        later = apply(ops.add, found, full_like(found, half))
        before = apply(ops.subtract, later, full_like(found, 1))
        mid = take_along_axis(lines, before, -1, mode="promise_in_bounds")
        is_past = apply(ops.not_, compare(mid, x, "GT" if is_right else "GE"))
        found = select(is_past, later, found)
        left = left - half if left > 1 else 0
    return found


@rule("kthvalue")
def kthvalue(node: Node, x: Array, k: int, dim: int = -1, keepdim: bool = False) -> Sequence[Array]:
    """Find the k-th smallest element along an axis."""
    if x.ndim == 0:
        return [x, filled(0, ShapeDtype((), _INT64))]
    axis = axis_of(dim, x.ndim)
    found = _sorted(x, axis, False)
    return [reshape(cut(y, axis, k - 1, k), node.result.shape) for y in found]


@rule("mode")
def mode(node: Node, x: Array, dim: int = -1, keepdim: bool = False) -> Sequence[Array]:
    """Find the most frequent element along an axis, the smallest of several, and its last place."""
    if x.ndim == 0:
        return [x, filled(0, ShapeDtype((), _INT64))]
    axis = axis_of(dim, x.ndim)
    found = _sorted(x, axis, False)
    size = x.shape[axis]
    steps = apply(ops.iota, shape=x.shape, dtype=_INT64, dimension=axis)
    before = apply(
        ops.concatenate,
        *[cut(found[0], axis, a, b) for a, b in ((0, 1), (0, size - 1))],
        dimension=axis,
    )
    starts = select(compare(found[0], before, "EQ"), full_like(steps, 0), steps)
    length = apply(
        ops.subtract, steps, apply(ops.cumulative_maximum, starts, axis=axis, reverse=False)
    )
    best = apply(ops.argmax, length, axis=axis, index_dtype=_INT64)
    place = reshape(best, (*x.shape[:axis], 1, *x.shape[axis + 1 :]))
    return [reshape(take_along_axis(y, place, axis), node.result.shape) for y in found]
