"""Interpolation between points, and integrals and derivatives of sampled functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import (
    as_array,
    as_written,
    axes_in_order,
    broadcast,
    convert,
    normalize_axis,
    reshape,
)
from tracer.array.dispatch import compound
from tracer.array.promotion import Dtype, can_cast
from tracer.errors import ArgumentError, DTypeError, ShapeError
from tracer.numpy.arithmetic import maximum, minimum
from tracer.numpy.elementwise import where
from tracer.numpy.joining import concatenate
from tracer.numpy.repeating import diff, slice_axis
from tracer.numpy.searching import searchsorted
from tracer.numpy.taking import take
from tracer.numpy.ufunc import require_no_bool


def interp(
    x: ArrayLike,
    xp: ArrayLike,
    fp: ArrayLike,
    left: ArrayLike | None = None,
    right: ArrayLike | None = None,
    period: float | None = None,
) -> Array:
    """Interpolate linearly between points.

    Parameters
    ----------
    x : array_like
        Where to.
    xp, fp : array_like, one axis
        Abscissas, increasing (in any order with a period), and ordinates of the points.
    left, right : number, optional
        The values before the first and after the last point; those of the points by default.
    period : float, optional
        The function repeats after this; `left` and `right` are then without effect.

    Returns
    -------
    Array of floats, the shape of `x`
        The values.
    """
    points, values, at = as_array(xp), as_array(fp), as_array(x)
    if points.ndim != 1 or points.shape != values.shape or not points.size:
        raise ShapeError(
            f"interp: points of shapes {points.shape} and {values.shape} do not fit",
            mend="give two vectors of one length, which is not zero",
        )
    wide = promotion.division_dtype(promotion.result_type(points, at, 1.0))
    points, at = convert(points, wide), convert(at, wide)
    # In the dtype of the result from the start: differences of narrow values have their precision.
    floats = promotion.division_dtype(promotion.result_type(values, 1.0))
    values = convert(values, promotion.promote_types(floats, wide))
    if period is not None:
        _require_period(period)
        points, values, at = _unrolled(points, values, at, abs(period))
        left = right = None
    return _between(
        at,
        points,
        values,
        values[0] if left is None else left,
        values[-1] if right is None else right,
    )


def _require_period(period: Any) -> None:
    if not (isinstance(period, Array) and period.is_traced) and not period:
        raise ArgumentError("interp: the period is 0", mend="give a number that is not 0")


def _picked(x: Array, places: Array) -> Array:
    return take(x, places, mode="promise_in_bounds")


def _unrolled(points: Array, values: Array, at: Array, period: float) -> tuple[Array, Array, Array]:
    points, at = points % period, at % period
    order = points.argsort()
    points, values = _picked(points, order), _picked(values, order)
    points = concatenate([points[-1:] - period, points, points[:1] + period])
    return points, concatenate([values[-1:], values, values[:1]]), at


def _between(x: Array, points: Array, values: Array, left: Any, right: Any) -> Array:
    last = points.size - 1
    upper = minimum(maximum(searchsorted(points, x, "right"), 1), maximum(last, 1))
    upper = minimum(upper, last)
    lower = maximum(upper - 1, 0)
    x0, x1 = _picked(points, lower), _picked(points, upper)
    y0, y1 = _picked(values, lower), _picked(values, upper)
    # The difference of two points may be zero where they are not equal: XLA has no subnormal ones.
    width = x1 - x0
    width = where(width == 0, 1, width)
    result = y0 + (y1 - y0) * ((x - x0) / width)
    # An infinity at one of the points may be taken off from itself: then from the other point, and
    # nothing is taken off where both are equal, or at a point. Only there: gradients are slopes.
    behind = y1 + (y1 - y0) * ((x - x1) / width)
    other = where((y0 == y1) | (x == x0), y0, behind)
    result = where(result == result, result, other)
    result = where(x < points[0], left, result)
    result = where(x > points[-1], right, result)
    # Seen from the last point its value is met, and the slope is that of the piece before.
    end = where(behind == behind, behind, values[-1])
    result = where(x == points[-1], end, result)
    return where(x != x, x, result)  # type: ignore[no-any-return]


def trapezoid(
    y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1
) -> Array:
    """Integrate samples along an axis by the trapezoidal rule.

    Parameters
    ----------
    y : array_like
        The samples.
    x : array_like, optional
        Where they were taken: one place for each along the axis, or the shape of `y`.
    dx : number or array_like
        The distance of neighbours when there is no `x`.
    axis : int
        The axis.

    Returns
    -------
    Array
        The integrals.
    """
    samples = as_array(y)
    number = normalize_axis(axis, samples.ndim)
    width: Any = dx
    if x is not None:
        places = as_array(x)
        width = diff(places, axis=-1 if places.ndim == 1 else axis)
        if places.ndim == 1:
            width = _along(width, number, samples.ndim)
    size = samples.shape[number]
    upper = _part(samples, axis=number, start=1, limit=size)
    lower = _part(samples, axis=number, start=0, limit=size - 1)
    # places may have more axes than the samples: a negative axis is then another one of theirs
    return (width * (upper + lower) / 2.0).sum(axis)  # type: ignore[no-any-return]


def _along(x: Array, axis: int, ndim: int) -> Array:
    """Lay a vector along one of so many axes."""
    return reshape(x, tuple(x.size if i == axis else 1 for i in range(ndim)))


@compound
def _part(x: Array, *, axis: int, start: int, limit: int) -> Array:
    start = min(start, x.shape[axis])
    return slice_axis(x, axis, start, max(limit, start))


def gradient(f: ArrayLike, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Return the derivatives of samples by central differences, one-sided at the ends.

    Parameters
    ----------
    f : array_like
        The samples.
    *varargs : number or array_like
        For all axes, or for each: the distance of neighbours, or the places of the samples.
    axis : int or tuple of int, optional
        The axes along which derivatives are taken, in the order of spacings and results; all by
        default.
    edge_order : {1, 2}
        The order of the one-sided differences.

    Returns
    -------
    Array, or list of Array (tuple for several axes)
        The derivative along each axis, of the shape of `f`.
    """
    x = as_array(f)
    x = convert(x, promotion.division_dtype(x.dtype))
    axes = axes_in_order(axis, x.ndim)
    spacings: Sequence[Any] = varargs or (1.0,)
    spacings = list(spacings) * len(axes) if len(spacings) == 1 else list(spacings)
    if len(spacings) != len(axes):
        raise ArgumentError(
            f"gradient along {len(axes)} axes with {len(varargs)} spacings",
            mend="give one for all axes, or one for each",
        )
    if edge_order not in (1, 2):
        raise ArgumentError(f"gradient has no edge_order {edge_order!r}", mend="use 1 or 2")
    results = [
        _gradient(x, number, spacing, edge_order)
        for number, spacing in zip(axes, spacings, strict=True)
    ]
    return results[0] if len(results) == 1 else tuple(results)


def _gradient(x: Array, axis: int, spacing: ArrayLike, edge_order: int) -> Array:
    size = x.shape[axis]
    if size <= edge_order:
        raise ShapeError(
            f"gradient along an axis of {size} samples", mend=f"give at least {edge_order + 1}"
        )
    places = as_array(spacing)
    if places.ndim and places.shape != (size,):
        raise ShapeError(
            f"gradient: {places.size} places for {size} samples", mend="give one for each"
        )
    is_real = x.dtype.kind != "c" or places.dtype.kind != "c"
    places = convert(places, promotion.real_dtype(x.dtype) if is_real else x.dtype)
    steps = diff(places) if places.ndim else broadcast(places, (size - 1,))
    steps = _along(steps, axis, x.ndim)
    slopes = diff(x, axis=axis) / steps
    before, after = _ends(steps, axis)
    low, high = _ends(slopes, axis)
    if places.ndim:
        middle = (before * high + after * low) / (before + after)
    else:
        # The sample between the two has no say, not even an infinite one.
        ends = [_part(x, axis=axis, start=i, limit=size - 2 + i) for i in (0, 2)]
        middle = (ends[1] - ends[0]) / (places * 2)
    first, last = _at(slopes, axis, 0), _at(slopes, axis, size - 2)
    if edge_order == 2:
        # The slope of the parabola through the first (or last) three samples.
        bend = (_at(high, axis, 0) - _at(low, axis, 0)) / _at(before + after, axis, 0)
        first = first - bend * _at(steps, axis, 0)
        end = size - 3
        bend = (_at(high, axis, end) - _at(low, axis, end)) / _at(before + after, axis, end)
        last = last + bend * _at(steps, axis, size - 2)
    return concatenate([first, middle, last], axis)


def _ends(x: Array, axis: int) -> tuple[Array, Array]:
    size = x.shape[axis]
    first = _part(x, axis=axis, start=0, limit=size - 1)
    return first, _part(x, axis=axis, start=1, limit=size)


def _at(x: Array, axis: int, index: int) -> Array:
    return _part(x, axis=axis, start=index, limit=index + 1)


def unwrap(
    p: ArrayLike, discont: float | None = None, axis: int = -1, *, period: Any = 6.283185307179586
) -> Array:
    """Take jumps of more than half a period out of samples; see `numpy.unwrap`."""
    x = as_array(p)
    if isinstance(period, np.signedinteger):
        x, period = convert(x, promotion.result_type(x, period)), int(period)
    is_whole = x.dtype.kind in "bi" and promotion.weak_class(period) is int
    if is_whole:
        x = convert(x, promotion.weak_dtype(x.dtype, int))
    elif x.dtype.kind in "biu":
        x = convert(x, promotion.division_dtype(x.dtype))
    half = period // 2 if is_whole else period / 2
    steps = diff(x, axis=axis)
    wrapped = (steps + half) % period - half
    if half * 2 == period:
        # A jump of exactly half a period keeps its direction.
        wrapped = where((wrapped == -half) & (steps > 0), half, wrapped)
    limit = period / 2 if discont is None else discont
    correction = where(abs(steps) < limit, 0, wrapped - steps)
    number = normalize_axis(axis, x.ndim)
    first = _part(x, axis=number, start=0, limit=min(1, x.shape[number]))
    rest = _part(x, axis=number, start=1, limit=x.shape[number])
    return concatenate([first, rest + convert(correction.cumsum(number), x.dtype)], number)


def ediff1d(
    ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None
) -> Array:
    """Return the differences of neighbours in the flattened array, with ends; see NumPy."""
    x = as_array(ary).ravel()
    require_no_bool("ediff1d", x.dtype, "convert with astype first")
    parts = [diff(x)]
    if to_begin is not None:
        parts.insert(0, _end("to_begin", to_begin, x.dtype))
    if to_end is not None:
        parts.append(_end("to_end", to_end, x.dtype))
    return concatenate(parts)


def _end(name: str, value: ArrayLike, dtype: Dtype) -> Array:
    given = as_array(value).dtype
    if not can_cast(given, dtype, "same_kind"):
        raise DTypeError(
            f"ediff1d cannot cast {name}, {given}, to {dtype}, the dtype of the array",
            mend="convert one of them with astype first",
        )
    return as_written(value, dtype).ravel()
