"""The reductions that skip NaN."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tracer import ops
from tracer.errors import ArgumentError
from tracer.numpy.base import ArrayLike
from tracer.numpy.convert import (
    as_array,
    normalize_axes,
)
from tracer.numpy.cumulative import cumprod, cumsum
from tracer.numpy.dispatch import compound
from tracer.numpy.extremes import argmax, argmin, max, min
from tracer.numpy.logic import isnan, logical_not
from tracer.numpy.reductions import (
    Axis,
    prod,
    reduce,
    refuse_out,
    sum,
)
from tracer.numpy.statistics import mean, root, var
from tracer.numpy.ufunc import compare, full_like, select

if TYPE_CHECKING:
    from tracer.numpy.array import Array

Axes = tuple[int, ...]


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
    return root(nanvar(a, axis, dtype, ddof=ddof, keepdims=keepdims))


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
    if not x.is_traced and bool(isnan(x).all(axis).any()):
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
