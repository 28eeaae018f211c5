"""Summaries of samples: mode, ranks, the standard error of the mean."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import tracer.numpy as tnp
from tracer import ops
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, as_keepdims, normalize_axis
from tracer.array.dispatch import apply, compound
from tracer.errors import ArgumentError
from tracer.ir import Op
from tracer.scipy.choice import choose
from tracer.scipy.floats import floats

_METHODS = ("average", "min", "max", "dense", "ordinal")


class ModeResult(NamedTuple):
    """What `mode` returns."""

    mode: Array
    count: Array  # type: ignore[assignment] # SciPy's name, that of a method of tuples


def _along(a: ArrayLike, axis: int | None) -> tuple[Array, int]:
    """Return the array and the axis; all elements in one row for None."""
    x = as_array(a)
    if axis is None or not x.ndim:
        return x.reshape(-1), 0
    return x, normalize_axis(axis, x.ndim)


def _require(name: str, nan_policy: str, known: tuple[str, ...]) -> None:
    if nan_policy not in known:
        raise ArgumentError(
            f"{name} has no nan_policy {nan_policy!r}", mend=f"use one of {list(known)}"
        )


def mode(
    a: ArrayLike, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False
) -> ModeResult:
    """Most common values along an axis: of several the smallest.

    Parameters
    ----------
    a : array_like
        Real numbers; NaN are values that are equal to each other.
    axis : int or None
        The axis; None for all elements.
    nan_policy : {"propagate"}
        Others are not supported.
    keepdims : bool
        Keep the axis with size one; for None all axes.

    Returns
    -------
    mode : Array
        The values, in the dtype of `a`.
    count : Array of int64
        How often they occur.

    Raises
    ------
    ArgumentError
        Another policy, or there are no elements.

    Examples
    --------
    >>> from tracer.scipy import stats
    >>> value, count = stats.mode([2, 4, 1, 1, 3, 4, 4])
    >>> int(value), int(count)
    (4, 3)
    """
    _require("mode", nan_policy, ("propagate",))
    x, place = _along(a, axis)
    if not x.shape[place]:
        raise ArgumentError("mode of no elements", mend="give an axis with elements")
    values, counts = _mode(x, axis=place)
    if as_keepdims(keepdims):
        ndim = as_array(a).ndim
        shape = (1,) * ndim if axis is None else values.shape
        return ModeResult(values.reshape(shape), counts.reshape(shape))
    return ModeResult(tnp.squeeze(values, place), tnp.squeeze(counts, place))


@compound
def _mode(x: Array, *, axis: int) -> tuple[Array, Array]:
    rows = tnp.sort(tnp.moveaxis(x, axis, -1), -1)
    places = tnp.arange(rows.shape[-1])
    lengths = places - _starts(_begins(rows), places) + 1
    best = tnp.argmax(lengths, -1, keepdims=True)
    found = tnp.take_along_axis(rows, best, -1), lengths.max(-1, keepdims=True)
    return tnp.moveaxis(found[0], -1, axis), tnp.moveaxis(found[1], -1, axis)


def _begins(rows: Array) -> Array:
    """Tell which elements of sorted rows differ from the ones before them; NaN are equal."""
    later, earlier = rows[..., 1:], rows[..., :-1]
    differ = (later != earlier) & ~((later != later) & (earlier != earlier))
    return tnp.concatenate([tnp.ones_like(rows[..., :1], dtype=bool), differ], -1)


def _starts(begins: Array, places: Array) -> Array:
    """Return where the run of each element starts."""
    marked = choose(begins, places, 0)
    return _running(ops.cumulative_maximum, marked, reverse=False)


def _running(op: Op, rows: Array, *, reverse: bool) -> Array:
    return apply(op, rows, axis=rows.ndim - 1, reverse=reverse)


def rankdata(
    a: ArrayLike, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate"
) -> Array:
    """Return the ranks of the elements, from 1.

    Parameters
    ----------
    a : array_like
        Real numbers.
    method : {"average", "min", "max", "dense", "ordinal"}
        What equal elements get: the mean of their ranks, the lowest, the highest, the lowest and
        the next number for the next value, or different ranks in their order.
    axis : int or None
        Along which they are compared; None for all elements, in one row.
    nan_policy : {"propagate"}
        Others are not supported.

    Returns
    -------
    Array of float64
        All NaN in a row with a NaN. Ranks are floats for every method, as in JAX.

    Raises
    ------
    ArgumentError
        Another method or policy.

    Examples
    --------
    >>> from tracer.scipy import stats
    >>> stats.rankdata([1, 3, 2, 3])
    Array([1. , 3.5, 2. , 3.5])
    """
    _require("rankdata", nan_policy, ("propagate",))
    if method not in _METHODS:
        raise ArgumentError(
            f"rankdata has no method {method!r}", mend=f"use one of {list(_METHODS)}"
        )
    x, place = _along(a, axis)
    return _rankdata(x, axis=place, method=method)


@compound
def _rankdata(x: Array, *, axis: int, method: str) -> Array:
    rows = tnp.moveaxis(x, axis, -1)
    order = tnp.argsort(rows, -1)
    ordered = tnp.take_along_axis(rows, order, -1)
    ranks = tnp.take_along_axis(_ranks(ordered, method), tnp.argsort(order, -1), -1)
    has_nan = (rows != rows).any(-1, keepdims=True)
    return tnp.moveaxis(choose(has_nan, tnp.nan, ranks.astype("float64")), -1, axis)


def _ranks(rows: Array, method: str) -> Array:
    """Return the ranks of sorted rows."""
    places = tnp.arange(rows.shape[-1])
    if method == "ordinal":
        return tnp.broadcast_to(places + 1, rows.shape)
    begins = _begins(rows)
    if method == "dense":
        return tnp.cumsum(begins, -1)
    first = _starts(begins, places) + 1
    if method == "min":
        return first
    ends = tnp.concatenate([begins[..., 1:], tnp.ones_like(begins[..., :1])], -1)
    last = choose(ends, places, rows.shape[-1])
    last = _running(ops.cumulative_minimum, last, reverse=True) + 1
    return last if method == "max" else (first + last) / 2


def sem(
    a: ArrayLike,
    axis: int | None = 0,
    ddof: int = 1,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Array:
    """Return the standard error of the mean, the standard deviation over the root of the number.

    Parameters
    ----------
    a : array_like
        Real numbers.
    axis : int or None
        The axis; None for all elements.
    ddof : int
        What is subtracted from the number in the variance.
    nan_policy : {"propagate", "omit"}
        Whether NaN counts, and makes the result NaN.
    keepdims : bool
        Keep the axis with size one.

    Returns
    -------
    Array of floats
        NaN where there are too few elements.

    Examples
    --------
    >>> from tracer.scipy import stats
    >>> round(float(stats.sem([2.0, 4.0, 1.0, 1.0, 3.0])), 6)
    0.583095
    """
    _require("sem", nan_policy, ("propagate", "omit"))
    x = floats("sem", as_array(a))
    if axis is not None:
        axis = normalize_axis(axis, x.ndim)
    options: dict[str, Any] = {"axis": axis, "ddof": ddof, "keepdims": keepdims}
    if nan_policy == "propagate":
        count = x.size if axis is None else x.shape[axis]
        return tnp.std(x, **options) / math.sqrt(count)
    counts = (x == x).sum(axis, keepdims=keepdims).astype(x.dtype)
    return tnp.nanstd(x, **options) / tnp.sqrt(counts)


__all__ = ["ModeResult", "mode", "rankdata", "sem"]
