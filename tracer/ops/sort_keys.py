"""Integers in the order of floats.

Negative floats have descending bit patterns, so all their bits but the sign are flipped; NaN
becomes the largest integer, whose bits are a NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer import ops
from tracer.ir import Value
from tracer.ops import helpers


def sort_keys(x: Value) -> Value:
    """Emit integers of the same order, as many bits wide."""
    keys = ops.bitcast_convert(x, dtype=np.dtype(f"int{8 * x.dtype.itemsize}"))
    is_nan = ops.compare(x, x, direction="NE")
    return ops.select(is_nan, _most(keys), _flipped(keys))  # type: ignore[no-any-return]


def sorted_floats(keys: Value, dtype: np.dtype[Any]) -> Value:
    """Emit the floats that integers stand for."""
    return ops.bitcast_convert(_flipped(keys), dtype=dtype)  # type: ignore[no-any-return]


def signed_keys(x: Value) -> Value:
    """Emit signed integers in the order of unsigned ones."""
    bits = 8 * x.dtype.itemsize
    flipped = ops.xor(x, helpers.full_like(x, 1 << (bits - 1)))
    return ops.bitcast_convert(flipped, dtype=np.dtype(f"int{bits}"))  # type: ignore[no-any-return]


def unsigned_keys(x: Value) -> Value:
    """Emit unsigned integers in the order of signed ones."""
    bits = 8 * x.dtype.itemsize
    words = ops.bitcast_convert(x, dtype=np.dtype(f"uint{bits}"))
    return ops.xor(words, helpers.full_like(words, 1 << (bits - 1)))  # type: ignore[no-any-return]


def _flipped(bits: Value) -> Value:
    """Flip all bits but the sign of negative numbers, or flip them back."""
    is_negative = ops.compare(bits, helpers.zeros_like(bits), direction="LT")
    return ops.select(is_negative, ops.xor(bits, _most(bits)), bits)  # type: ignore[no-any-return]


def _most(bits: Value) -> Value:
    return helpers.full_like(bits, np.iinfo(bits.dtype).max)


__all__ = ["signed_keys", "sort_keys", "sorted_floats", "unsigned_keys"]
