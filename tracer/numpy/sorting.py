"""Sorting, selecting and searching."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import cast

from tracer import ops
from tracer.arguments import is_index
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, convert, normalize_axis, reshape
from tracer.array.dispatch import apply, apply_many, compound
from tracer.errors import ArgumentError, ShapeError
from tracer.ir import as_dtype
from tracer.numpy.arithmetic import negative
from tracer.numpy.complex_order import nan_class
from tracer.numpy.ranges import iota
from tracer.numpy.shaping import moveaxis
from tracer.numpy.taking import take_along_axis
from tracer.numpy.ufunc import full_like

_INT64 = as_dtype("int64")


def _sorted_axis(x: Array, axis: int | None) -> tuple[Array, int]:
    if axis is None:
        return reshape(x, (x.size,)), 0
    return x, normalize_axis(axis, x.ndim)


def sort(
    a: ArrayLike,
    axis: int | None = -1,
    kind: str | None = None,
    *,
    stable: bool | None = None,
    descending: bool = False,
) -> Array:
    """Sort along an axis; NaN comes last, of complex numbers those with NaN in the real part.

    Parameters
    ----------
    a : array_like
        Numbers or bools; complex ones are sorted by their real, then their imaginary parts.
    axis : int or None
        The axis; None sorts the flattened array.
    kind : str, optional
        Without effect: the sort is always stable.
    stable : bool, optional
        Without effect: the sort is always stable.
    descending : bool
        Largest first.

    Returns
    -------
    Array
        The sorted elements.
    """
    del kind, stable
    x, number = _sorted_axis(as_array(a), axis)
    if x.dtype.kind == "c":
        order = argsort(x, number, descending=descending)
        return take_along_axis(x, order, number, mode="promise_in_bounds")
    return _sort(x, axis=number, descending=bool(descending))


@compound
def _sort(x: Array, *, axis: int, descending: bool) -> Array:
    (result,) = apply_many(ops.sort, x, dimension=axis, num_keys=1, is_stable=True)
    return apply(ops.reverse, result, dimensions=(axis,)) if descending else result


def argsort(
    a: ArrayLike,
    axis: int | None = -1,
    kind: str | None = None,
    *,
    stable: bool | None = None,
    descending: bool = False,
) -> Array:
    """Return the indices that sort along an axis.

    Parameters
    ----------
    a : array_like
        Numbers or bools; complex ones are sorted by their real, then their imaginary parts.
    axis : int or None
        The axis; None sorts the flattened array.
    kind : str, optional
        Without effect: equal elements keep their order in any case.
    stable : bool, optional
        Without effect, for the same reason.
    descending : bool
        Largest first.

    Returns
    -------
    Array of int64
        The indices.
    """
    del kind, stable
    x, number = _sorted_axis(as_array(a), axis)
    if x.dtype.kind == "c":
        return _argsort_complex(x, axis=number, descending=bool(descending))
    return _argsort(x, axis=number, descending=bool(descending))


@compound
def _argsort(x: Array, *, axis: int, descending: bool) -> Array:
    # Descending and stable: sort the reversed array and read the result backwards.
    keys = apply(ops.reverse, x, dimensions=(axis,)) if descending else x
    positions = iota(shape=x.shape, dtype=_INT64, dimension=axis)
    _, order = apply_many(ops.sort, keys, positions, dimension=axis, num_keys=1, is_stable=True)
    if not descending:
        return order
    order = apply(ops.reverse, order, dimensions=(axis,))
    return apply(ops.subtract, full_like(order, x.shape[axis] - 1), order)


@compound
def _argsort_complex(x: Array, *, axis: int, descending: bool) -> Array:
    keys = _keys(x)
    return _lexsort(*(map(negative, keys) if descending else keys), axis=axis)


def lexsort(keys: Sequence[ArrayLike], axis: int = -1) -> Array:
    """Return the indices that sort by several keys, the last one first; see `numpy.lexsort`."""
    arrays = [as_array(key) for key in keys]
    if not arrays:
        raise ArgumentError("lexsort of no keys", mend="give at least one key")
    number = normalize_axis(axis, arrays[0].ndim)
    return _lexsort(*(part for x in arrays[::-1] for part in _keys(x)), axis=number)


def _keys(x: Array) -> tuple[Array, ...]:
    """Return the real keys whose order is that of an array."""
    if x.dtype.kind != "c":
        return (x,)
    return nan_class(x), apply(ops.real, x), apply(ops.imag, x)


@compound
def _lexsort(*keys: Array, axis: int) -> Array:
    positions = iota(shape=keys[0].shape, dtype=_INT64, dimension=axis)
    results = apply_many(
        ops.sort, *keys, positions, dimension=axis, num_keys=len(keys), is_stable=True
    )
    return results[-1]


def top_k(a: ArrayLike, k: int, axis: int = -1) -> tuple[Array, Array]:
    """Return the `k` largest elements along an axis, largest first, and their indices.

    Parameters
    ----------
    a : array_like
        Real numbers.
    k : int
        How many.
    axis : int
        The axis.

    Returns
    -------
    values : Array
        Of the shape of `a`, with `k` elements along the axis.
    indices : Array of int64
        Of equal elements the first ones are taken.

    Examples
    --------
    >>> import tracer.numpy as tnp
    >>> values, indices = tnp.top_k(tnp.array([3.0, 9.0, 5.0]), 2)
    >>> indices
    Array([1, 2])
    """
    x = as_array(a)
    number = normalize_axis(axis, x.ndim)
    count = operator.index(k)
    if not 0 <= count <= x.shape[number]:
        raise ShapeError(
            f"top_k of {count} from an axis of {x.shape[number]} elements",
            mend="give a k that is not larger than the axis",
        )
    return _top_k(x, k=count, axis=number)


@compound
def _top_k(x: Array, *, k: int, axis: int) -> tuple[Array, Array]:
    values, indices = apply_many(ops.top_k, moveaxis(x, axis, -1), k=k)
    wide = convert(indices, _INT64)
    return moveaxis(values, -1, axis), moveaxis(wide, -1, axis)


def partition(
    a: ArrayLike, kth: int | Sequence[int], axis: int | None = -1, kind: str = "introselect"
) -> Array:
    """Return an array in which the elements at `kth` are where sorting puts them.

    Smaller ones come before, others after them: it is the sorted array, whatever `kth` is.
    """
    del kind
    x, number = _sorted_axis(as_array(a), axis)
    _require_places(kth, x.shape[number])
    return sort(x, number)


def argpartition(
    a: ArrayLike, kth: int | Sequence[int], axis: int | None = -1, kind: str = "introselect"
) -> Array:
    """Return the indices that `partition` an array; they are those that sort it."""
    del kind
    x, number = _sorted_axis(as_array(a), axis)
    _require_places(kth, x.shape[number])
    return argsort(x, number)


def _require_places(kth: int | Sequence[int], size: int) -> None:
    places = (kth,) if is_index(kth) else tuple(cast("Sequence[int]", kth))
    if any(not -size <= operator.index(place) < size for place in places):
        raise ArgumentError(
            f"partition: {kth} is out of range for {size} elements",
            mend=f"give {-size} to {size - 1}",
        )


def sort_complex(a: ArrayLike) -> Array:
    """Sort by the real parts, and by the imaginary parts where those are equal; complex result."""
    x = as_array(a)
    # NumPy's rule: complex128 of all but complex numbers and integers of 8 and 16 bits.
    is_short = x.dtype.kind in "iu" and x.dtype.itemsize <= 2
    if x.dtype.kind != "c":
        x = convert(x, as_dtype("complex64" if is_short else "complex128"))
    return sort(x)
