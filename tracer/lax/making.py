"""Arrays of one number, and counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer import ops
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, as_shape, broadcast, convert, scalar
from tracer.array.dispatch import apply, compound
from tracer.array.promotion import default_dtype, weak_class
from tracer.errors import DTypeError, ShapeError
from tracer.ir import as_dtype
from tracer.lax.operands import axis_of, integer

Dtype = np.dtype[Any]


def full(shape: Any, fill_value: ArrayLike, dtype: Any = None) -> Array:
    """Return an array of one number.

    Parameters
    ----------
    shape : int or tuple of int
        Its shape.
    fill_value : array_like, shape ()
        The number.
    dtype : dtype, optional
        That of the number by default.

    Raises
    ------
    ShapeError
        The number is an array with axes.
    """
    value = as_array(fill_value) if dtype is None else _as_dtype(fill_value, as_dtype(dtype))
    if value.shape:
        raise ShapeError(
            f"lax.full: the number has shape {value.shape}", mend="give a scalar, or broadcast"
        )
    return broadcast(value, as_shape(shape))


def _as_dtype(value: ArrayLike, dtype: Dtype) -> Array:
    return (
        scalar(value, dtype) if weak_class(value) is not None else convert(as_array(value), dtype)
    )


def full_like(x: Any, fill_value: ArrayLike, dtype: Any = None, shape: Any = None) -> Array:
    """Return an array of one number, in shape and dtype as another.

    Parameters
    ----------
    x : array_like or ShapeDtype
        What it is like.
    fill_value : array_like, shape ()
        The number.
    dtype : dtype, optional
        Another dtype.
    shape : tuple of int, optional
        Another shape.
    """
    like = x if hasattr(x, "dtype") and hasattr(x, "shape") else as_array(x)
    return full(
        like.shape if shape is None else shape, fill_value, like.dtype if dtype is None else dtype
    )


def empty(shape: Any, dtype: Any) -> Array:
    """Return an array of any numbers: zeros."""
    return full(shape, 0, dtype)


def iota(dtype: Any, size: int) -> Array:
    """Count from 0.

    Parameters
    ----------
    dtype : dtype
        Not bool.
    size : int
        How many numbers.
    """
    return broadcasted_iota(dtype, (integer("iota", "size", size),), 0)


def broadcasted_iota(dtype: Any, shape: Any, dimension: int) -> Array:
    """Count from 0 along an axis, and repeat along the others.

    Parameters
    ----------
    dtype : dtype
        Not bool.
    shape : tuple of int
        The shape.
    dimension : int
        The axis.

    Examples
    --------
    >>> import tracer.lax as lax
    >>> lax.broadcasted_iota("int32", (2, 3), 1).tolist()
    [[0, 1, 2], [0, 1, 2]]
    """
    wanted, sizes = as_dtype(dtype), as_shape(shape)
    if wanted.kind == "b":
        raise DTypeError("lax.iota of bools", mend="give a dtype of numbers")
    axis = axis_of("broadcasted_iota", "dimension", dimension, len(sizes))
    return _iota(shape=sizes, dtype=wanted, axis=axis)


@compound
def _iota(*, shape: tuple[int, ...], dtype: Dtype, axis: int) -> Array:
    plain = dtype if dtype.kind in "iuf" else np.dtype(f"float{4 * dtype.itemsize}")
    return convert(apply(ops.iota, shape=shape, dtype=plain, dimension=axis), dtype)


def dtype(x: Any) -> Dtype:
    """Return the dtype of an array, or that of a Python number on its own."""
    cls = weak_class(x)
    return default_dtype(cls) if cls is not None else as_array(x).dtype
