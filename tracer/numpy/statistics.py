"""Means, variances, medians, covariances, and the reductions that skip NaN."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tracer import ops
from tracer.errors import ArgumentError, ShapeError
from tracer.ir import as_dtype
from tracer.numpy import promotion
from tracer.numpy.base import ArrayLike
from tracer.numpy.contraction import matmul
from tracer.numpy.convert import (
    as_array,
    broadcast,
    broadcast_shape,
    convert,
    normalize_axes,
    reshape,
    transpose,
)
from tracer.numpy.dispatch import apply, apply_many, compound
from tracer.numpy.logic import isnan, logical_not
from tracer.numpy.promotion import Dtype
from tracer.numpy.reductions import (
    Axis,
    accumulation_dtype,
    finish,
    kept_shape,
    masked,
    max,
    min,
    prod,
    reduce,
    sum,
)
from tracer.numpy.ufunc import compare, full_like, is_complex, is_nonzero, select

if TYPE_CHECKING:
    from tracer.numpy.array import Array

Axes = tuple[int, ...]


def mean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    *,
    keepdims: bool = False,
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
    keepdims : bool
        Keep the axes with size one.
    where : array_like of bool, optional
        Elements to include.

    Returns
    -------
    Array
        The means; NaN of no elements.
    """
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
    *,
    ddof: float = 0,
    correction: float | None = None,
    keepdims: bool = False,
    where: ArrayLike | None = None,
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
    ddof, correction : float
        The divisor is the number of elements less this.
    keepdims : bool
        Keep the axes with size one.
    where : array_like of bool, optional
        Elements to include.

    Returns
    -------
    Array of reals
        The mean squared distance from the mean.
    """
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
    *,
    ddof: float = 0,
    correction: float | None = None,
    keepdims: bool = False,
    where: ArrayLike | None = None,
) -> Array:
    """Return the standard deviation over axes; the parameters are those of `var`."""
    variance = var(a, axis, dtype, ddof=ddof, correction=correction, keepdims=keepdims, where=where)
    return _root(variance)


@compound
def _root(x: Array) -> Array:
    return apply(ops.sqrt, x)


def average(
    a: ArrayLike,
    axis: Axis = None,
    weights: ArrayLike | None = None,
    *,
    keepdims: bool = False,
) -> Array:
    """Weighted mean of the elements over axes.

    Parameters
    ----------
    a : array_like
        Numbers.
    axis : int or tuple of int, optional
        Axes to average over; all by default.
    weights : array_like, optional
        Of the shape of `a`, or one for each index along the single `axis`.
    keepdims : bool
        Keep the axes with size one.

    Returns
    -------
    Array
        sum(a * weights) / sum(weights).
    """
    x = as_array(a)
    if weights is None:
        return mean(x, axis, keepdims=keepdims)
    w = as_array(weights)
    axes = normalize_axes(axis, x.ndim)
    if w.shape != x.shape:
        w = _spread_weights(x, w, axes)
    dtype = promotion.division_dtype(promotion.promote_types(x.dtype, w.dtype))
    w = convert(w, dtype)
    total = sum(convert(x, dtype) * w, axes, keepdims=keepdims)
    return total / sum(broadcast(w, x.shape), axes, keepdims=keepdims)


def _spread_weights(x: Array, weights: Array, axes: Axes) -> Array:
    sizes = tuple(x.shape[axis] for axis in axes)
    if weights.shape != sizes:
        raise ShapeError(
            f"average: weights of shape {weights.shape} for an array of shape {x.shape} over "
            f"axes {axes}",
            mend=f"give weights of shape {x.shape} or {sizes}",
        )
    return reshape(weights, kept_shape(x.shape, tuple(set(range(x.ndim)) - set(axes))))


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


def cov(m: ArrayLike, *, rowvar: bool = True, bias: bool = False, ddof: int | None = None) -> Array:
    """Covariance matrix of variables in rows (or columns); see `numpy.cov`.

    Parameters
    ----------
    m : array_like, shape (variables, observations) or (observations,)
        The data.
    rowvar : bool
        Whether a row is a variable.
    bias : bool
        Divide by the number of observations instead of one less.
    ddof : int, optional
        Overrides what `bias` says: divide by the number of observations less this.

    Returns
    -------
    Array, shape (variables, variables) or ()
        The covariances.
    """
    x = as_array(m)
    x = convert(x, promotion.promote_types(x.dtype, "float64"))
    rows = reshape(x, (1, x.size)) if x.ndim < 2 else x if rowvar else x.T
    freedom = rows.shape[1] - ((0 if bias else 1) if ddof is None else ddof)
    centered = rows - mean(rows, 1, keepdims=True)
    result = matmul(centered, centered.T.conj()) / freedom
    return result.squeeze()


def _not_nan(x: Array) -> Array:
    return logical_not(isnan(x))


def nansum(a: ArrayLike, axis: Axis = None, dtype: Any = None, *, keepdims: bool = False) -> Array:
    """Sum without the NaNs; see `sum`."""
    x = as_array(a)
    return sum(x, axis, dtype, keepdims=keepdims, where=_not_nan(x))


def nanprod(a: ArrayLike, axis: Axis = None, dtype: Any = None, *, keepdims: bool = False) -> Array:
    """Product without the NaNs; see `prod`."""
    x = as_array(a)
    return prod(x, axis, dtype, keepdims=keepdims, where=_not_nan(x))


def nanmean(a: ArrayLike, axis: Axis = None, dtype: Any = None, *, keepdims: bool = False) -> Array:
    """Mean without the NaNs; see `mean`."""
    x = as_array(a)
    return mean(x, axis, dtype, keepdims=keepdims, where=_not_nan(x))


def nanvar(
    a: ArrayLike, axis: Axis = None, dtype: Any = None, *, ddof: float = 0, keepdims: bool = False
) -> Array:
    """Variance without the NaNs; see `var`."""
    x = as_array(a)
    return var(x, axis, dtype, ddof=ddof, keepdims=keepdims, where=_not_nan(x))


def nanstd(
    a: ArrayLike, axis: Axis = None, dtype: Any = None, *, ddof: float = 0, keepdims: bool = False
) -> Array:
    """Return the standard deviation without the NaNs; see `std`."""
    return _root(nanvar(a, axis, dtype, ddof=ddof, keepdims=keepdims))


def nanmax(a: ArrayLike, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """Return the largest element that is not NaN, NaN when all are; see `max`."""
    return _nan_extreme(a, axis, keepdims, -math.inf)


def nanmin(a: ArrayLike, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """Return the smallest element that is not NaN, NaN when all are; see `min`."""
    return _nan_extreme(a, axis, keepdims, math.inf)


def _nan_extreme(a: ArrayLike, axis: Axis, keepdims: bool, identity: float) -> Array:
    x = as_array(a)
    function = max if identity < 0 else min
    if x.dtype.kind in "biu":
        return function(x, axis, keepdims=keepdims)
    axes = normalize_axes(axis, x.ndim)
    found = function(_replace_nan(x, value=identity), axis, keepdims=keepdims)
    return _nan_where_all(x, found, axes=axes, keepdims=bool(keepdims))


@compound
def _replace_nan(x: Array, *, value: float) -> Array:
    return select(compare(x, x, "NE"), full_like(x, value), x)


@compound
def _nan_where_all(x: Array, found: Array, *, axes: Axes, keepdims: bool) -> Array:
    none_left = reduce(ops.reduce_and, compare(x, x, "NE"), axes, keepdims)
    return select(none_left, full_like(found, math.nan), found)
