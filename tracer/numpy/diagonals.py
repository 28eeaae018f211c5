"""Updates of a diagonal, `x[range(n), range(n)] = y`: a choice by the index, and no scatter.

A choice can be computed in slices of rows or columns, a scatter needs both axes whole. An array
that a program or a loop is given is stored already: a scatter writes over it, and a choice would
read all of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import broadcast, reshape
from tracer.array.dispatch import apply, compound
from tracer.array.recording import TracedArray
from tracer.ir import Op
from tracer.numpy.counting import is_counting
from tracer.numpy.ufunc import compare, select

_INT64 = np.dtype("int64")


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


@compound
def update_diagonal(x: Array, update: Array, *, combiner: Op | None) -> Array:
    """Return a square matrix with its diagonal replaced by, or combined with, a vector."""
    new = broadcast(reshape(update, (*update.shape, 1)), x.shape)
    if combiner is not None:
        new = apply(combiner, x, new)
    rows, columns = (apply(ops.iota, shape=x.shape, dtype=_INT64, dimension=i) for i in (0, 1))
    return select(compare(rows, columns, "EQ"), new, x)


__all__ = ["is_computed_diagonal", "update_diagonal"]
