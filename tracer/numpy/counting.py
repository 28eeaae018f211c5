"""Index arrays that count along an axis, such as `arange(n)` in `x[arange(n), places]`.

What they index is a batch: each slice of the operand is read by its own slice of the indices.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracer import ops
from tracer.array.recording import TracedArray
from tracer.ir import Value


def is_counting(index: Any, size: int) -> bool:
    """Tell whether an index is 0, 1, ..., size - 1 along one axis, others having one element.

    By what the program says: of arrays only NumPy's are read.
    """
    if size < 2 or sorted(index.shape)[-1:] != [size] or math.prod(index.shape) != size:
        return False
    if isinstance(index, np.ndarray):
        return bool(index.dtype.kind in "iu" and (index.ravel() == np.arange(size)).all())
    return isinstance(index, TracedArray) and _is_iota(index.value)


def _is_iota(value: Value) -> bool:
    node = value.node
    while node.op is ops.reshape:
        node = node.operands[0].node
    if node.op is not ops.iota or node.types[0].dtype.kind not in "iu":
        return False
    type, axis = node.types[0], node.params["dimension"]
    return bool(type.shape[axis] == type.size <= int(np.iinfo(type.dtype).max) + 1)
