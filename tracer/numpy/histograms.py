"""Counting into bins, and interpolating between points."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracer.arguments import is_index
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, as_arrays, broadcast, convert, reshape, scalar
from tracer.array.placement import beside_arguments
from tracer.errors import ArgumentError, DTypeError, ShapeError, TracingError, shown
from tracer.ir import as_dtype
from tracer.numpy import positions
from tracer.numpy.arithmetic import maximum
from tracer.numpy.creation import full_like
from tracer.numpy.elementwise import where
from tracer.numpy.extremes import max, min
from tracer.numpy.logic import logical_and
from tracer.numpy.ranges import linspace
from tracer.numpy.repeating import diff
from tracer.numpy.searching import searchsorted
from tracer.numpy.ufunc import compare, select

_DEFAULT_BINS = 10
_TOO_MANY = 1 << 31
"""Ones whose sum int32 cannot hold."""


def bincount(
    x: ArrayLike,
    weights: ArrayLike | None = None,
    minlength: int = 0,
    *,
    length: int | None = None,
) -> Array:
    """Count how often each non-negative integer occurs in a vector.

    Parameters
    ----------
    x : array_like of int, one axis
        What is counted; in a traced array negative numbers and those from `minlength` on are not
        counted.
    weights : array_like of real numbers, the shape of `x`, optional
        Added up instead of ones.
    minlength : int
        Least size of the result; its size where `x` is traced, and required there.
    length : int, optional
        The size of the result, known or traced, as in JAX: negative numbers count as 0, those from
        `length` on are not counted.

    Returns
    -------
    Array
        int64, or the float64 of the weights.

    Raises
    ------
    TracingError
        `x` is traced and neither `minlength` nor `length` is given.
    ArgumentError
        A known number (without `length`), `minlength` or `length` is negative.
    """
    if length is not None:
        return _with_length(x, weights, positions.checked_size("bincount", length))
    length = _count_of_bins(x, operator.index(minlength))
    index = _counted(as_array(x))
    if index.is_traced:
        # A negative index would count from the end; one behind the end is dropped.
        index = select(compare(index, full_like(index, 0), "LT"), full_like(index, length), index)
    return _added_up(index, weights, length)


def _with_length(x: ArrayLike, weights: ArrayLike | None, length: int) -> Array:
    return _added_up(maximum(_counted(as_array(x)), 0), weights, length)


def _added_up(index: Array, weights: ArrayLike | None, length: int) -> Array:
    """Add up ones, or weights, at their indices; what is behind the end is dropped."""
    if weights is None:
        # Ones of 32 bits take half the memory, and 0.7 of the time.
        dtype = as_dtype("int32" if index.size < _TOO_MANY else "int64")
        return convert(_sums(scalar(1, dtype), index, length), as_dtype("int64"))
    added = as_array(weights)
    _require_weights(added, index)
    return _sums(convert(added, as_dtype("float64")), index, length)


def _sums(added: Array, index: Array, length: int) -> Array:
    zeros = broadcast(scalar(0, added.dtype), (length,))
    return zeros.at[index].add(broadcast(added, index.shape), mode="drop")


def _counted(x: Array) -> Array:
    if x.ndim != 1:
        raise ShapeError(f"bincount takes a vector, not shape {x.shape}", mend="give a vector")
    if x.dtype.kind not in "biu" and x.size:
        raise DTypeError(
            f"bincount takes integers, not {x.dtype}", mend="convert to integers first"
        )
    return convert(x, as_dtype("int64"))


def _require_weights(weights: Array, index: Array) -> None:
    if weights.shape != index.shape:
        raise ShapeError(
            f"bincount of shape {index.shape} with weights of shape {weights.shape}",
            mend="give one weight for each number",
        )
    if weights.dtype.kind == "c":
        raise DTypeError(
            f"bincount takes real weights, not {weights.dtype}",
            mend="count .real and .imag one by one",
        )


def _count_of_bins(x: ArrayLike, minlength: int) -> int:
    """Return the size of the result: of the numbers where they are known."""
    if minlength < 0:
        raise ArgumentError(f"bincount: minlength={minlength} is negative", mend="give 0 or more")
    if minlength and isinstance(x, Array) and x.is_traced:
        return minlength
    values = positions.concrete("bincount", x, "give minlength=, the number of bins")
    if values.size == 0 or values.dtype.kind not in "biu":
        return minlength
    if values.min() < 0:
        raise ArgumentError(
            f"bincount takes no negative number, got {values.min()}", mend="give numbers from 0 on"
        )
    return int(np.maximum(minlength, int(values.max()) + 1))


def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False) -> Array:
    """Return the number of each element's bin.

    Parameters
    ----------
    x : array_like
        Real numbers.
    bins : array_like, one axis
        The edges, increasing or decreasing.
    right : bool
        Whether a bin holds its upper edge in place of its lower one.

    Returns
    -------
    Array of int64, the shape of `x`
        0 before the first edge, `len(bins)` after the last one.
    """
    edges, values = as_array(bins), as_array(x)
    if values.dtype.kind == "c":
        raise DTypeError("digitize takes real numbers", mend="take the real part or abs first")
    if edges.ndim != 1:
        raise ShapeError(
            f"digitize: bins are a vector, not of shape {edges.shape}", mend="give a vector"
        )
    _require_order("digitize", bins, either=True)
    side = "left" if right else "right"
    upward = searchsorted(edges, values, side)
    if edges.size < 2:
        return upward
    downward = edges.size - searchsorted(edges[::-1], values, side)
    return where(edges[-1] >= edges[0], upward, downward)  # type: ignore[no-any-return]


def histogram_bin_edges(
    a: ArrayLike,
    bins: int | str | ArrayLike = _DEFAULT_BINS,
    range: Sequence[ArrayLike] | None = None,  # noqa: A002 - NumPy's name
    weights: ArrayLike | None = None,
) -> Array:
    """Return the edges of the bins that `histogram` uses; see there."""
    del weights
    limits: Any = range
    if isinstance(bins, str):
        if isinstance(a, Array) and a.is_traced:
            raise TracingError(
                f"histogram with bins={bins!r} of a traced array: the number of bins would "
                "depend on values",
                mend="give the number of bins, or their edges",
            )
        return as_array(np.histogram_bin_edges(np.asarray(as_array(a)), bins, limits))
    if not is_index(bins):
        _require_order("histogram", bins)
        return as_array(bins)
    return _equal_bins(as_array(a), bins, range)


def _equal_bins(x: Array, bins: Any, limits: Any, *, is_typed: bool = True) -> Array:
    """Return edges: those of given limits are of the dtype of the data too where they are typed."""
    count = operator.index(bins)
    if count < 1:
        raise ArgumentError(f"histogram: there cannot be {count} bins", mend="give 1 or more")
    low, high = _interval(x, limits)
    dtype = promotion.result_type(low, high, *([x] if is_typed else []))
    edges: Array = linspace(low, high, count + 1, dtype=promotion.division_dtype(dtype))
    return edges


def _require_order(name: str, edges: ArrayLike, *, either: bool = False) -> None:
    """Refuse known edges out of order: a search among them finds any bin."""
    if isinstance(edges, Array) and edges.is_traced:
        return
    values = positions.concrete(name, edges)
    if values.ndim != 1:
        raise ShapeError(
            f"{name}: the edges of bins have shape {values.shape}", mend="give a vector"
        )
    ordered = (values[:-1] <= values[1:]).all()
    if not ordered and not (either and (values[:-1] >= values[1:]).all()):
        raise ArgumentError(
            f"{name} with edges of bins that are not in order: {values}", mend="sort them"
        )


def _interval(x: Array, limits: Any) -> tuple[Any, Any]:
    if limits is not None:
        if np.isscalar(limits) or len(limits) != 2 or any(as_array(end).ndim for end in limits):
            raise ArgumentError(
                f"histogram: range is {shown(limits)}", mend="give the first and the last edge"
            )
        _require_order("histogram: range", limits)
        low, high = limits
    elif x.size == 0:
        low, high = 0.0, 1.0
    else:
        low, high = min(x), max(x)
        _require_finite(low, high)
    if not isinstance(low, Array) and not isinstance(high, Array):
        # NumPy divides what is known in float64, and rounds the edges.
        return (low - 0.5, high + 0.5) if low == high else (low, high)
    wide = promotion.division_dtype(promotion.result_type(x, low, high))
    low, high = convert(as_array(low), wide), convert(as_array(high), wide)
    # A single value gets a bin around it.
    half = convert(where(low == high, 0.5, 0.0), wide)
    return low - half, high + half


def _require_finite(low: Array, high: Array) -> None:
    if low.is_traced or high.is_traced:
        return
    if not (np.isfinite(low) and np.isfinite(high)):
        raise ArgumentError(
            f"histogram: the data reach from {low} to {high}", mend="give a finite range"
        )


@beside_arguments
def histogram(
    a: ArrayLike,
    bins: int | str | ArrayLike = _DEFAULT_BINS,
    range: Sequence[ArrayLike] | None = None,  # noqa: A002 - NumPy's name
    density: bool | None = None,
    weights: ArrayLike | None = None,
) -> tuple[Array, Array]:
    """Count the elements in bins.

    Parameters
    ----------
    a : array_like
        Real numbers.
    bins : int or array_like or str
        The number of equal bins, or their edges; the name of a rule for concrete arrays.
    range : pair, optional
        The first and the last edge of equal bins; by default those of the data.
    density : bool, optional
        Divide by the width of the bins and the total.
    weights : array_like, optional
        Added up in place of ones.

    Returns
    -------
    counts : Array
        int64; the dtype of the weights; float64 of a density.
    edges : Array
        One more than there are bins; the last bin holds its upper edge too.
    """
    x = reshape(as_array(a), (as_array(a).size,))
    edges = histogram_bin_edges(x, bins, range)
    counts = _counts((x,), (edges,), weights)
    if density:
        total = counts.sum()
        counts = counts / diff(edges) / total
    return counts, edges


def _counts(
    coordinates: Sequence[Array], edges: Sequence[Array], weights: ArrayLike | None
) -> Array:
    """Count points in the cells of a grid."""
    shape = tuple(edge.size - 1 for edge in edges)
    cell, inside = full_like(coordinates[0], 0, "int64"), full_like(coordinates[0], True, "bool")
    for x, edge, size in zip(coordinates, edges, shape, strict=True):
        place = searchsorted(edge, x, "right") - 1
        place = where(x == edge[-1], size - 1, place)
        inside = logical_and(inside, logical_and(place >= 0, place < size))
        cell = cell * size + place
    total = int(np.prod(shape, dtype=np.int64))
    # Elements outside are counted in one more cell, which is cut off.
    cell = where(inside, cell, total)
    if weights is None:
        return reshape(bincount(cell, minlength=total + 1)[:total], shape)
    w = reshape(as_array(weights), coordinates[0].shape)
    counts = full_like(w, 0, shape=(total + 1,)).at[cell].add(w)
    return reshape(counts[:total], shape)


@beside_arguments
def histogramdd(
    sample: Any,
    bins: int | Sequence[Any] = _DEFAULT_BINS,
    range: Sequence[Any] | None = None,  # noqa: A002 - NumPy's name
    density: bool | None = None,
    weights: ArrayLike | None = None,
) -> tuple[Array, list[Array]]:
    """Count points in the cells of a grid; see `numpy.histogramdd`.

    Parameters
    ----------
    sample : array_like, shape (points, axes), or a sequence of vectors, one for each axis
        The coordinates.
    bins : int or sequence
        For all axes, or for each: the number of bins or their edges.
    range : sequence of pairs, optional
        The first and the last edge along each axis.
    density : bool, optional
        Divide by the volume of the cells and the total.
    weights : array_like, optional
        Added up in place of ones.

    Returns
    -------
    counts : Array of float64
        One axis for each coordinate.
    edges : list of Array
        Along each axis.
    """
    if isinstance(sample, list | tuple):
        # One table of one dtype, as NumPy makes of them.
        columns = as_arrays(*sample)
        dtype = promotion.result_type(*columns)
        points = [convert(column, dtype) for column in columns]
    else:
        table = as_array(sample)
        table = table if table.ndim == 2 else _column(table)
        points = [table[:, axis] for axis in np.arange(table.shape[1]).tolist()]
    count = len(points)
    given: Any = bins
    each: list[Any] = [given] * count if is_index(given) else list(given)
    limits = [None] * count if range is None else list(range)
    if len(each) != count or len(limits) != count:
        raise ArgumentError(
            f"histogramdd of {count} axes with {len(each)} bins and {len(limits)} ranges",
            mend="give one for each axis",
        )
    edges = [
        _equal_bins(x, bins, ends, is_typed=False)
        if is_index(bins)
        else histogram_bin_edges(x, bins, ends)
        for x, bins, ends in zip(points, each, limits, strict=True)
    ]
    counts = convert(_counts(points, edges, weights), as_dtype("float64"))
    if density:
        total = counts.sum()
        for axis, edge in enumerate(edges):
            sizes = tuple(edge.size - 1 if i == axis else 1 for i in np.arange(count))
            counts = counts / reshape(diff(edge), sizes)
        counts = counts / total
    return counts, edges


def _column(x: Array) -> Array:
    """Return points on a line, one below the other."""
    if x.ndim > 2:
        raise ShapeError(
            f"histogramdd: the sample has shape {x.shape}, not two axes",
            mend="give an array (points, axes)",
        )
    return reshape(x, (x.size, 1))


def histogram2d(
    x: ArrayLike,
    y: ArrayLike,
    bins: int | Sequence[Any] = _DEFAULT_BINS,
    range: Sequence[Any] | None = None,  # noqa: A002 - NumPy's name
    density: bool | None = None,
    weights: ArrayLike | None = None,
) -> tuple[Array, Array, Array]:
    """Count points of a plane in the cells of a grid; see `histogramdd`."""
    given: Any = bins
    if not is_index(given) and len(given) not in (1, 2):
        given = [given, given]
    counts, edges = histogramdd([as_array(x), as_array(y)], given, range, density, weights)
    return counts, edges[0], edges[1]
