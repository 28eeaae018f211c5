"""Searching a sorted vector."""

from __future__ import annotations

from tracer import ops
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, broadcast, convert, scalar
from tracer.array.dispatch import apply, compound
from tracer.array.promotion import promote_types
from tracer.errors import ArgumentError, ShapeError
from tracer.ir import as_dtype
from tracer.numpy.bounds import TRUSTED
from tracer.numpy.complex_order import is_before
from tracer.numpy.indexing import Gather, _gather
from tracer.numpy.taking import take
from tracer.numpy.ufunc import compare, full_like, select

_INT32, _INT64 = as_dtype("int32"), as_dtype("int64")


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
    """Halve what is left of the vector, as often for each value: no step asks whether it is over.

    Source: Khuong, Morin, "Array layouts for comparison-based searching" (2017), section 3.2.
    """
    dtype = promote_types(x.dtype, values.dtype)
    x, values = convert(x, dtype), convert(values, dtype)
    direction, index = "LT" if side == "left" else "LE", _INT32 if x.size < 2**31 else _INT64
    gather = Gather((0,), (False,), 0, (False,), TRUSTED)
    first = broadcast(scalar(0, index), values.shape)
    left = x.size
    while left > 0:
        half = max(left // 2, 1)
        later = apply(ops.add, first, full_like(first, half))
        found = _gather(x, apply(ops.subtract, later, full_like(first, 1)), gather=gather)
        first = select(is_before(found, values, direction), later, first)
        left = left - half if left > 1 else 0
    if dtype.kind not in "biuc" and x.size:
        first = select(compare(values, values, "NE"), _of_nan(x, side, first), first)
    return convert(first, _INT64)


def _of_nan(x: Array, side: str, like: Array) -> Array:
    """Return where NaN goes, the largest of all: behind all numbers, or all elements."""
    if side == "right":
        return full_like(like, x.size)
    is_number = convert(compare(x, x, "EQ"), like.dtype)
    return broadcast(apply(ops.reduce_add, is_number, axes=(0,)), like.shape)
