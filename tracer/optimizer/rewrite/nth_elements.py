"""The elements at given places of a sorted axis, without sorting it.

The k-th smallest of unsigned integers is found digit by digit: of the numbers that begin with the
digits found so far and go on with each digit, the largest that at most k elements lie below. Each
digit takes one pass over the array. Selection by radix: Knuth, The Art of Computer Programming 3,
section 5.2.5; Alabi et al. 2012, "Fast k-selection algorithms for graphics processing units".

Floats are looked for as integers that are in their order.
"""

from __future__ import annotations

import numpy as np

from tracer import ops
from tracer.ir import Value
from tracer.ops.helpers import convert, full
from tracer.ops.rules import is_float
from tracer.ops.sort_keys import signed_keys, sort_keys, sorted_floats, unsigned_keys

_DIGIT = 2
"""Bits of a digit. More take fewer passes, and 2 ** bits - 1 comparisons of each element."""


def nth_elements(x: Value, axis: int, places: Value) -> Value:
    """Emit the elements that are at some places of an axis once it is sorted.

    Parameters
    ----------
    x : Value
        Integers or floats. NaN is the largest.
    axis : int
        Of `x`.
    places : Value
        Integers from 0 to less than the size of the axis; the first axis, then those of `x` without
        the axis.

    Returns
    -------
    Value
        In the shape of `places`.
    """
    if is_float(x.dtype):
        return sorted_floats(_nth(sort_keys(x), axis, places), x.dtype)
    return _nth(x, axis, places)


def _nth(keys: Value, axis: int, places: Value) -> Value:
    is_signed = keys.dtype.kind == "i"
    if is_signed:  # In the order of unsigned integers the sign comes last.
        keys = unsigned_keys(keys)
    found = full(0, places.type.with_dtype(keys.dtype))
    for shift in range(8 * keys.dtype.itemsize - _DIGIT, -1, -_DIGIT):
        digit = _digit(keys, axis, places, found, shift)
        found = ops.add(found, ops.multiply(digit, full(1 << shift, digit.type)))
    return signed_keys(found) if is_signed else found


def _digit(keys: Value, axis: int, places: Value, found: Value, shift: int) -> Value:
    """Emit the next digit: how many of the numbers with a larger one have few elements below.

    Small arrays have the axes place, digit, rows; large ones those of the keys for the rows.
    """
    count, *rows = places.shape
    shape = (count, 2**_DIGIT - 1, *rows)
    behind = (0, *range(2, len(shape)))
    steps = np.arange(1, shape[1] + 1, dtype=keys.dtype) << np.array(shift, keys.dtype)
    bounds = ops.add(
        ops.broadcast_in_dim(found, shape=shape, dimensions=behind),
        ops.broadcast_in_dim(ops.constant(value=steps), shape=shape, dimensions=(1,)),
    )
    whole = (*shape[:2], *keys.shape)
    of_rows = (i for i in range(2, len(whole)) if i != axis + 2)
    below = ops.compare(
        ops.broadcast_in_dim(keys, shape=whole, dimensions=tuple(range(2, len(whole)))),
        ops.broadcast_in_dim(bounds, shape=whole, dimensions=(0, 1, *of_rows)),
        direction="LT",
    )
    counts = ops.reduce_add(convert(below, places.dtype), axes=(axis + 2,))
    wanted = ops.broadcast_in_dim(places, shape=shape, dimensions=behind)
    is_reached = convert(ops.compare(counts, wanted, direction="LE"), keys.dtype)
    return ops.reduce_add(is_reached, axes=(1,))  # type: ignore[no-any-return]


__all__ = ["nth_elements"]
