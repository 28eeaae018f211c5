"""Indices in dtypes that hold every place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import convert
from tracer.array.dispatch import apply
from tracer.numpy.ufunc import full_like

_INT64 = np.dtype("int64")


def wide(indices: Array) -> Array:
    """Return indices of a dtype that holds every size of an axis, and negative numbers."""
    if indices.dtype == np.uint64:
        largest = full_like(indices, np.iinfo(np.int64).max)
        indices = apply(ops.minimum, indices, largest)
    is_enough = indices.dtype.kind == "i" and indices.dtype.itemsize >= 4
    return indices if is_enough else convert(indices, _INT64)


def alike(starts: Sequence[Array]) -> list[Array]:
    """Return the starts in one dtype."""
    found = [wide(start) for start in starts]
    if len({start.dtype for start in found}) > 1:
        return [convert(start, _INT64) for start in found]
    return found
