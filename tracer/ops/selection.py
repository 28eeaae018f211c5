"""What the k largest of rows cost, and how they are written for XLA as they are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracer.ir import Cost, ShapeDtype
from tracer.ir.library_calls import SelectionCall
from tracer.ir.op import Types
from tracer.ops.packed_extreme import fits, packed_call
from tracer.ops.rules import moved_bytes

_EXACT_BITS = 16
"""Integers of up to so many bits are exact in float32, and narrow floats are too."""


def ordered_alike(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a dtype that holds the same numbers and that XLA's kernel takes, if there is one."""
    is_narrow = 8 * dtype.itemsize <= _EXACT_BITS
    return np.dtype(np.float32) if is_narrow else dtype


def selection_call(type: ShapeDtype, k: int) -> SelectionCall:
    """Return the call that selects of the last axis, for a target to price."""
    dtype = ordered_alike(type.dtype)
    rows, size = math.prod(type.shape[:-1]), type.shape[-1]
    return SelectionCall(rows, size, k, dtype.itemsize, is_float32=dtype == np.float32)


def is_extreme(type: ShapeDtype, k: int) -> bool:
    """Tell whether it is one element of each row, which a reduction finds with its place."""
    return k == 1 and fits(type, type.ndim - 1)


def top_k_cost(operands: Types, results: Types, *, k: int) -> Cost:
    """Count a heap's comparisons; what rows take in stages or rounds is the target's to say."""
    (x,) = operands
    moved = moved_bytes(operands, results)
    if is_extreme(x, k):
        return Cost(x.size, moved, calls=(packed_call(x, x.ndim - 1),))
    call = selection_call(x, k)
    return Cost(call.comparisons, moved, calls=(call,))
