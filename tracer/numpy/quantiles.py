"""Quantiles: median, percentile."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tracer import ops
from tracer.errors import ArgumentError, ShapeError
from tracer.numpy import promotion
from tracer.numpy.base import ArrayLike
from tracer.numpy.convert import (
    as_array,
    convert,
    normalize_axes,
    reshape,
    transpose,
)
from tracer.numpy.dispatch import apply, apply_many, compound
from tracer.numpy.reductions import (
    Axis,
    finish,
)
from tracer.numpy.ufunc import compare, full_like, select

if TYPE_CHECKING:
    from tracer.numpy.array import Array

Axes = tuple[int, ...]


def median(a: ArrayLike, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """Return the middle of the sorted elements over axes; NaN when there is one.

    Parameters
    ----------
    a : array_like
        Real numbers.
    axis : int or tuple of int, optional
        Axes to reduce; all by default.
    keepdims : bool
        Keep the axes with size one.

    Returns
    -------
    Array of floats
        The medians; of an even number of elements the mean of the middle two.
    """
    return quantile(a, 0.5, axis, keepdims=keepdims)


def quantile(a: ArrayLike, q: float, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """Return one quantile over axes, with linear interpolation; see `numpy.quantile`.

    Parameters
    ----------
    a : array_like
        Real numbers.
    q : float
        Between 0 and 1, a Python number.
    axis : int or tuple of int, optional
        Axes to reduce; all by default.
    keepdims : bool
        Keep the axes with size one.

    Returns
    -------
    Array of floats
        The quantiles; NaN where there is a NaN.
    """
    if not 0 <= q <= 1:
        raise ArgumentError(f"quantile {q} is not between 0 and 1", mend="give 0 <= q <= 1")
    x = as_array(a)
    axes = normalize_axes(axis, x.ndim)
    if math.prod(x.shape[axis] for axis in axes) == 0:
        raise ShapeError(f"quantile of no elements (shape {x.shape})", mend="give elements")
    return _quantile(x, q=float(q), axes=axes, keepdims=bool(keepdims))


def percentile(a: ArrayLike, q: float, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """Return one percentile over axes: `quantile(a, q / 100)`."""
    return quantile(a, q / 100, axis, keepdims=keepdims)


@compound
def _quantile(x: Array, *, q: float, axes: Axes, keepdims: bool) -> Array:
    shape = x.shape
    kept = tuple(axis for axis in range(x.ndim) if axis not in axes)
    x = convert(x, promotion.division_dtype(x.dtype))
    count = math.prod(shape[axis] for axis in axes)
    rows = reshape(transpose(x, kept + axes), (*[shape[axis] for axis in kept], count))
    last = rows.ndim - 1
    (ordered,) = apply_many(ops.sort, rows, dimension=last, num_keys=1, is_stable=True)
    position = q * (count - 1)
    low = math.floor(position)
    lower = _at(ordered, low)
    upper = _at(ordered, math.ceil(position))
    weight = full_like(lower, position - low)
    step = apply(ops.multiply, apply(ops.subtract, upper, lower), weight)
    result = apply(ops.add, lower, step) if low != position else lower
    # NaN sorts last, so one look tells whether there is any.
    largest = _at(ordered, count - 1)
    result = select(compare(largest, largest, "NE"), largest, result)
    return finish(result, shape, axes, keepdims)


def _at(ordered: Array, index: int) -> Array:
    """Take one element of the last axis."""
    start = (*(0,) * (ordered.ndim - 1), index)
    limit = (*ordered.shape[:-1], index + 1)
    taken = apply(ops.slice, ordered, start=start, limit=limit, strides=(1,) * ordered.ndim)
    return reshape(taken, ordered.shape[:-1])
