"""Which updates, `x[range(n), range(n)] = y`, are of a diagonal: a choice by the index, no scatter.

A choice can be computed in slices of rows or columns, a scatter needs both axes whole. An array
that a program or a loop is given is stored already: a scatter writes over it, and a choice would
read all of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer.array.array import Array
from tracer.array.recording import TracedArray
from tracer.numpy.counting import is_counting


def is_computed_diagonal(x: Array, index: Any) -> bool:
    """Tell whether an index is known to be the main diagonal of a square matrix, in its order.

    The matrix is one that the program computes, in this body of it.
    """
    if not isinstance(x, TracedArray) or x.value.node.op is None:
        return False
    if x.ndim != 2 or x.shape[0] != x.shape[1] or not isinstance(index, tuple) or len(index) != 2:
        return False
    return all(_counts(item, x.shape[0]) for item in index)


def _counts(item: Any, size: int) -> bool:
    if isinstance(item, range):
        return item == range(size)
    if isinstance(item, list) and all(isinstance(place, int) for place in item):
        item = np.array(item)
    return isinstance(item, np.ndarray | Array) and item.ndim == 1 and is_counting(item, size)


__all__ = ["is_computed_diagonal"]
