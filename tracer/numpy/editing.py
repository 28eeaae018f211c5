"""Insert, delete, trim and assemble parts of arrays; windows."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, as_written, normalize_axis, with_ndim
from tracer.array.dispatch import from_host
from tracer.array.promotion import as_default
from tracer.errors import DTypeError, ShapeError
from tracer.ir.types import MOST_AXES
from tracer.numpy.joining import concatenate
from tracer.numpy.positions import concrete
from tracer.numpy.shaping import broadcast_to, moveaxis, ravel
from tracer.numpy.splitting import Cuts, split
from tracer.numpy.taking import take

_MEND = "give integers that are known while tracing"


def _places(name: str, obj: Any, size: int) -> Any:
    """Return what `insert` and `delete` take as places: a slice, or concrete indices."""
    if isinstance(obj, slice):
        return np.arange(size)[obj]
    places = concrete(name, obj, _MEND) if isinstance(obj, Array) else np.asarray(obj)
    if places.dtype != bool:
        return places
    if places.shape != (size,):
        raise ShapeError(
            f"{name} by a mask of shape {places.shape} along an axis of {size} elements",
            mend="give one bool for each element of the axis, or integers",
        )
    return np.flatnonzero(places)


def delete(arr: ArrayLike, obj: slice | ArrayLike, axis: int | None = None) -> Array:
    """Return an array without some slices along an axis.

    Parameters
    ----------
    arr : array_like
        Any array.
    obj : int or slice or array_like of int or bool
        Which are left out; concrete.
    axis : int, optional
        The axis; the flattened array by default.

    Returns
    -------
    Array
        What stays.
    """
    x = ravel(arr) if axis is None else as_array(arr)
    number = normalize_axis(0 if axis is None else axis, x.ndim)
    size = x.shape[number]
    places = _places("delete", obj, size)
    if places.size == 0:
        return x._snapshot()
    return take(x, np.delete(np.arange(size), places), number)


def insert(
    arr: ArrayLike, obj: slice | ArrayLike, values: ArrayLike, axis: int | None = None
) -> Array:
    """Return an array with values put in before indices along an axis.

    Parameters
    ----------
    arr : array_like
        Any array.
    obj : int or slice or array_like of int or of bool
        Before which indices; a mask along the axis means the indices where it is True.
        Concrete.
    values : array_like
        Broadcast to the new slices, in the dtype of `arr`. Before a single index all slices of
        the values are put in, along their first axis when the index is no list.
    axis : int, optional
        The axis; the flattened array by default.

    Returns
    -------
    Array
        The longer array.
    """
    x = ravel(arr) if axis is None else as_array(arr)
    number = normalize_axis(0 if axis is None else axis, x.ndim)
    size = x.shape[number]
    places = _places("insert", obj, size)
    new = as_written(values, x.dtype)
    new = with_ndim(new, x.ndim)
    if places.ndim == 0:  # a single position: the first axis of the values is the axis
        new = moveaxis(new, 0, number)
    # One place takes all slices of the values, several take one each.
    count = new.shape[number] if places.size == 1 else places.size
    shape = (*x.shape[:number], count, *x.shape[number + 1 :])
    # NumPy's own rule, applied to the places: the new slices come after the old ones.
    order = np.insert(np.arange(size), places, size + np.arange(count))
    joined = concatenate([x, broadcast_to(new, shape)], number)
    return take(joined, order, number)


def trim_zeros(filt: ArrayLike, trim: str = "fb") -> Array:
    """Return a concrete vector without its zeros in front ("f") and at the end ("b")."""
    x = as_array(filt)
    places = np.flatnonzero(concrete("trim_zeros", x, "cut it with a slice of known size"))
    if not places.size:
        return x[:0]
    first = int(places[0]) if "f" in trim.lower() else 0
    last = int(places[-1]) + 1 if "b" in trim.lower() else x.size
    return x[first:last]


def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    """Move an axis back until it is before another one; see `numpy.rollaxis`."""
    x = as_array(a)
    number = normalize_axis(axis, x.ndim)
    place = start + x.ndim if start < 0 else start
    if not 0 <= place <= x.ndim:
        raise ShapeError(
            f"rollaxis to {start} is out of range for {x.ndim} axes", mend="give an axis"
        )
    return moveaxis(x, number, place - 1 if number < place else place)


def dsplit(ary: ArrayLike, indices_or_sections: Cuts) -> list[Array]:
    """Cut along the third axis; see `split`."""
    x = as_array(ary)
    if x.ndim < 3:
        raise ShapeError(
            f"dsplit needs three axes, got shape {x.shape}", mend="give three or more axes"
        )
    return split(x, indices_or_sections, 2)


def block(arrays: Any) -> Array:
    """Put an array together from nested lists of blocks; see `numpy.block`.

    Parameters
    ----------
    arrays : nested list of array_like
        The innermost lists are joined along the last axis, the next ones along the one before.

    Returns
    -------
    Array
        The whole.
    """
    depth = _depth(arrays)
    leaves: list[Array] = []
    _collect(arrays, leaves)
    return _joined(arrays, depth, max([depth, *[leaf.ndim for leaf in leaves]]))


def _depth(arrays: Any, level: int = 0) -> int:
    if not isinstance(arrays, list):
        return 0
    depths = {_depth(part, level + 1) for part in arrays} if level < MOST_AXES else set[int]()
    if len(depths) != 1:
        raise ShapeError("block of lists of different depths", mend="nest all blocks equally")
    return 1 + depths.pop()


def _collect(arrays: Any, leaves: list[Array]) -> None:
    if isinstance(arrays, list):
        for part in arrays:
            _collect(part, leaves)
    elif isinstance(arrays, tuple):
        raise DTypeError("block takes lists, not tuples", mend="write [...] for (...)")
    else:
        leaves.append(as_array(arrays))


def _joined(arrays: Any, depth: int, ndim: int) -> Array:
    if depth == 0:
        return with_ndim(as_array(arrays), ndim)
    return concatenate([_joined(part, depth - 1, ndim) for part in arrays], ndim - depth)


def bartlett(M: int) -> Array:  # noqa: N803 - NumPy's name
    """Return the Bartlett window of `M` points."""
    return from_host(as_default(np.bartlett(M)))


def blackman(M: int) -> Array:  # noqa: N803
    """Return the Blackman window of `M` points."""
    return from_host(as_default(np.blackman(M)))


def hamming(M: int) -> Array:  # noqa: N803
    """Return the Hamming window of `M` points."""
    return from_host(as_default(np.hamming(M)))


def hanning(M: int) -> Array:  # noqa: N803
    """Return the Hann window of `M` points."""
    return from_host(as_default(np.hanning(M)))


def kaiser(M: int, beta: float) -> Array:  # noqa: N803
    """Return the Kaiser window of `M` points; `beta` is a Python number."""
    return from_host(as_default(np.kaiser(M, beta)))
