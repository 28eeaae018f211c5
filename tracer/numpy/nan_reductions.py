"""The reductions that skip NaN."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tracer import ops
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, as_keepdims, reduced_axes, reduced_axis
from tracer.array.dispatch import compound
from tracer.errors import ArgumentError
from tracer.numpy.bounds import looked_at
from tracer.numpy.cumulative import cumprod, cumsum
from tracer.numpy.extremes import argmax, argmin, max, min
from tracer.numpy.logic import isnan, logical_and, logical_not
from tracer.numpy.reductions import (
    Axis,
    as_mask,
    prod,
    reduce,
    refuse_out,
    sum,
)
from tracer.numpy.statistics import mean, root_of, var
from tracer.numpy.ufunc import compare, full_like, select

Axes = tuple[int, ...]


def _numbers(name: str, x: Array, where: ArrayLike | None) -> Array:
    """Return the mask of the elements that are not NaN and that `where` includes."""
    chosen = logical_not(isnan(x))
    return chosen if where is None else logical_and(chosen, as_mask(name, x, where))


def nansum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Sum without the NaNs; see `sum`."""
    x = as_array(a)
    return sum(x, axis, dtype, out, keepdims, initial, _numbers("nansum", x, where))


def nanprod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Product without the NaNs; see `prod`."""
    x = as_array(a)
    return prod(x, axis, dtype, out, keepdims, initial, _numbers("nanprod", x, where))


def nanmean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Mean without the NaNs; see `mean`."""
    x = as_array(a)
    return mean(x, axis, dtype, out, keepdims, where=_numbers("nanmean", x, where))


def nanvar(
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
    """Variance without the NaNs, NaN where no more than `ddof` numbers are left; see `var`."""
    x = as_array(a)
    chosen = _numbers("nanvar", x, where)
    options: dict[str, Any] = {"where": chosen, "mean": mean, "correction": correction}
    result = var(x, axis, dtype, out, ddof, keepdims, **options)
    freedom = ddof if correction is None else correction
    if freedom <= 0 or x.dtype.kind in "biu":
        return result
    return _nan_where(sum(chosen, axis, keepdims=keepdims) <= freedom, result)


@compound
def _nan_where(chosen: Array, x: Array) -> Array:
    return select(chosen, full_like(x, math.nan), x)


def nanstd(
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
    """Return the standard deviation without the NaNs; see `std`."""
    refuse_out(out)
    options: dict[str, Any] = {"where": where, "mean": mean, "correction": correction}
    return root_of(nanvar, a, axis, dtype, ddof=ddof, keepdims=keepdims, **options)


def nanmax(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Return the largest element that is not NaN, NaN when all are; see `max`.

    With `where`, which needs `initial`, NaN and what is left out count the same.
    """
    refuse_out(out)
    return _nan_extreme(max, -math.inf, as_array(a), axis, keepdims, initial, where)


def nanmin(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Return the smallest element that is not NaN, NaN when all are; see `nanmax`."""
    refuse_out(out)
    return _nan_extreme(min, math.inf, as_array(a), axis, keepdims, initial, where)


def _nan_extreme(
    function: Callable[..., Array],
    identity: float,
    x: Array,
    axis: Axis,
    keepdims: bool,
    initial: ArrayLike | None,
    where: ArrayLike | None,
) -> Array:
    if x.dtype.kind in "biu":
        return function(x, axis, None, keepdims, initial, where)
    found = function(_replace_nan(x, value=identity), axis, None, keepdims, initial, where)
    if initial is not None:
        return found
    axes = reduced_axes(axis, x.ndim)
    return _nan_where_all(x, found, axes=axes, keepdims=as_keepdims(keepdims))


@compound
def _replace_nan(x: Array, *, value: float) -> Array:
    return select(compare(x, x, "NE"), full_like(x, value), x)


@compound
def _nan_where_all(x: Array, found: Array, *, axes: Axes, keepdims: bool) -> Array:
    none_left = reduce(ops.reduce_and, compare(x, x, "NE"), axes, keepdims)
    return select(none_left, full_like(found, math.nan), found)


def nanargmax(
    a: ArrayLike, axis: int | None = None, out: None = None, *, keepdims: bool = False
) -> Array:
    """Return the index of the largest element that is not NaN; see `argmax`.

    Raises
    ------
    ArgumentError
        A concrete slice is all NaN; a traced one gives index 0.
    """
    return _nan_place(a, axis, out, keepdims, -math.inf)


def nanargmin(
    a: ArrayLike, axis: int | None = None, out: None = None, *, keepdims: bool = False
) -> Array:
    """Return the index of the smallest element that is not NaN; see `nanargmax`."""
    return _nan_place(a, axis, out, keepdims, math.inf)


def _nan_place(a: ArrayLike, axis: int | None, out: None, keepdims: bool, identity: float) -> Array:
    refuse_out(out)
    x = as_array(a)
    function = argmax if identity < 0 else argmin
    if x.dtype.kind in "biu":
        return function(x, axis, keepdims=keepdims)
    axis = reduced_axis(axis, x.ndim)
    known = looked_at(a)
    if known is not None and np.isnan(known).all(axis).any():
        raise ArgumentError(
            "nanargmax or nanargmin of a slice that is all NaN", mend="leave such slices out"
        )
    return function(_replace_nan(x, value=identity), axis, keepdims=keepdims)


def nancumsum(a: ArrayLike, axis: int | None = None, dtype: Any = None, out: None = None) -> Array:
    """Return running sums with zeros for NaN; see `cumsum`."""
    x = as_array(a)
    return cumsum(x if x.dtype.kind in "biu" else _replace_nan(x, value=0.0), axis, dtype, out)


def nancumprod(a: ArrayLike, axis: int | None = None, dtype: Any = None, out: None = None) -> Array:
    """Return running products with ones for NaN; see `cumprod`."""
    x = as_array(a)
    return cumprod(x if x.dtype.kind in "biu" else _replace_nan(x, value=1.0), axis, dtype, out)
