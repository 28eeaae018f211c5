"""Codes of zeros with one 1. Public as `tracer.nn.one_hot`; rewrite rules know it by this name."""

from __future__ import annotations

from typing import Any

from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, broadcast, convert, normalize_axis, reshape
from tracer.array.dispatch import compound
from tracer.ir import as_dtype
from tracer.numpy.ranges import iota
from tracer.numpy.ufunc import compare


def one_hot(x: ArrayLike, num_classes: int, *, dtype: Any = None, axis: int = -1) -> Array:
    """Codes of zeros with a one where the index says.

    Parameters
    ----------
    x : array_like
        Indices; those outside 0..num_classes-1 give zeros only.
    num_classes : int
        Length of a code.
    dtype : dtype, optional
        Of the result; float64 by default.
    axis : int
        The axis of the codes in the result.

    Returns
    -------
    Array
        One axis more than `x`.
    """
    index = as_array(x)
    wanted = as_dtype(float if dtype is None else dtype)
    place = normalize_axis(axis, index.ndim + 1)
    return _one_hot(index, size=int(num_classes), dtype=wanted, axis=place)


@compound
def _one_hot(x: Array, *, size: int, dtype: Any, axis: int) -> Array:
    shape = (*x.shape[:axis], size, *x.shape[axis:])
    # Compared in a dtype that holds both: 0.5 is no class, and no class stands for it.
    wide = promotion.promote_types(x.dtype, "int64")
    classes = convert(iota(shape=shape, dtype=as_dtype("int64"), dimension=axis), wide)
    index = reshape(convert(x, wide), (*x.shape[:axis], 1, *x.shape[axis:]))
    return convert(compare(broadcast(index, shape), classes, "EQ"), dtype)
