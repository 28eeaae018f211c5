"""Quantiles: median, percentile, and those that skip NaN.

References
----------
Hyndman, Fan: Sample quantiles in statistical packages. The American Statistician 50(4), 1996.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracer import ops
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import (
    as_array,
    as_keepdims,
    broadcast,
    convert,
    normalize_axes,
    reshape,
    scalar,
    transpose,
)
from tracer.array.dispatch import apply, apply_many, compound
from tracer.errors import ArgumentError, DTypeError, ShapeError
from tracer.ir import as_dtype
from tracer.numpy.arithmetic import remainder
from tracer.numpy.elementwise import where
from tracer.numpy.logic import isinf
from tracer.numpy.reductions import Axis, kept_shape, refuse_out
from tracer.numpy.rounding import ceil, clip, floor, rint
from tracer.numpy.sorting import sort
from tracer.numpy.taking import take_along_axis
from tracer.numpy.ufunc import compare, full_like, is_complex, select

Axes = tuple[int, ...]
Dtypes = tuple[promotion.Dtype, promotion.Dtype]
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
    "inverted_cdf": (0.0, 1.0),
    "averaged_inverted_cdf": (0.0, 1.0),
    "closest_observation": (-0.5, 1.5),
}
"""alpha and beta of each method: where in the sorted sample a quantile is."""
_CHOOSING = ("lower", "higher", "nearest", "inverted_cdf", "closest_observation")
"""The methods whose result is an element, of the dtype of the data."""


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
        Numbers; complex ones are in the order of their real, then of their imaginary parts.
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
    Array of floats, or complex
        The medians; of an even number of elements the mean of the middle two.
    """
    return _quantiles("median", a, 0.5, axis, out, "linear", keepdims, skips_nan=False)


def quantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: None = None,
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
        "median_unbiased", "normal_unbiased", "interpolated_inverted_cdf", "inverted_cdf",
        "averaged_inverted_cdf" or "closest_observation".
    keepdims : bool
        Keep the axes with size one.
    weights : None
        Refused: weighted quantiles are not supported.

    Returns
    -------
    Array
        The shape of `q`, then the axes that stay. NaN where there is a NaN. Floats, and the dtype
        of `a` for the methods that choose an element: "lower", "higher", "nearest",
        "inverted_cdf", "closest_observation".
    """
    _refuse_weights("quantile", weights)
    return _quantiles("quantile", a, q, axis, out, method, keepdims, skips_nan=False)


def percentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: None = None,
) -> Array:
    """Return percentiles over axes: `quantile(a, q / 100)`."""
    _refuse_weights("percentile", weights)
    return _quantiles("percentile", a, _hundredth(q), axis, out, method, keepdims, skips_nan=False)


def nanmedian(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """Return the median of the elements that are not NaN; see `median`."""
    return _quantiles("nanmedian", a, 0.5, axis, out, "linear", keepdims, skips_nan=True)


def nanquantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: None = None,
) -> Array:
    """Return quantiles without the NaNs, NaN where all are; see `quantile`."""
    _refuse_weights("nanquantile", weights)
    return _quantiles("nanquantile", a, q, axis, out, method, keepdims, skips_nan=True)


def nanpercentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: None = None,
) -> Array:
    """Return percentiles without the NaNs, NaN where all are; see `percentile`."""
    _refuse_weights("nanpercentile", weights)
    part = _hundredth(q)
    return _quantiles("nanpercentile", a, part, axis, out, method, keepdims, skips_nan=True)


def _refuse_weights(name: str, weights: object) -> None:
    if weights is not None:
        raise ArgumentError(
            f"{name} does not take weights",
            mend="sort by argsort, and look q up in the cumulative sum of the weights",
        )


def _hundredth(q: Any) -> Any:
    if isinstance(q, int | float) or promotion.weak_class(q) is not None:
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
    if x.dtype.kind == "c" and name not in ("median", "nanmedian"):
        raise DTypeError(f"{name} takes real numbers", mend="take the real part or abs first")
    axes = normalize_axes(axis, x.ndim)
    is_empty = math.prod(x.shape[axis] for axis in axes) == 0
    if is_empty and name in ("quantile", "percentile"):
        raise ShapeError(f"{name} of no elements (shape {x.shape})", mend="give elements")
    wide = promotion.division_dtype(x.dtype)
    levels = as_array(q)
    # A Python number leaves results in the dtype of the data, but keeps its own digits: the place
    # in many elements has more than those of narrow floats.
    is_weak = isinstance(q, int | float) or promotion.weak_class(q) is not None
    if not is_weak:
        wide = promotion.promote_types(wide, promotion.division_dtype(levels.dtype))
    _require_levels(name, levels)
    # Integers are sorted as they are: as floats they take up to eight times the memory.
    is_truth = x.dtype.kind == "b" and method not in _CHOOSING
    dtypes = promotion.division_dtype(x.dtype) if is_truth else x.dtype, wide
    if is_empty:
        rest = tuple([size for axis, size in enumerate(x.shape) if axis not in axes])
        result = broadcast(scalar(math.nan, wide), (*levels.shape, *rest))
    else:
        result = _found(x, levels, axes=axes, dtypes=dtypes, method=method, skips_nan=skips_nan)
    if not as_keepdims(keepdims):
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
def _found(
    x: Array, levels: Array, *, axes: Axes, dtypes: Dtypes, method: str, skips_nan: bool
) -> Array:
    """Return the quantiles: one program, as few places of an array need no sort.

    The dtypes are those of what is sorted and of what lies between two elements.
    """
    rows = _rows(x, axes=axes, dtype=dtypes[0])
    # Of the array as it is: sorted it may not be stored.
    count = _numbers(x, axes=axes) if skips_nan else as_array(rows.shape[-1])
    return _of_rows(rows, levels, count, wide=dtypes[1], method=method, skips_nan=skips_nan)


def _rows(x: Array, *, axes: Axes, dtype: promotion.Dtype) -> Array:
    """Lay the reduced axes along the last one, and sort it; NaN comes last."""
    kept = tuple(axis for axis in range(x.ndim) if axis not in axes)
    count = math.prod(x.shape[axis] for axis in axes)
    moved = transpose(convert(x, dtype), kept + axes)
    rows = reshape(moved, (*[x.shape[axis] for axis in kept], count))
    last = rows.ndim - 1
    if is_complex(rows):
        return sort(rows, last)
    (ordered,) = apply_many(ops.sort, rows, dimension=last, num_keys=1, is_stable=True)
    return ordered


def _numbers(x: Array, *, axes: Axes) -> Array:
    """Count what is not NaN along the reduced axes; one axis of one element in their place."""
    count = compare(x, x, "EQ").sum(axes)
    return reshape(count, (*count.shape, 1))


def _of_rows(
    rows: Array,
    levels: Array,
    count: Array,
    *,
    wide: promotion.Dtype,
    method: str,
    skips_nan: bool,
) -> Array:
    is_nan = compare(rows, rows, "NE")
    # Halves between places have to be exact.
    least = "float32" if rows.shape[-1] < _FLOAT32_PLACES else "float64"
    exact = promotion.promote_types(
        promotion.real_dtype(wide), promotion.division_dtype(levels.dtype)
    )
    exact = promotion.promote_types(exact, as_dtype(least))
    flat = convert(reshape(levels, (levels.size,)), exact)
    place = _place(convert(count, exact), flat, method)
    shape = (*rows.shape[:-1], levels.size)
    low, high, weight = _neighbours(place, convert(count, exact) - 1, method)
    below, above = [
        take_along_axis(rows, broadcast(convert(i, _INT64), shape), mode="promise_in_bounds")
        for i in (clip(low, 0, None), clip(high, 0, None))
    ]
    result = below
    if method not in _CHOOSING:
        below, above = convert(below, wide), convert(above, wide)
        result = where(low == high, below, below + _gap(below, above) * convert(weight, wide))
    if result.dtype.kind not in "biu":
        none_left = is_nan[..., :1] if skips_nan else is_nan[..., -1:]
        nan = full_like(result, math.nan)
        if is_complex(result):  # One part of the last may be a number.
            nan = apply(ops.stop_gradient, broadcast(rows[..., -1:], shape))
        # A product with NaN would hand NaN to the gradient of every element.
        result = select(broadcast(none_left, shape), nan, result)
    moved = transpose(result, (len(shape) - 1, *range(len(shape) - 1)))
    return reshape(moved, (*levels.shape, *rows.shape[:-1]))


_INT64 = as_dtype("int64")
_FLOAT32_PLACES = 1 << 23


def _place(count: Array, levels: Array, method: str) -> Array:
    """Return where quantiles are in the sorted sample, rounded as NumPy's."""
    alpha, beta = _PLOTTING_POSITIONS[method]
    if alpha == beta == 1:
        return (count - 1) * levels
    return count * levels + (alpha + levels * (1 - alpha - beta)) - 1


def _gap(below: Array, above: Array) -> Array:
    """Return the difference of neighbours; zero from an infinity unless to its opposite."""
    stays = isinf(below) & (above != -below)
    gap: Array = where(stays, 0, above - below)
    return gap


def _neighbours(place: Array, last: Array, method: str) -> tuple[Array, Array, Array]:
    """Return the places in the sorted sample around a quantile, and the weight of the second."""
    if method == "closest_observation":
        before = floor(place)
        # Of two equally close ones the one of even rank, which counts from one.
        is_even = (place == before) & (remainder(before, 2) == 1)
        chosen = clip(where(is_even, before, before + 1), 0, last)
        return chosen, chosen, chosen
    if method == "averaged_inverted_cdf":
        is_exact = place == floor(place)
        return clip(ceil(place), 0, last), clip(floor(place) + 1, 0, last), 0.5 * is_exact
    place = clip(place, 0, last)
    rounding = _ROUNDING.get(method)
    if rounding is not None:
        return rounding(place), rounding(place), place
    low, high = floor(place), ceil(place)
    return low, high, 0.5 * (high - low) if method == "midpoint" else place - low


_ROUNDING = {"lower": floor, "higher": ceil, "nearest": rint, "inverted_cdf": ceil}
