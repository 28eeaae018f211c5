"""Arg-max and arg-min on CPU: one integer holds an element's order and its position.

XLA:CPU does not vectorise a reduction of (value, index) pairs: measured 40 to 60 times slower than
the maximum alone. So elements of up to 32 bits become integers of the same order in the upper half
of an int64, whose lower half counts down along the axis. The largest of these integers is the first
of the largest elements. That is one plain reduction, which XLA vectorises and fuses with the
computation of the elements, and which reads them once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer.ir import ShapeDtype
from tracer.ops.rules import is_float

_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)
# Of the algorithm, on every machine: the two halves of the widest integer that StableHLO has.
_WIDTH = 32
PACKED_BYTES = 8
"""Bytes of the integer that holds both."""
_LOWER = np.iinfo(np.int32).max
"""What places are counted down from."""


def fits(type: ShapeDtype, axis: int) -> bool:
    """Tell whether an element and its place fit one integer."""
    return type.dtype.itemsize * 8 <= _WIDTH and type.shape[axis] <= _LOWER


def lower_packed(b: Any, x: Any, *, axis: int, largest: bool) -> tuple[Any, Any]:
    """Emit the first largest (or smallest) element along an axis, and its int32 index.

    NaN is both largest and smallest.
    """
    packed = pack(b, x, axis=axis, largest=largest)
    type = packed.type.with_shape((*x.shape[:axis], *x.shape[axis + 1 :]))
    lowest = b.splat(np.iinfo(_INT64).min, type.with_shape(()))
    (found,) = b.reduce_in_stages((type,), (packed,), (lowest,), (axis,), larger)
    return unpack(b, found, x.dtype, largest=largest)


def pack(b: Any, x: Any, *, axis: int, largest: bool) -> Any:
    """Return int64, larger for a better element; of equal elements for the first."""
    keys = b.convert(x.type.with_dtype(_INT64), _keys(b, x, largest=largest))
    upper = b.shift_left(keys, b.splat(_WIDTH, keys.type))
    places = b.subtract(b.splat(_LOWER, keys.type), b.iota(keys.type, axis))
    return b.or_(upper, places)


def unpack(b: Any, packed: Any, dtype: np.dtype[Any], *, largest: bool) -> tuple[Any, Any]:
    """Return the elements that packed integers encode, and their int32 positions."""
    wide, narrow = packed.type, packed.type.with_dtype(_INT32)
    key = b.convert(narrow, b.shift_right_arithmetic(packed, b.splat(_WIDTH, wide)))
    place = b.convert(narrow, b.and_(packed, b.splat(_LOWER, wide)))
    value = _value(b, key, wide.with_dtype(dtype), largest=largest)
    return value, b.subtract(b.splat(_LOWER, narrow), place)


def larger(b: Any, x: Any, y: Any) -> tuple[Any]:
    """Emit the combiner of a maximum of integers."""
    return (b.maximum(x, y),)


def _keys(b: Any, x: Any, *, largest: bool) -> Any:
    """Return int32 that are ordered like the elements, or the other way round."""
    if not is_float(x.dtype):
        keys = _integer_keys(b, x)
        return keys if largest else b.not_(keys)
    x = b.convert(x.type.with_dtype(np.float32), x)
    type = x.type.with_dtype(_INT32)
    keys = _flipped(b, b.bitcast_convert(type, x))
    # -0 equals +0.
    keys = b.select(b.compare("EQ", keys, b.splat(-1, type)), b.splat(0, type), keys)
    keys = keys if largest else b.not_(keys)
    return b.select(b.compare("NE", x, x), b.splat(_LOWER, type), keys)


def _flipped(b: Any, bits: Any) -> Any:
    """Flip all bits but the sign of negative numbers, whose bit patterns descend; or flip back."""
    sign = b.shift_right_arithmetic(bits, b.splat(_WIDTH - 1, bits.type))
    return b.xor(bits, b.and_(sign, b.splat(_LOWER, bits.type)))


def _value(b: Any, key: Any, type: ShapeDtype, *, largest: bool) -> Any:
    """Return the element that a key encodes."""
    original = key if largest else b.not_(key)
    if not is_float(type.dtype):
        if type.dtype == np.uint32:
            return b.bitcast_convert(type, _with_other_sign(b, original))
        return b.convert(type, original)
    wide = type.with_dtype(np.float32)
    is_nan = b.compare("EQ", key, b.splat(_LOWER, key.type))
    number = b.bitcast_convert(wide, _flipped(b, original))
    return b.convert(type, b.select(is_nan, b.splat(np.nan, wide), number))


def _with_other_sign(b: Any, x: Any) -> Any:
    return b.xor(x, b.splat(np.iinfo(_INT32).min, x.type))


def _integer_keys(b: Any, x: Any) -> Any:
    type = x.type.with_dtype(_INT32)
    if x.dtype == np.uint32:
        return _with_other_sign(b, b.bitcast_convert(type, x))
    return b.convert(type, x)
