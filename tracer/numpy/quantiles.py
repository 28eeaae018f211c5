"""Quantiles: median, percentile, and those that skip NaN.

References
----------
Hyndman, Fan: Sample quantiles in statistical packages. The American Statistician 50(4), 1996.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tracer import ops
from tracer.errors import ArgumentError, DTypeError, ShapeError
from tracer.ir import as_dtype
from tracer.numpy import promotion
from tracer.numpy.base import ArrayLike
from tracer.numpy.convert import (
    as_array,
    broadcast,
    convert,
    normalize_axes,
    reshape,
    transpose,
)
from tracer.numpy.dispatch import apply_many, compound
from tracer.numpy.elementwise import where
from tracer.numpy.reductions import Axis, kept_shape, refuse_out
from tracer.numpy.rounding import ceil, clip, floor, rint
from tracer.numpy.taking import take_along_axis
from tracer.numpy.ufunc import compare, full_like, select

if TYPE_CHECKING:
    from tracer.numpy.array import Array

Axes = tuple[int, ...]
_PLOTTING_POSITIONS = {
    "linear": (1.0, 1.0),
    "lower": (1.0, 1.0),
    "higher": (1.0, 1.0),
    "nearest": (1.0, 1.0),
    "midpoint": (1.0, 1.0),
    "weibull": (0.0, 0.0),
    "hazen": (0.5, 0.5),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
    "interpolated_inverted_cdf": (0.0, 1.0),
}
"""alpha and beta of each method: where in the sorted sample a quantile lies."""


def median(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """Return the middle of the sorted elements over axes; NaN when there is one.

    Parameters
    ----------
    a : array_like
        Real numbers.
    axis : int or tuple of int, optional
        Axes to reduce; all by default.
    out : None
        Refused: arrays are not written in place.
    overwrite_input : bool
        Without effect.
    keepdims : bool
        Keep the axes with size one.

    Returns
    -------
    Array of floats
        The medians; of an even number of elements the mean of the middle two.
    """
    return quantile(a, 0.5, axis, out, overwrite_input, keepdims=keepdims)


def quantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
) -> Array:
    """Return quantiles over axes.

    Parameters
    ----------
    a : array_like
        Real numbers.
    q : array_like
        Between 0 and 1. Traced ones are not checked.
    axis : int or tuple of int, optional
        Axes to reduce; all by default.
    out : None
        Refused: arrays are not written in place.
    overwrite_input : bool
        Without effect.
    method : str
        "linear", "lower", "higher", "nearest", "midpoint", "weibull", "hazen",
        "median_unbiased", "normal_unbiased" or "interpolated_inverted_cdf".
    keepdims : bool
        Keep the axes with size one.

    Returns
    -------
    Array of floats
        The shape of `q`, then the axes that stay. NaN where there is a NaN.
    """
    return _quantiles("quantile", a, q, axis, out, method, keepdims, skips_nan=False)


def percentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
) -> Array:
    """Return percentiles over axes: `quantile(a, q / 100)`."""
    return _quantiles("percentile", a, _hundredth(q), axis, out, method, keepdims, skips_nan=False)


def nanmedian(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """Return the median of what is not NaN; see `median`."""
    return nanquantile(a, 0.5, axis, out, overwrite_input, keepdims=keepdims)


def nanquantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
) -> Array:
    """Return quantiles of what is not NaN, NaN where all is; see `quantile`."""
    return _quantiles("nanquantile", a, q, axis, out, method, keepdims, skips_nan=True)


def nanpercentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
) -> Array:
    """Return percentiles of what is not NaN, NaN where all is; see `percentile`."""
    part = _hundredth(q)
    return _quantiles("nanpercentile", a, part, axis, out, method, keepdims, skips_nan=True)


def _hundredth(q: Any) -> Any:
    if isinstance(q, int | float):
        return q / 100
    return as_array(q) / 100.0


def _quantiles(
    name: str,
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis,
    out: None,
    method: str,
    keepdims: bool,
    *,
    skips_nan: bool,
) -> Array:
    refuse_out(out)
    if method not in _PLOTTING_POSITIONS:
        raise ArgumentError(
            f"{name}: method {method!r} is not known",
            mend=f"use one of {', '.join(_PLOTTING_POSITIONS)}",
        )
    x = as_array(a)
    if x.dtype.kind == "c":
        raise DTypeError(f"{name} takes real numbers", mend="take the real part or abs first")
    axes = normalize_axes(axis, x.ndim)
    if math.prod(x.shape[axis] for axis in axes) == 0:
        raise ShapeError(f"{name} of no elements (shape {x.shape})", mend="give elements")
    wide = promotion.division_dtype(x.dtype)
    # A Python number takes the dtype of the data.
    levels = convert(as_array(q), wide) if isinstance(q, int | float) else as_array(q)
    _require_levels(name, levels)
    rows = _rows(x, axes=axes, dtype=wide)
    result = _of_rows(rows, levels, method=method, skips_nan=skips_nan)
    if not keepdims:
        return result
    return reshape(result, (*levels.shape, *kept_shape(x.shape, axes)))


def _require_levels(name: str, levels: Array) -> None:
    if levels.is_traced or not levels.size:
        return
    host = np.asarray(levels).astype(float)
    if not np.all((host >= 0) & (host <= 1)):
        raise ArgumentError(
            f"{name} {host} is not between 0 and 1",
            mend="give quantiles from 0 to 1, percentiles (here divided by 100) from 0 to 100",
        )


@compound
def _rows(x: Array, *, axes: Axes, dtype: promotion.Dtype) -> Array:
    """Lay the reduced axes along the last one, and sort it; NaN comes last."""
    kept = tuple(axis for axis in range(x.ndim) if axis not in axes)
    count = math.prod(x.shape[axis] for axis in axes)
    moved = transpose(convert(x, dtype), kept + axes)
    rows = reshape(moved, (*[x.shape[axis] for axis in kept], count))
    last = rows.ndim - 1
    (ordered,) = apply_many(ops.sort, rows, dimension=last, num_keys=1, is_stable=True)
    return ordered


@compound
def _of_rows(rows: Array, levels: Array, *, method: str, skips_nan: bool) -> Array:
    wide = promotion.promote_types(rows.dtype, promotion.division_dtype(levels.dtype))
    is_nan = compare(rows, rows, "NE")
    count = (~is_nan).sum(-1, keepdims=True) if skips_nan else as_array(rows.shape[-1])
    exact = promotion.promote_types(wide, as_dtype("float32"))
    flat = convert(reshape(levels, (levels.size,)), exact)
    alpha, beta = _PLOTTING_POSITIONS[method]
    place = convert(count, exact) * flat + (alpha + flat * (1 - alpha - beta)) - 1
    place = clip(place, 0, convert(count, exact) - 1)
    low, high = _neighbours(place, method)
    shape = (*rows.shape[:-1], levels.size)
    weight = convert(0.5 * (high - low) if method == "midpoint" else place - low, wide)
    below, above = [
        convert(take_along_axis(rows, broadcast(convert(clip(i, 0, None), _INT64), shape)), wide)
        for i in (low, high)
    ]
    result = where(low == high, below, below + (above - below) * weight)
    none_left = is_nan[..., :1] if skips_nan else is_nan[..., -1:]
    # A product with NaN would hand NaN to the gradient of every element.
    result = select(broadcast(none_left, shape), full_like(result, math.nan), result)
    moved = transpose(result, (len(shape) - 1, *range(len(shape) - 1)))
    return reshape(moved, (*levels.shape, *rows.shape[:-1]))


_INT64 = as_dtype("int64")


def _neighbours(place: Array, method: str) -> tuple[Array, Array]:
    """Return the places in the sorted sample between which a quantile is interpolated."""
    if method == "lower":
        return floor(place), floor(place)
    if method == "higher":
        return ceil(place), ceil(place)
    if method == "nearest":
        return rint(place), rint(place)
    return floor(place), ceil(place)
