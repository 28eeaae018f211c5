"""The place of an extreme on CPU: one integer holds an element's order and its position.

XLA:CPU does not vectorise a reduction of (value, index) pairs: measured 40 to 60 times slower than
the maximum alone. So elements of up to 32 bits become integers of the same order in the upper half
of an int64, whose lower half counts down along the axis. The largest of these integers is the first
of the largest elements. That is one plain reduction, which XLA vectorises and fuses with the
computation of the elements, and which reads them once.

The functions add nodes to the current builder: the pass *pack-extremes* writes arg-max, arg-min and
the largest of each row with them, *stage-selections* the rounds of a top-k.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer import ops
from tracer.ir import ShapeDtype, Value
from tracer.ir.library_calls import ReductionCall
from tracer.ops import helpers
from tracer.ops.rules import is_float

_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)
# Of the algorithm, on every machine: the two halves of the widest integer that StableHLO has.
_WIDTH = 32
_PACKED_BYTES = 8
PACKING_FLOPS = 8
"""What it takes to pack one element."""
_LOWER = np.iinfo(np.int32).max
"""What places are counted down from."""


def fits(type: ShapeDtype, axis: int) -> bool:
    """Tell whether an element and its place fit one integer."""
    return type.dtype.itemsize * 8 <= _WIDTH and type.shape[axis] <= _LOWER


def packed_call(x: ShapeDtype, axis: int) -> ReductionCall:
    """Return what a target has to know of the reduction of such integers along an axis."""
    return ReductionCall(
        x.shape, (axis,), _PACKED_BYTES, PACKING_FLOPS, step_flops=1, is_extreme=True
    )


def pack(x: Value, *, axis: int, largest: bool) -> Value:
    """Return int64, larger for a better element; of equal elements for the first.

    NaN is both largest and smallest.
    """
    count = ops.iota(shape=x.shape, dtype=_INT64, dimension=axis)
    return pack_with_places(x, count, largest=largest)


def pack_with_places(x: Value, places: Value, *, largest: bool) -> Value:
    """Return int64, larger for a better element; of equal elements for that of the least place.

    `places` are int64 from 0 on, of the shape of `x`.
    """
    keys = helpers.convert(_keys(x, largest=largest), _INT64)
    upper = ops.shift_left(keys, helpers.full_like(keys, _WIDTH))
    counted_down = ops.subtract(helpers.full_like(keys, _LOWER), places)
    return ops.or_(upper, counted_down)  # type: ignore[no-any-return]


def place_of(packed: Value) -> Value:
    """Return the int32 positions that packed integers encode."""
    place = helpers.convert(ops.and_(packed, helpers.full_like(packed, _LOWER)), _INT32)
    return ops.subtract(helpers.full_like(place, _LOWER), place)  # type: ignore[no-any-return]


def element_of(packed: Value, dtype: np.dtype[Any], *, largest: bool) -> Value:
    """Return the elements that packed integers encode."""
    upper = ops.shift_right_arithmetic(packed, helpers.full_like(packed, _WIDTH))
    key = helpers.convert(upper, _INT32)
    original = key if largest else ops.not_(key)
    if dtype == np.uint32:
        return ops.bitcast_convert(_with_other_sign(original), dtype=dtype)  # type: ignore[no-any-return]
    if not is_float(dtype):
        return helpers.convert(original, dtype)
    is_nan = ops.compare(key, helpers.full_like(key, _LOWER), direction="EQ")
    number = ops.bitcast_convert(flipped(original), dtype=np.dtype(np.float32))
    return helpers.convert(ops.select(is_nan, helpers.full_like(number, np.nan), number), dtype)


def _keys(x: Value, *, largest: bool) -> Value:
    """Return int32 that are ordered like the elements, or the other way round."""
    if not is_float(x.dtype):
        keys = _integer_keys(x)
        return keys if largest else ops.not_(keys)
    x = helpers.convert(x, np.dtype(np.float32))
    keys = flipped(ops.bitcast_convert(x, dtype=_INT32))
    # -0 equals +0.
    is_zero = ops.compare(keys, helpers.full_like(keys, -1), direction="EQ")
    keys = ops.select(is_zero, helpers.zeros_like(keys), keys)
    keys = keys if largest else ops.not_(keys)
    is_nan = ops.compare(x, x, direction="NE")
    return ops.select(is_nan, helpers.full_like(keys, _LOWER), keys)  # type: ignore[no-any-return]


def flipped(bits: Value) -> Value:
    """Flip all bits but the sign of negative floats, which descend, or flip them back.

    As signed integers the bits of floats of any width are then ordered like the floats.
    """
    sign = ops.shift_right_arithmetic(bits, helpers.full_like(bits, 8 * bits.dtype.itemsize - 1))
    most = helpers.full_like(bits, np.iinfo(bits.dtype).max)
    return ops.xor(bits, ops.and_(sign, most))  # type: ignore[no-any-return]


def ordered_bits(x: Value, *, largest: bool) -> Value:
    """Return integers that are ordered like floats, as many bits wide.

    Every NaN is larger than infinity or, for the smallest element, less than minus infinity: NaNs
    of one sign are already, and the shift by all NaNs of a sign wraps the others around. Zeros
    keep their order too.
    """
    bits = ops.bitcast_convert(x, dtype=np.dtype(f"int{8 * x.dtype.itemsize}"))
    return _shifted(flipped(bits), x.dtype, up=not largest)


def floats_of(bits: Value, dtype: np.dtype[Any], *, largest: bool) -> Value:
    """Return the floats of `ordered_bits`."""
    return ops.bitcast_convert(flipped(_shifted(bits, dtype, up=largest)), dtype=dtype)  # type: ignore[no-any-return]


def _shifted(bits: Value, dtype: np.dtype[Any], *, up: bool) -> Value:
    infinity = int(np.array(np.inf, dtype).view(bits.dtype))
    by = helpers.full_like(bits, int(np.iinfo(bits.dtype).max) - infinity)
    return ops.add(bits, by) if up else ops.subtract(bits, by)  # type: ignore[no-any-return]


def _with_other_sign(x: Value) -> Value:
    return ops.xor(x, helpers.full_like(x, np.iinfo(_INT32).min))  # type: ignore[no-any-return]


def _integer_keys(x: Value) -> Value:
    if x.dtype == np.uint32:
        return _with_other_sign(ops.bitcast_convert(x, dtype=_INT32))
    return helpers.convert(x, _INT32)
