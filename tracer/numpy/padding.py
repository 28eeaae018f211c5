"""Padding: elements added at the ends of axes, in all of NumPy's modes.

Axes are padded one after the other, so a corner is filled by the last of its axes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tracer import ops
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, convert, holds_arrays, normalize_axis, scalar
from tracer.array.dispatch import apply, compound, from_host
from tracer.array.placement import beside_arguments
from tracer.array.promotion import Dtype, require_fitting, weak_class
from tracer.errors import ArgumentError, TracingError, shown
from tracer.numpy.extremes import max, min
from tracer.numpy.joining import concatenate
from tracer.numpy.quantiles import median
from tracer.numpy.ranges import linspace
from tracer.numpy.rounding import rint
from tracer.numpy.shaping import broadcast_to, flip
from tracer.numpy.statistics import mean

Pairs = list[list[int]]
Pad = Callable[["Array", int, int, int, dict[str, Any]], "Array"]


def pad(
    array: ArrayLike,
    pad_width: ArrayLike | Mapping[int, Any],
    mode: str | Callable[..., Any] = "constant",
    **kwargs: Any,
) -> Array:
    """Add elements at the ends of axes.

    Parameters
    ----------
    array : array_like
        What is padded.
    pad_width : int or pair or sequence of pairs of int, or dict
        How many elements before and after each axis; a dict names the axes.
    mode : str or callable
        "constant", "edge", "linear_ramp", "maximum", "mean", "median", "minimum", "reflect",
        "symmetric", "wrap" or "empty"; see `numpy.pad`. A function changes vectors in place, as
        NumPy's: the data is padded on the host, so it cannot be traced.
    **kwargs
        `constant_values` and `end_values` (a number, a pair, or one pair for each axis) for modes
        "constant" and "linear_ramp", `stat_length` for the statistics, `reflect_type` ("even" or
        "odd") for "reflect" and "symmetric".

    Returns
    -------
    Array
        The padded array; "empty" pads with zeros.

    Raises
    ------
    ArgumentError
        There is no such mode or option, widths are negative, or an empty axis has nothing to
        repeat.
    RangeError
        `array` cannot hold `constant_values` or `end_values`.
    TracingError
        `mode` is a function and the array is traced.
    """
    x = as_array(array)
    widths = _pad_widths(pad_width, x.ndim)
    if callable(mode):
        return _pad_by_function(x, widths, mode, kwargs)
    if mode not in _MODES:
        raise ArgumentError(
            f"pad mode {mode!r} is not known", mend=f"use one of {', '.join(_MODES)}"
        )
    pad_axis, allowed = _MODES[mode]
    _require_options(mode, kwargs, allowed)
    for name in ("constant_values", "end_values"):
        _require_fitting(kwargs.get(name, 0), x.dtype)
    value = as_array(kwargs.get("constant_values", 0))
    if pad_axis is _pad_constant and not value.ndim:
        return _pad(x, convert(value, x.dtype), widths=tuple((low, high) for low, high in widths))
    options = {name: _pairs(name, value, x.ndim) for name, value in kwargs.items()}
    return _pad_axes(x._snapshot(), widths, pad_axis, mode, options)


def _pad_axes(x: Array, widths: Pairs, pad_axis: Pad, mode: str, options: dict[str, Any]) -> Array:
    for axis, (low, high) in enumerate(widths):
        if not (low or high):
            continue
        if not x.shape[axis] and pad_axis is not _pad_constant:
            raise ArgumentError(
                f"pad mode {mode!r} has nothing to repeat along axis {axis} of size zero",
                mend='use mode "constant" or "empty"',
            )
        here = {name: value[axis] for name, value in options.items()}
        x = pad_axis(x, axis, low, high, {"mode": mode, **here})
    return x


def _pad_widths(pad_width: Any, ndim: int) -> Pairs:
    if isinstance(pad_width, dict):
        by_axis = {normalize_axis(axis, ndim): width for axis, width in pad_width.items()}
        if any(np.shape(width) not in ((), (1,), (2,)) for width in by_axis.values()):
            raise ArgumentError(
                f"pad: pad_width is {shown(pad_width)}", mend="give a number or a pair for an axis"
            )
        pad_width = [np.broadcast_to(by_axis.get(axis, 0), 2) for axis in range(ndim)]
    widths = np.asarray(pad_width)
    if not widths.size and not ndim:
        return []
    if widths.dtype.kind not in "iu" or widths.shape not in ((), (1,), (2,), (1, 2), (ndim, 2)):
        raise ArgumentError(
            f"pad_width {pad_width!r} does not fit {ndim} axes",
            mend="give an integer, a pair (before, after), or one pair for each axis",
        )
    if (widths < 0).any():
        raise ArgumentError(f"negative pad_width {pad_width}", mend="give 0 or more")
    return np.broadcast_to(widths, (ndim, 2)).tolist()  # type: ignore[no-any-return]


def _require_options(mode: str, options: dict[str, Any], allowed: tuple[str, ...]) -> None:
    unknown = sorted(set(options) - set(allowed))
    if unknown:
        raise ArgumentError(
            f"pad mode {mode!r} does not take {', '.join(unknown)}",
            mend=f"leave it out; it takes {', '.join(allowed) or 'no options'}",
        )


def _require_fitting(values: Any, dtype: Dtype) -> None:
    """Refuse values at hand that the padded array cannot hold, as NumPy does: also its own."""
    if weak_class(values) is not None:
        scalar(values, dtype)
    elif not isinstance(values, Array) and not holds_arrays((values,)):
        require_fitting(np.asarray(values).tolist(), dtype)


def _pairs(name: str, value: Any, ndim: int) -> Any:
    """Return an option as a pair for each axis; that of values may be traced."""
    if name == "reflect_type":
        if value not in ("even", "odd"):
            raise ArgumentError(
                f"pad: reflect_type={value!r} is not known", mend='use "even" or "odd"'
            )
        return [value] * ndim
    if name != "stat_length":
        return broadcast_to(as_array(value), (ndim, 2))
    if value is None:
        return [(None, None)] * ndim
    lengths = np.asarray(value)
    if lengths.dtype.kind not in "iu" or (lengths < 0).any():
        raise ArgumentError(
            f"pad: stat_length={value!r} does not fit", mend="give integers of zero or more"
        )
    return np.broadcast_to(lengths, (ndim, 2)).tolist()


@beside_arguments
def _pad_by_function(
    x: Array, widths: Pairs, function: Callable[..., Any], options: dict[str, Any]
) -> Array:
    if x.is_traced:
        raise TracingError(
            "pad with a function as mode changes NumPy arrays in place, which cannot be traced",
            mend="use one of the named modes, or pad outside of the traced function",
        )
    return from_host(np.pad(np.asarray(x), widths, function, **options))


def _pad_constant(x: Array, axis: int, low: int, high: int, options: dict[str, Any]) -> Array:
    values = convert(options["constant_values"], x.dtype)
    before, after = [[(0, 0)] * x.ndim for _ in range(2)]
    before[axis], after[axis] = (low, 0), (0, high)
    return _pad(_pad(x, values[0], widths=tuple(before)), values[1], widths=tuple(after))


@compound
def _pad(x: Array, value: Array, *, widths: tuple[tuple[int, int], ...]) -> Array:
    return apply(
        ops.pad,
        x,
        value,
        low=tuple(low for low, _ in widths),
        high=tuple(high for _, high in widths),
        interior=(0,) * x.ndim,
    )


def _pad_places(x: Array, axis: int, low: int, high: int, options: dict[str, Any]) -> Array:
    # NumPy's own rule, applied to the positions.
    places = np.pad(np.arange(x.shape[axis]), (low, high), mode=options["mode"])
    return x[(slice(None),) * axis + (places,)]


def _pad_reflected(x: Array, axis: int, low: int, high: int, options: dict[str, Any]) -> Array:
    if options.get("reflect_type", "even") == "even" or x.shape[axis] == 1:
        return _pad_places(x, axis, low, high, options)
    skipped = int(options["mode"] == "reflect")
    period = x.shape[axis] - skipped
    x = _reflect_front(x, axis, low, period, skipped)
    return flip(_reflect_front(flip(x, axis), axis, high, period, skipped), axis)


def _reflect_front(x: Array, axis: int, width: int, period: int, skipped: int) -> Array:
    """Continue in front by the reflection in the first element, with the opposite sign."""
    while width:
        count = period if width > period else width
        first, mirrored = _part(x, axis, 0, 1), _part(x, axis, skipped, skipped + count)
        x = concatenate([2 * first - flip(mirrored, axis), x], axis)
        width -= count
    return x


def _pad_ramp(x: Array, axis: int, low: int, high: int, options: dict[str, Any]) -> Array:
    ends = as_array(options.get("end_values", [0, 0]))
    first, last = _edges(x, axis, 1, 1)

    def ramp(end: Array, edge: Array, width: int) -> Array:
        inner = edge[(slice(None),) * axis + (0,)]
        return convert(
            linspace(end, inner, width, endpoint=False, dtype=x.dtype, axis=axis), x.dtype
        )

    parts = [ramp(ends[0], first, low), x, flip(ramp(ends[1], last, high), axis)]
    return concatenate(parts, axis)


def _pad_statistic(x: Array, axis: int, low: int, high: int, options: dict[str, Any]) -> Array:
    size = x.shape[axis]
    lengths = [
        size if length is None or length > size else length
        for length in options.get("stat_length", (None, None))
    ]
    if 0 in lengths:
        raise ArgumentError(
            f"pad mode {options['mode']!r} of stat_length 0", mend="give lengths of one or more"
        )
    parts = []
    for edge, width in zip(_edges(x, axis, *lengths), (low, high), strict=True):
        value = _STATISTICS[options["mode"]](edge, axis, keepdims=True)
        is_between = value.dtype != x.dtype and x.dtype.kind in "iu"
        value = convert(rint(value) if is_between else value, x.dtype)
        shape = tuple([width if i == axis else size for i, size in enumerate(x.shape)])
        parts.append(broadcast_to(value, shape))
    return concatenate([parts[0], x, parts[1]], axis)


def _edges(x: Array, axis: int, low: int, high: int) -> tuple[Array, Array]:
    size = x.shape[axis]
    return _part(x, axis, 0, low), _part(x, axis, size - high, size)


def _part(x: Array, axis: int, start: int, stop: int) -> Array:
    return x[(slice(None),) * axis + (slice(start, stop),)]


_STATISTICS: dict[str, Callable[..., Array]] = {
    "maximum": max,
    "mean": mean,
    "median": median,
    "minimum": min,
}
_MODES: dict[str, tuple[Pad, tuple[str, ...]]] = {
    "constant": (_pad_constant, ("constant_values",)),
    "edge": (_pad_places, ()),
    "empty": (_pad_constant, ()),
    "linear_ramp": (_pad_ramp, ("end_values",)),
    "reflect": (_pad_reflected, ("reflect_type",)),
    "symmetric": (_pad_reflected, ("reflect_type",)),
    "wrap": (_pad_places, ()),
    **dict.fromkeys(_STATISTICS, (_pad_statistic, ("stat_length",))),
}
"""How each mode pads one axis, and the options that it takes."""
