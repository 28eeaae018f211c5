"""Reductions of rows that belong together, as `jax.ops`: `tracer.segment_sum` and its like."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from tracer import ops
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, broadcast, convert, reshape, scalar
from tracer.array.dispatch import apply, compound
from tracer.errors import ArgumentError, DTypeError, ShapeError
from tracer.ir import as_dtype
from tracer.numpy.bounds import WRITE, bounds_of, clipped
from tracer.numpy.elementwise import where
from tracer.numpy.logic import logical_and
from tracer.numpy.positions import concrete
from tracer.ops.reduce import highest, lowest

_DOC = """{summary}

Parameters
----------
data : array_like, shape (rows, ...)
    What is reduced.
segment_ids : array_like of int, shape (rows,)
    The segment of each row, in any order. Rows of segments that are not in
    0..num_segments-1 are left out.
num_segments : int, optional
    How many segments there are; by default one more than the largest number of a known
    `segment_ids`. In a trace it is required.
indices_are_sorted : bool
    A promise, of which nothing is made.
unique_indices : bool
    A promise that no segment has several rows.
bucket_size : int, optional
    So many rows at a time are reduced, and then the results: sums of many rows are rounded less.
    Takes the memory of a result for each bucket.
mode : {{None, "clip", "drop", "fill", "promise_in_bounds"}}
    "clip" moves numbers that are no segment to the nearest one; with any other mode their rows are
    left out.

Returns
-------
Array, shape (num_segments, ...)
    In the dtype of `data`; {empty} where a segment has no rows.

Raises
------
ShapeError, DTypeError
    `segment_ids` is no vector of integers with one number for each row.
ArgumentError
    `num_segments` is negative, `bucket_size` is not positive, or there is no such `mode`.
TracingError
    `segment_ids` is traced and `num_segments` is not given.

Examples
--------
>>> import tracer
>>> tracer.{name}([1.0, 2.0, 3.0], [0, 2, 0], num_segments=3).tolist()
{example}
"""


def _segment(name: str, combiner: str, start: Any, summary: str, empty: str, example: str) -> Any:
    def reduce_segments(
        data: ArrayLike,
        segment_ids: ArrayLike,
        num_segments: int | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        bucket_size: int | None = None,
        mode: str | None = None,
    ) -> Array:
        del indices_are_sorted
        rows, places = as_array(data), as_array(segment_ids)
        _check(name, rows, places)
        count = _count(name, segment_ids, num_segments)
        return _scattered(
            rows,
            places,
            count=count,
            combiner=combiner,
            start=start(rows.dtype),
            is_unique=bool(unique_indices),
            bucket=_bucket(name, bucket_size, rows.shape[0]),
            clips=bounds_of(mode, WRITE).mode == "clip",
        )

    reduce_segments.__name__ = reduce_segments.__qualname__ = name
    reduce_segments.__doc__ = _DOC.format(name=name, summary=summary, empty=empty, example=example)
    return reduce_segments


def _check(name: str, rows: Array, places: Array) -> None:
    if places.dtype.kind not in "iu":
        raise DTypeError(f"{name}: segment_ids is {places.type}", mend="give integers")
    if places.ndim != 1 or rows.shape[:1] != places.shape:
        raise ShapeError(
            f"{name}: data {rows.shape} and segment_ids {places.shape} do not fit",
            mend="give one number for each row of data",
        )


def _count(name: str, segment_ids: ArrayLike, num_segments: int | None) -> int:
    if num_segments is None:
        known = concrete(name, segment_ids, "give num_segments=")
        return max(0, int(known.max(initial=-1)) + 1)
    count = operator.index(num_segments)
    if count < 0:
        raise ArgumentError(f"{name}: num_segments={count}", mend="give 0 or more")
    return count


def _bucket(name: str, size: int | None, rows: int) -> int:
    """Return how many rows are reduced at a time."""
    given = max(rows, 1) if size is None else operator.index(size)
    if given < 1:
        raise ArgumentError(f"{name}: bucket_size={given}", mend="give 1 or more, or None")
    return given


@compound
def _scattered(
    rows: Array, places: Array, *, count: int, combiner: str, start: Any, is_unique: bool,
    bucket: int, clips: bool,
) -> Array:  # fmt: skip
    dtype, rest = rows.dtype, rows.shape[1:]
    if not count:
        return broadcast(scalar(0, dtype), (0, *rest))
    if dtype.kind == "b":
        rows, start = convert(rows, as_dtype("uint8")), np.uint8(start)
    if places.dtype == np.uint64:  # what is no int64 is out of bounds in any case
        most = scalar(np.iinfo(np.int64).max, places.dtype)
        places = apply(ops.minimum, places, broadcast(most, places.shape))
    places = convert(places, as_dtype("int64"))
    if clips:
        places = clipped(places, count)
    buckets = max(1, -(-rows.shape[0] // bucket))
    if buckets > 1:
        places = _in_buckets(places, count, bucket)
    empty = broadcast(scalar(start, rows.dtype), (buckets * count, *rest))
    found = apply(
        ops.scatter,
        empty,
        reshape(places, (places.shape[0], 1)),
        rows,
        combiner=combiner,
        update_window_dims=tuple(range(1, rows.ndim)),
        inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,),
        index_vector_dim=1,
        unique_indices=is_unique,
        input_batching_dims=(),
        scatter_indices_batching_dims=(),
    )
    if buckets > 1:
        apart = reshape(found, (buckets, count, *rest))
        found = apply(getattr(ops, f"reduce_{combiner}"), apart, axes=(0,))
    return found if found.dtype == dtype else convert(found, dtype)


def _in_buckets(places: Array, count: int, bucket: int) -> Array:
    """Give the segments of each bucket numbers of their own; what is no segment stays outside."""
    number = apply(ops.iota, shape=places.shape, dtype=places.dtype, dimension=0) // bucket
    inside = logical_and(places >= 0, places < count)
    most = np.iinfo(np.int64).max
    return where(inside, number * count + places, most)  # type: ignore[no-any-return]


segment_sum = _segment(
    "segment_sum", "add", lambda dtype: 0, "Sums of rows by segment.", "0", "[4.0, 0.0, 2.0]"
)
segment_prod = _segment(
    "segment_prod",
    "multiply",
    lambda dtype: 1,
    "Products of rows by segment.",
    "1",
    "[3.0, 1.0, 2.0]",
)
segment_max = _segment(
    "segment_max",
    "maximum",
    lowest,
    "Largest elements of rows by segment.",
    "-infinity, or the smallest integer,",
    "[3.0, -inf, 2.0]",
)
segment_min = _segment(
    "segment_min",
    "minimum",
    highest,
    "Smallest elements of rows by segment.",
    "infinity, or the largest integer,",
    "[1.0, inf, 2.0]",
)

__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]
