"""Means, variances, medians, covariances, and the reductions that skip NaN."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tracer import ops
from tracer.errors import ShapeError
from tracer.ir import as_dtype
from tracer.numpy import promotion
from tracer.numpy.base import ArrayLike
from tracer.numpy.convert import (
    as_array,
    broadcast,
    broadcast_shape,
    convert,
    normalize_axes,
    reshape,
)
from tracer.numpy.dispatch import apply, compound
from tracer.numpy.promotion import Dtype
from tracer.numpy.reductions import (
    Axis,
    accumulation_dtype,
    kept_shape,
    masked,
    reduce,
    refuse_out,
    sum,
)
from tracer.numpy.ufunc import full_like, is_complex, is_nonzero

if TYPE_CHECKING:
    from tracer.numpy.array import Array

Axes = tuple[int, ...]


def mean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Mean of the elements over axes.

    Parameters
    ----------
    a : array_like
        Numbers.
    axis : int or tuple of int, optional
        Axes to average over; all by default.
    dtype : dtype, optional
        Of the mean; float64 for integers, that of `a` for floats.
    out : None
        Refused: arrays are not written in place.
    keepdims : bool
        Keep the axes with size one.
    where : array_like of bool, optional
        Elements to include.

    Returns
    -------
    Array
        The means; NaN of no elements.
    """
    refuse_out(out)
    x = as_array(a)
    wanted = promotion.division_dtype(x.dtype) if dtype is None else as_dtype(dtype)
    arrays = (x,) if where is None else (x, as_array(where))
    axes = normalize_axes(axis, x.ndim)
    return _mean(*arrays, axes=axes, dtype=wanted, keepdims=bool(keepdims))


@compound
def _mean(
    x: Array, where: Array | None = None, /, *, axes: Axes, dtype: Dtype, keepdims: bool
) -> Array:
    wide = accumulation_dtype(dtype)
    total = reduce(ops.reduce_add, masked(convert(x, wide), where, 0), axes, keepdims)
    return convert(apply(ops.divide, total, _count(x, where, total, axes, keepdims, 0)), dtype)


def _count(
    x: Array, where: Array | None, like: Array, axes: Axes, keepdims: bool, ddof: float
) -> Array:
    """Return the number of elements that were reduced, less `ddof`, not below zero."""
    if where is None:
        count = math.prod(x.shape[axis] for axis in axes) - ddof
        return full_like(like, count if count > 0 else 0)
    chosen = broadcast(is_nonzero(where), broadcast_shape("where", x.shape, where.shape))
    counts = reduce(ops.reduce_add, convert(chosen, as_dtype("int64")), axes, keepdims)
    freedom = apply(ops.subtract, convert(counts, like.dtype), full_like(like, ddof))
    return apply(ops.maximum, freedom, full_like(like, 0)) if not is_complex(like) else freedom


def var(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    correction: float | None = None,
) -> Array:
    """Variance of the elements over axes.

    Parameters
    ----------
    a : array_like
        Numbers.
    axis : int or tuple of int, optional
        Axes to reduce; all by default.
    dtype : dtype, optional
        To compute in; float64 for integers.
    out : None
        Refused: arrays are not written in place.
    ddof : float
        The divisor is the number of elements less this.
    keepdims : bool
        Keep the axes with size one.
    where : array_like of bool, optional
        Elements to include.
    correction : float, optional
        Another name of `ddof`.

    Returns
    -------
    Array of reals
        The mean squared distance from the mean.
    """
    refuse_out(out)
    x = as_array(a)
    wanted = promotion.division_dtype(x.dtype) if dtype is None else as_dtype(dtype)
    arrays = (x,) if where is None else (x, as_array(where))
    return _var(
        *arrays,
        axes=normalize_axes(axis, x.ndim),
        dtype=wanted,
        ddof=float(ddof if correction is None else correction),
        keepdims=bool(keepdims),
    )


@compound
def _var(
    x: Array,
    where: Array | None = None,
    /,
    *,
    axes: Axes,
    dtype: Dtype,
    ddof: float,
    keepdims: bool,
) -> Array:
    wide = convert(x, accumulation_dtype(dtype))
    arrays = (wide,) if where is None else (wide, where)
    center = _mean(*arrays, axes=axes, dtype=wide.dtype, keepdims=True)
    shape = broadcast_shape("var", wide.shape, center.shape)
    deviation = apply(ops.subtract, broadcast(wide, shape), broadcast(center, shape))
    squares = _squared_size(deviation)
    total = reduce(ops.reduce_add, masked(squares, where, 0), axes, keepdims)
    result = apply(ops.divide, total, _count(x, where, total, axes, keepdims, ddof))
    return convert(result, promotion.real_dtype(dtype))


def _squared_size(x: Array) -> Array:
    if not is_complex(x):
        return apply(ops.multiply, x, x)
    parts = [apply(ops.real, x), apply(ops.imag, x)]
    return apply(ops.add, *[apply(ops.multiply, part, part) for part in parts])


def std(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    correction: float | None = None,
) -> Array:
    """Return the standard deviation over axes; the parameters are those of `var`."""
    refuse_out(out)
    variance = var(a, axis, dtype, ddof=ddof, correction=correction, keepdims=keepdims, where=where)
    return root(variance)


@compound
def root(x: Array) -> Array:
    """Return the square root of floats."""
    return apply(ops.sqrt, x)


def average(
    a: ArrayLike,
    axis: Axis = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
) -> Any:
    """Weighted mean of the elements over axes.

    Parameters
    ----------
    a : array_like
        Numbers.
    axis : int or tuple of int, optional
        Axes to average over; all by default.
    weights : array_like, optional
        Of the shape of `a`, or one for each index along the single `axis`.
    returned : bool
        Return the sums of the weights too, in the shape of the averages.
    keepdims : bool
        Keep the axes with size one.

    Returns
    -------
    Array, or a tuple of two
        sum(a * weights) / sum(weights).
    """
    x = as_array(a)
    axes = normalize_axes(axis, x.ndim)
    if weights is None:
        result = mean(x, axes, keepdims=keepdims)
        count = x.size // max(1, result.size)
        return (result, full_like(result, count)) if returned else result
    w = as_array(weights)
    if w.shape != x.shape:
        w = _spread_weights(x, w, axes)
    dtype = promotion.division_dtype(promotion.promote_types(x.dtype, w.dtype))
    w = convert(w, dtype)
    total = sum(convert(x, dtype) * w, axes, keepdims=keepdims)
    scale = sum(broadcast(w, x.shape), axes, keepdims=keepdims)
    return (total / scale, scale) if returned else total / scale


def _spread_weights(x: Array, weights: Array, axes: Axes) -> Array:
    sizes = tuple(x.shape[axis] for axis in axes)
    if weights.shape != sizes:
        raise ShapeError(
            f"average: weights of shape {weights.shape} for an array of shape {x.shape} over "
            f"axes {axes}",
            mend=f"give weights of shape {x.shape} or {sizes}",
        )
    return reshape(weights, kept_shape(x.shape, tuple(set(range(x.ndim)) - set(axes))))
