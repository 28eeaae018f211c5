"""Searching a sorted vector."""

from __future__ import annotations

import math

from tracer import ops
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, broadcast, convert, scalar
from tracer.array.dispatch import apply, compound
from tracer.array.promotion import promote_types
from tracer.errors import ArgumentError, ShapeError
from tracer.ir import as_dtype
from tracer.numpy.bounds import TRUSTED
from tracer.numpy.indexing import Gather, _gather
from tracer.numpy.taking import take
from tracer.numpy.ufunc import compare, full_like, select

_INT64 = as_dtype("int64")


def searchsorted(
    a: ArrayLike, v: ArrayLike, side: str = "left", sorter: ArrayLike | None = None
) -> Array:
    """Return where to insert elements to keep a vector sorted.

    Parameters
    ----------
    a : array_like, one axis
        Sorted.
    v : array_like
        What would be inserted.
    side : {"left", "right"}
        Before or after equal elements.
    sorter : array_like of int, optional
        Indices that sort `a`, which then need not be sorted.

    Returns
    -------
    Array of int64, the shape of `v`
        The places, found by bisection.
    """
    if side not in ("left", "right"):
        raise ArgumentError(f"side {side!r} is not known", mend='use "left" or "right"')
    x, values = as_array(a), as_array(v)
    if x.ndim != 1:
        raise ShapeError(
            f"searchsorted looks in a vector, not in shape {x.shape}", mend="give a sorted vector"
        )
    if sorter is not None and as_array(sorter).ndim != 1:
        raise ShapeError("searchsorted: sorter is no vector", mend="give argsort(a)")
    if sorter is not None:
        x = take(x, as_array(sorter))
    return _searchsorted(x, values, side=side)


@compound
def _searchsorted(x: Array, values: Array, *, side: str) -> Array:
    dtype = promote_types(x.dtype, values.dtype)
    x, values = convert(x, dtype), convert(values, dtype)
    low = broadcast(scalar(0, _INT64), values.shape)
    high = broadcast(scalar(x.size, _INT64), values.shape)
    gather = Gather((0,), (False,), 0, (False,), TRUSTED)
    for _ in range(math.ceil(math.log2(x.size + 1)) if x.size else 0):
        middle = apply(ops.shift_right_arithmetic, apply(ops.add, low, high), full_like(low, 1))
        found = _gather(x, middle, gather=gather)
        is_open = compare(low, high, "LT")
        goes_right = apply(ops.and_, is_open, _is_before(found, values, side))
        goes_left = apply(ops.and_, is_open, apply(ops.not_, goes_right))
        low = select(goes_right, apply(ops.add, middle, full_like(low, 1)), low)
        high = select(goes_left, middle, high)
    return low


def _is_before(x: Array, values: Array, side: str) -> Array:
    """Tell which elements of the vector come before the position; NaN is the largest."""
    direction = "LT" if side == "left" else "LE"
    result = compare(x, values, direction)
    if x.dtype.kind in "biu":
        return result
    x_nan, value_nan = compare(x, x, "NE"), compare(values, values, "NE")
    by_nan = apply(ops.not_, x_nan) if side == "left" else full_like(x_nan, True)
    return select(value_nan, by_nan, result)
