"""Searching: searchsorted, nonzero, unique, bincount, isin."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tracer import ops
from tracer.errors import ArgumentError, ShapeError, TracingError
from tracer.ir import as_dtype
from tracer.numpy.base import ArrayBase, ArrayLike
from tracer.numpy.convert import as_array, broadcast, convert, reshape, scalar
from tracer.numpy.dispatch import apply, compound, from_host
from tracer.numpy.indexing import Gather, _gather
from tracer.numpy.promotion import promote_types
from tracer.numpy.recording import made_at
from tracer.numpy.ufunc import align, compare, full_like, is_nonzero, select

if TYPE_CHECKING:
    from tracer.numpy.array import Array

_INT64 = as_dtype("int64")


def searchsorted(a: ArrayLike, v: ArrayLike, side: str = "left") -> Array:
    """Return where elements would have to be inserted to keep a vector sorted.

    Parameters
    ----------
    a : array_like, one axis
        Sorted.
    v : array_like
        What would be inserted.
    side : {"left", "right"}
        Before or after equal elements.

    Returns
    -------
    Array of int64, the shape of `v`
        The places, found by bisection.
    """
    if side not in ("left", "right"):
        raise ArgumentError(f"side {side!r} is not known", mend='use "left" or "right"')
    x, values = as_array(a), as_array(v)
    if x.ndim != 1:
        raise ShapeError(f"searchsorted in shape {x.shape}", mend="give a sorted vector")
    return _searchsorted(x, values, side=side)


@compound
def _searchsorted(x: Array, values: Array, *, side: str) -> Array:
    dtype = promote_types(x.dtype, values.dtype)
    x, values = convert(x, dtype), convert(values, dtype)
    low = broadcast(scalar(0, _INT64), values.shape)
    high = broadcast(scalar(x.size, _INT64), values.shape)
    gather = Gather((0,), (False,), 0)
    for _ in range(math.ceil(math.log2(x.size + 1)) if x.size else 0):
        middle = apply(ops.shift_right_arithmetic, apply(ops.add, low, high), full_like(low, 1))
        found = _gather(x, middle, gather=gather)
        is_open = compare(low, high, "LT")
        goes_right = apply(ops.and_, is_open, _is_before(found, values, side))
        goes_left = apply(ops.and_, is_open, apply(ops.not_, goes_right))
        low = select(goes_right, apply(ops.add, middle, full_like(low, 1)), low)
        high = select(goes_left, middle, high)
    return low


def _is_before(x: Array, values: Array, side: str) -> Array:
    """Tell where an element of the vector stands before the place; NaN is the largest."""
    direction = "LT" if side == "left" else "LE"
    result = compare(x, values, direction)
    if x.dtype.kind in "biu":
        return result
    x_nan, value_nan = compare(x, x, "NE"), compare(values, values, "NE")
    by_nan = apply(ops.not_, x_nan) if side == "left" else full_like(x_nan, True)
    return select(value_nan, by_nan, result)


def _host(name: str, a: ArrayLike, mend: str) -> np.ndarray[Any, Any]:
    if isinstance(a, ArrayBase) and a.is_traced:
        raise TracingError(
            f"{name} of a traced array, {a.type} (made at {made_at(a)}): "  # type: ignore[arg-type]
            "the shape of the result would depend on values",
            mend=mend,
        )
    return np.asarray(as_array(a)._host(name))


def nonzero(a: ArrayLike) -> tuple[Array, ...]:
    """Return the indices of the elements that are true (not zero), one array for each axis.

    Raises
    ------
    TracingError
        The array is traced: the size of the result would depend on values.
    """
    found = np.nonzero(_host("nonzero", a, "use tracer.numpy.where(condition, x, y)"))
    return tuple(from_host(index) for index in found)


def flatnonzero(a: ArrayLike) -> Array:
    """Return the flat indices of the elements that are true (not zero)."""
    return nonzero(reshape(as_array(a), (as_array(a).size,)))[0]


def argwhere(a: ArrayLike) -> Array:
    """Return the indices of the elements that are true (not zero), one row for each."""
    return from_host(np.argwhere(_host("argwhere", a, "use tracer.numpy.where(condition, x, y)")))


def unique(
    ar: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
) -> Any:
    """Return the sorted distinct elements, with what else is asked for; see `numpy.unique`.

    Raises
    ------
    TracingError
        The array is traced: the size of the result would depend on values.
    """
    host = _host("unique", ar, "call it outside of the traced function, or use sort")
    found: Any = np.unique(  # type: ignore[call-overload]
        host, return_index, return_inverse, return_counts, axis
    )
    return tuple(map(from_host, found)) if isinstance(found, tuple) else from_host(found)


def bincount(x: ArrayLike, weights: ArrayLike | None = None, minlength: int = 0) -> Array:
    """Count how often each non-negative integer stands in a vector.

    Parameters
    ----------
    x : array_like of int, one axis
        What is counted; in a traced array numbers from `minlength` on are not counted.
    weights : array_like, optional
        Added up instead of ones.
    minlength : int
        Least size of the result; its size in a trace.

    Returns
    -------
    Array
        int64, or the float64 of the weights.
    """
    index = as_array(x)
    length = int(minlength)
    if not index.is_traced:
        length = max(length, int(index._host("bincount").max(initial=-1)) + 1)
    dtype = _INT64 if weights is None else as_dtype("float64")
    ones = broadcast(scalar(1, dtype), index.shape) if weights is None else as_array(weights)
    zeros = broadcast(scalar(0, dtype), (length,))
    return zeros.at[index].add(convert(ones, dtype))


def extract(condition: ArrayLike, arr: ArrayLike) -> Array:
    """Return the elements where a concrete condition holds, as a vector."""
    mask = is_nonzero(as_array(condition))
    return as_array(arr)[mask]


def isin(element: ArrayLike, test_elements: ArrayLike) -> Array:
    """Tell which elements stand in another array.

    Parameters
    ----------
    element : array_like
        What is looked for.
    test_elements : array_like
        Where it is looked for.

    Returns
    -------
    Array of bool, the shape of `element`
        Whether each was found.
    """
    x, tests = as_array(element), as_array(test_elements)
    return _isin(x, tests)


@compound
def _isin(x: Array, tests: Array) -> Array:
    columns = reshape(x, (*x.shape, 1))
    equal = compare(*align("isin", columns, reshape(tests, (tests.size,))), "EQ")
    return apply(ops.reduce_or, equal, axes=(x.ndim,))
