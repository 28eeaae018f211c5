"""Means, variances, medians, covariances, and the reductions that skip NaN."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tracer import ops
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import (
    as_array,
    as_keepdims,
    broadcast,
    convert,
    normalize_axes,
    normalize_axis,
    reshape,
    transpose,
)
from tracer.array.dispatch import apply, compound
from tracer.array.promotion import Dtype
from tracer.errors import ArgumentError, DTypeError, ShapeError
from tracer.ir import as_dtype
from tracer.numpy.reductions import (
    Axis,
    accumulation_dtype,
    kept_shape,
    masked,
    operands_with,
    reduce,
    refuse_out,
    sum,
)
from tracer.numpy.shaping import broadcast_to
from tracer.numpy.ufunc import full_like, is_complex

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
    arrays = operands_with("mean", x, where)
    axes = normalize_axes(axis, x.ndim)
    return _mean(*arrays, axes=axes, dtype=wanted, keepdims=as_keepdims(keepdims))


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
    chosen = convert(broadcast(where, x.shape), as_dtype("int64"))
    counts = reduce(ops.reduce_add, chosen, axes, keepdims)
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
    mean: ArrayLike | None = None,
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
        To compute in, of floats or complex numbers; float64 for integers.
    out : None
        Refused: arrays are not written in place.
    ddof : float
        The divisor is the number of elements less this.
    keepdims : bool
        Keep the axes with size one.
    where : array_like of bool, optional
        Elements to include.
    mean : array_like, optional
        What distances are measured from, where it is known already: of the shape that the mean
        with `keepdims=True` has.
    correction : float, optional
        Another name of `ddof`.

    Returns
    -------
    Array of reals
        The mean squared distance from the mean.

    Raises
    ------
    ArgumentError
        Both `ddof` and `correction` are given.
    DTypeError
        `dtype` is one of integers.
    """
    refuse_out(out)
    if correction is not None and ddof != 0:
        raise ArgumentError(
            "ddof and correction are the same, and both were given", mend="give one"
        )
    x = as_array(a)
    wanted = promotion.division_dtype(x.dtype) if dtype is None else as_dtype(dtype)
    if wanted.kind in "biu":
        raise DTypeError(
            f"var or std in {wanted}: the mean would be rounded",
            mend="use a float dtype, or astype",
        )
    options: dict[str, Any] = {
        "axes": normalize_axes(axis, x.ndim),
        "dtype": wanted,
        "ddof": float(ddof if correction is None else correction),
        "keepdims": as_keepdims(keepdims),
    }
    array, *mask = operands_with("var", x, where)
    if mean is None:
        result = _var(array, *mask, **options)
    else:
        result = _var_about(array, broadcast_to(mean, x.shape), *mask, **options)
    # NumPy's: real, also of complex numbers, unless a complex dtype is asked for.
    return result if dtype is None else convert(result, wanted)


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
    center = broadcast(_mean(*arrays, axes=axes, dtype=wide.dtype, keepdims=True), x.shape)
    return _var_about(x, center, *arrays[1:], axes=axes, dtype=dtype, ddof=ddof, keepdims=keepdims)


@compound
def _var_about(
    x: Array,
    center: Array,
    where: Array | None = None,
    /,
    *,
    axes: Axes,
    dtype: Dtype,
    ddof: float,
    keepdims: bool,
) -> Array:
    wide = accumulation_dtype(dtype)
    deviation = apply(ops.subtract, convert(x, wide), convert(center, wide))
    # Masked before it is squared: 0 times the derivative at a NaN that is left out would be NaN.
    squares = _squared_size(masked(deviation, where, 0))
    total = reduce(ops.reduce_add, squares, axes, keepdims)
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
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> Array:
    """Return the standard deviation over axes; the parameters are those of `var`."""
    refuse_out(out)
    options: dict[str, Any] = {"where": where, "mean": mean, "correction": correction}
    return root_of(var, a, axis, dtype, ddof=ddof, keepdims=keepdims, **options)


def root_of(
    variance: Callable[..., Array], a: ArrayLike, axis: Axis, dtype: Any, **options: Any
) -> Array:
    """Return the root of a variance: that of 16 bits in 32, as it overflows where its root fits."""
    x = as_array(a)
    wanted = promotion.division_dtype(x.dtype) if dtype is None else as_dtype(dtype)
    wide = accumulation_dtype(wanted)
    if wide == wanted:
        return root(variance(x, axis, dtype, **options))
    return convert(root(variance(x, axis, wide, **options)), wanted)


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
        Of the shape of `a`, or of the sizes along `axis`, in the order in which that names them.
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
    if weights is None:
        result = mean(x, axis, keepdims=keepdims)
        count = x.size // max(1, result.size)
        return (result, full_like(result, count)) if returned else result
    w = as_array(weights)
    if w.shape != x.shape:
        w = _spread_weights(x, w, axis)
    # A mean of integers is the default float at least: narrow weights neither round nor overflow.
    dtype = promotion.promote_types(promotion.division_dtype(x.dtype), w.dtype)
    # 16 bits are computed in 32: products round, and sums of large weights overflow.
    wide = accumulation_dtype(dtype)
    w = convert(w, wide)
    total = sum(convert(x, wide) * w, axis, keepdims=keepdims)
    scale = sum(broadcast(w, x.shape), axis, keepdims=keepdims)
    result = convert(total / scale, dtype)
    return (result, convert(scale, dtype)) if returned else result


def _spread_weights(x: Array, weights: Array, axis: Axis) -> Array:
    """Give weights of the axes that are averaged over, in any order, an axis for each of `x`."""
    given = axis if isinstance(axis, tuple | list) else range(x.ndim) if axis is None else (axis,)
    axes = [normalize_axis(number, x.ndim) for number in given]
    sizes = tuple(x.shape[number] for number in axes)
    if weights.shape != sizes:
        raise ShapeError(
            f"average: weights of shape {weights.shape} for an array of shape {x.shape} over "
            f"axes {tuple(axes)}",
            mend=f"give weights of shape {x.shape} or {sizes}",
        )
    order = tuple(sorted(range(len(axes)), key=axes.__getitem__))
    rest = tuple(set(range(x.ndim)) - set(axes))
    return reshape(transpose(weights, order), kept_shape(x.shape, rest))
