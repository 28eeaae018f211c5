"""Distinct elements and sets of them.

On concrete arrays NumPy computes them. In a trace `size=` states the length of the result, as in
JAX, and they are found by sorting.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tracer import ops
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, broadcast, convert, normalize_axis, reshape, scalar
from tracer.array.dispatch import apply, apply_many, compound, from_host
from tracer.array.placement import beside_arguments
from tracer.array.promotion import promote_types
from tracer.errors import ArgumentError
from tracer.ir import as_dtype
from tracer.numpy.elementwise import where
from tracer.numpy.joining import concatenate
from tracer.numpy.logic import logical_and, logical_not
from tracer.numpy.positions import checked_size, concrete, full_of, reshape_flat, true_places
from tracer.numpy.ranges import iota
from tracer.numpy.searching import searchsorted
from tracer.numpy.shaping import moveaxis
from tracer.numpy.sorting import argsort, lexsort, sort
from tracer.numpy.taking import take
from tracer.numpy.ufunc import align, compare, full_like

_INT64 = as_dtype("int64")
_FEW = 16
"""So many elements are compared with one by one rather than looked up."""


class UniqueAllResult(NamedTuple):
    """What `unique_all` returns."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCountsResult(NamedTuple):
    """What `unique_counts` returns."""

    values: Array
    counts: Array


class UniqueInverseResult(NamedTuple):
    """What `unique_inverse` returns."""

    values: Array
    inverse_indices: Array


@beside_arguments
def unique(
    ar: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """Return the sorted distinct elements, and further results on request.

    Parameters
    ----------
    ar : array_like
        Any array.
    return_index : bool
        Return where each was found first.
    return_inverse : bool
        Return for each element of `ar` which distinct one it is.
    return_counts : bool
        Return how often each was found.
    axis : int, optional
        Compare the slices along it in place of the elements.
    equal_nan : bool
        Whether all NaN are one; as in NumPy, no slice with NaN equals another one.
    size : int, optional
        Length of the result; necessary for traced arrays.
    fill_value : number, optional
        What the end of the result holds when there are fewer; the smallest element by default.

    Returns
    -------
    Array, or tuple of Array
        As `numpy.unique`.

    Raises
    ------
    TracingError
        The array is traced, and there is no `size`.
    """
    if size is None:
        flags = return_index, return_inverse, return_counts
        array = concrete("unique", ar)
        if axis is None and not any(flags) and array.dtype.kind in "iu":
            # With counts NumPy sorts. It would hash integers, which takes up to five times as long.
            return from_host(np.unique(array, return_counts=True)[0])
        found: Any = np.unique(  # type: ignore[call-overload] # one for each set of flags
            array, *flags, axis, equal_nan=equal_nan
        )
        return tuple(map(from_host, found)) if isinstance(found, tuple) else from_host(found)
    x, count = as_array(ar), checked_size("unique", size)
    if axis is None:
        number, shape, keys = 0, x.shape, reshape_flat(x)
    else:
        number = normalize_axis(axis, x.ndim)
        shape, keys = (x.shape[number],), moveaxis(x, number, 0)
    _require_fill("unique", count, keys, fill_value)
    others: list[Array] = []
    if return_index or return_inverse:
        values, first, inverse, counts = _unique(keys, size=count, equal_nan=bool(equal_nan))
        others = [first] * return_index + [reshape(inverse, shape)] * return_inverse
    else:
        values, counts = _distinct(keys, size=count, equal_nan=bool(equal_nan))
    if fill_value is not None:
        is_there = reshape(counts > 0, (count,) + (1,) * (values.ndim - 1))
        values = where(is_there, values, full_of(values, fill_value))
    others += [counts] * return_counts
    values = moveaxis(values, 0, number)
    return (values, *others) if others else values


def _require_fill(name: str, size: int, keys: Array, fill_value: Any) -> None:
    if size and not keys.shape[0] and fill_value is None:
        raise ArgumentError(
            f"{name} of no elements has none for a result of size {size}", mend="give fill_value="
        )


def _ordered(x: Array) -> tuple[Array, Array]:
    """Sort elements, or slices along the first axis by their first element that differs."""
    if x.ndim > 1 and x.size:
        table = reshape(x, (x.shape[0], math.prod(x.shape[1:])))
        places = lexsort([table[:, i] for i in reversed(range(table.shape[1]))])
        return _at(x, places), places
    if x.dtype.kind == "c" and x.ndim == 1:
        places = argsort(x)
        return _at(x, places), places
    places = iota(shape=x.shape[:1], dtype=_INT64, dimension=0)
    if x.ndim > 1:
        return x, places
    ordered, places = apply_many(ops.sort, x, places, dimension=0, num_keys=1, is_stable=True)
    return ordered, places


def _begins(ordered: Array, *, equal_nan: bool) -> Array:
    """Tell which sorted elements, or slices, begin a run of equal ones."""
    upper, lower = ordered[1:], ordered[:-1]
    differs = compare(upper, lower, "NE")
    if ordered.ndim > 1:
        differs = apply(ops.reduce_or, differs, axes=tuple(range(1, ordered.ndim)))
    elif equal_nan:
        both = apply(ops.and_, compare(upper, upper, "NE"), compare(lower, lower, "NE"))
        differs = apply(ops.and_, differs, apply(ops.not_, both))
    first = broadcast(scalar(True, as_dtype("bool")), (min(1, ordered.shape[0]),))
    return concatenate([first, differs])


def _at(x: Array, places: Array) -> Array:
    if not x.shape[0]:
        # What is not there is filled later.
        return broadcast(scalar(0, x.dtype), places.shape + x.shape[1:])
    return take(x, places, axis=0, mode="promise_in_bounds")


@compound
def _distinct(x: Array, *, size: int, equal_nan: bool) -> tuple[Array, Array]:
    """Return values and counts, for which nobody has to know where an element was."""
    ordered = sort(x) if x.ndim == 1 else _ordered(x)[0]
    starts, counts = _runs(_begins(ordered, equal_nan=equal_nan), size)
    return _at(ordered, starts), counts


@compound
def _unique(x: Array, *, size: int, equal_nan: bool) -> tuple[Array, Array, Array, Array]:
    ordered, places = _ordered(x)
    begins = _begins(ordered, equal_nan=equal_nan)
    starts, counts = _runs(begins, size)
    rank = apply(ops.cumulative_add, convert(begins, _INT64), axis=0, reverse=False)
    inverse = full_like(rank, 0).at[places].set(rank - 1)
    return _at(ordered, starts), _at(places, starts), inverse, counts


def _runs(begins: Array, size: int) -> tuple[Array, Array]:
    """Return where the first runs begin, 0 for those that are not there, and their lengths."""
    starts = true_places(begins, size=size + 1, fill=begins.size)
    counts = apply(ops.subtract, starts[1:], starts[:-1])
    starts = starts[:size]
    return where(starts < begins.size, starts, 0), counts


def unique_values(x: ArrayLike, /, *, size: int | None = None, fill_value: Any = None) -> Array:
    """Return the distinct elements, every NaN one of its own; `size=` as for `unique`."""
    return unique(  # type: ignore[no-any-return]
        x, equal_nan=False, size=size, fill_value=fill_value
    )


def unique_counts(
    x: ArrayLike, /, *, size: int | None = None, fill_value: Any = None
) -> UniqueCountsResult:
    """Return the distinct elements and how often each was found; see `unique_values`."""
    return UniqueCountsResult(
        *unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value)
    )


def unique_inverse(
    x: ArrayLike, /, *, size: int | None = None, fill_value: Any = None
) -> UniqueInverseResult:
    """Return the distinct elements and which of them each element is; see `unique_values`."""
    return UniqueInverseResult(
        *unique(x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value)
    )


def unique_all(
    x: ArrayLike, /, *, size: int | None = None, fill_value: Any = None
) -> UniqueAllResult:
    """Return the distinct elements, where they are, which each is, how often; see `unique`."""
    return UniqueAllResult(
        *unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value)
    )


def isin(
    element: ArrayLike,
    test_elements: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: str | None = None,
) -> Array:
    """Tell which elements occur in another array.

    Parameters
    ----------
    element : array_like
        What is looked for.
    test_elements : array_like
        Where it is looked for.
    assume_unique : bool
        Without effect on the result.
    invert : bool
        Tell which do not.
    kind : str, optional
        Without effect: few elements are compared one by one, many are sorted and looked up.

    Returns
    -------
    Array of bool, the shape of `element`
        Whether each was found.
    """
    del assume_unique, kind
    found = _isin(as_array(element), as_array(test_elements))
    return logical_not(found) if invert else found


@compound
def _isin(x: Array, tests: Array) -> Array:
    tests = reshape_flat(tests)
    dtype = promote_types(x.dtype, tests.dtype)
    if dtype.kind == "f" and {x.dtype.kind, tests.dtype.kind} == {"i", "u"}:
        # No integers hold both: floats would call 2**53 and 2**53 + 1 one number.
        is_held = x >= 0 if x.dtype.kind == "i" else x <= np.iinfo(tests.dtype).max
        return logical_and(is_held, _isin(convert(x, tests.dtype), tests))
    if tests.size <= _FEW or dtype.kind == "c":
        columns = reshape(x, (*x.shape, 1))
        equal = compare(*align("isin", columns, tests), "EQ")
        return apply(ops.reduce_or, equal, axes=(x.ndim,))
    x, ordered = convert(x, dtype), sort(convert(tests, dtype))
    places = searchsorted(ordered, x)
    found = _at(ordered, where(places < tests.size, places, 0))
    return compare(found, x, "EQ")


Rule = Callable[["Array", "Array"], "Array"]


@beside_arguments
def _combined(
    name: str, rule: Rule, ar1: ArrayLike, ar2: ArrayLike, size: int | None, fill_value: Any
) -> Array:
    """Return the distinct elements of both arrays whose membership in each obeys a rule."""
    x, y = reshape_flat(ar1), reshape_flat(ar2)
    if size is None:
        function: Any = getattr(np, name)
        return from_host(function(concrete(name, x), concrete(name, y)))
    dtype = promote_types(x.dtype, y.dtype)
    x, y = convert(x, dtype), convert(y, dtype)
    ordered, count = sort(concatenate([x, y])), checked_size(name, size)
    _require_fill(name, count, ordered, fill_value)
    begins = _begins(ordered, equal_nan=True)
    chosen = logical_and(begins, rule(isin(ordered, x), isin(ordered, y)))
    places = true_places(chosen, size=count, fill=-1)
    values = _at(ordered, where(places < 0, 0, places))
    # As in JAX the end repeats the smallest element when nothing else is asked for.
    filling = values[:1] if fill_value is None else full_of(values, fill_value)
    result: Array = where(places < 0, filling, values)
    return result


def union1d(
    ar1: ArrayLike, ar2: ArrayLike, *, size: int | None = None, fill_value: Any = None
) -> Array:
    """Return the sorted distinct elements of both arrays; `size=` as for `unique`."""
    return _combined("union1d", lambda x, y: x | y | True, ar1, ar2, size, fill_value)


@beside_arguments
def intersect1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """Return the sorted elements that both arrays hold; `size=` as for `unique`.

    `return_indices`, as in NumPy, is for concrete arrays only.
    """
    if not return_indices:
        return _combined("intersect1d", lambda x, y: x & y, ar1, ar2, size, fill_value)
    first, second = concrete("intersect1d", ar1), concrete("intersect1d", ar2)
    return tuple(map(from_host, np.intersect1d(first, second, assume_unique, True)))


def setdiff1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Array:
    """Return the sorted elements of the first array that the second lacks; see `unique`."""
    del assume_unique
    return _combined("setdiff1d", lambda x, y: x & ~y, ar1, ar2, size, fill_value)


def setxor1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Array:
    """Return the sorted elements that exactly one of the arrays holds; see `unique`."""
    del assume_unique
    return _combined("setxor1d", lambda x, y: x ^ y, ar1, ar2, size, fill_value)
