"""Where elements are true: nonzero and related functions, whose shapes depend on data.

On concrete arrays the shape is computed. In a trace `size=` states it, as in JAX: surplus positions
are left out, missing ones hold `fill_value`.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from tracer import ops
from tracer.arguments import is_index
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import (
    as_array,
    broadcast,
    convert,
    host_array,
    normalize_axis,
    reshape,
    scalar,
)
from tracer.array.dispatch import apply, compound, from_host
from tracer.array.placement import beside_arguments
from tracer.array.recording import made_at
from tracer.errors import ArgumentError, ShapeError, TracingError
from tracer.ir import as_dtype
from tracer.numpy.arithmetic import maximum
from tracer.numpy.elementwise import where
from tracer.numpy.joining import stack
from tracer.numpy.ranges import iota
from tracer.numpy.reductions import refuse_out
from tracer.numpy.taking import take
from tracer.numpy.ufunc import compare, full_like, is_nonzero, select

_INT64 = as_dtype("int64")
MEND = "give size= (and fill_value=), or call it outside of the traced function"


def concrete(name: str, a: ArrayLike, mend: str = MEND) -> np.ndarray[Any, Any]:
    """Return the data of an array for a function whose shape depends on it.

    Raises
    ------
    TracingError
        The array is traced.
    """
    if isinstance(a, Array) and a.is_traced:
        raise TracingError(
            f"{name} of a traced array, {a.type} (made at {made_at(a)}): "  # type: ignore[arg-type] # traced
            "the shape of the result would depend on values",
            mend=mend,
        )
    # Not as an Array what is none: in a trace that would be traced.
    return np.asarray(a._host(name)) if isinstance(a, Array) else host_array(a)


def checked_size(name: str, size: Any) -> int:
    """Return a `size=` argument as an int that is not negative."""
    if not is_index(size) or operator.index(size) < 0:
        raise ArgumentError(f"{name}: size={size!r} is no size", mend="give an integer, 0 or more")
    return int(size)


@beside_arguments
def nonzero(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> tuple[Array, ...]:
    """Return the indices of the elements that are true (not zero), one array for each axis.

    Parameters
    ----------
    a : array_like
        Any array with an axis.
    size : int, optional
        How many indices are returned; necessary for traced arrays.
    fill_value : int or tuple of int, optional
        The value of missing indices (of each axis); 0 by default.

    Returns
    -------
    tuple of Array of int64
        The indices, in row-major order.

    Raises
    ------
    TracingError
        The array is traced and there is no `size`.
    """
    if size is None:
        known = concrete("nonzero", np.asarray(a) if np.isscalar(a) else a)
        if not known.ndim:
            raise ShapeError("nonzero of a number", mend="use atleast_1d")
        found = np.nonzero(known)
        return tuple(from_host(index) for index in found)
    x = as_array(a)
    count = checked_size("nonzero", size)
    fills = fill_value if isinstance(fill_value, tuple) else (fill_value or 0,) * x.ndim
    flat = true_places(x, size=count, fill=-1)
    return _unravel(flat, shape=x.shape, fills=tuple(int(fill) for fill in fills))


@compound
def true_places(mask: Array, *, size: int, fill: int) -> Array:
    """Return the flat places of the first `size` true elements, `fill` where there are fewer."""
    if not size:
        return broadcast(scalar(fill, _INT64), (0,))
    true = reshape(is_nonzero(mask), (mask.size,))
    steps = convert(true, _INT64)
    rank = apply(ops.cumulative_add, steps, axis=0, reverse=False)
    # The place of the n-th true element is written to n - 1; others are written out of bounds.
    target = apply(ops.subtract, rank, full_like(rank, 1))
    target = select(true, target, full_like(target, size))
    places = iota(shape=(mask.size,), dtype=_INT64, dimension=0)
    return apply(
        ops.scatter,
        broadcast(scalar(fill, _INT64), (size,)),
        reshape(target, (mask.size, 1)),
        places,
        combiner="replace",
        update_window_dims=(),
        inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,),
        index_vector_dim=1,
        unique_indices=False,
    )


@compound
def _unravel(flat: Array, *, shape: tuple[int, ...], fills: tuple[int, ...]) -> tuple[Array, ...]:
    is_missing = compare(flat, full_like(flat, 0), "LT")
    results = []
    for size, fill in zip(shape[::-1], fills[::-1], strict=True):
        extent = full_like(flat, max(size, 1))
        index = apply(ops.remainder, flat, extent)
        flat = apply(ops.divide, flat, extent)
        results.append(select(is_missing, full_like(index, fill), index))
    return tuple(results[::-1])


def flatnonzero(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Array:
    """Return the flat indices of the elements that are true (not zero); see `nonzero`."""
    x = as_array(a)
    return nonzero(reshape(x, (x.size,)), size=size, fill_value=fill_value)[0]


@beside_arguments
def argwhere(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Array:
    """Return the indices of the true elements, one row for each; see `nonzero`."""
    if size is None:
        return from_host(np.argwhere(concrete("argwhere", a)))
    x = as_array(a)
    if not x.ndim:
        return broadcast(scalar(0, _INT64), (checked_size("argwhere", size), 0))
    return stack(nonzero(x, size=size, fill_value=fill_value), 1)


def extract(
    condition: ArrayLike, arr: ArrayLike, *, size: int | None = None, fill_value: Any = 0
) -> Array:
    """Return the elements where a condition holds, as a vector; `size=` as for `nonzero`."""
    return compress(reshape_flat(condition), reshape_flat(arr), size=size, fill_value=fill_value)


def reshape_flat(a: ArrayLike) -> Array:
    """Return the elements as a vector."""
    x = as_array(a)
    return reshape(x, (x.size,))


def compress(
    condition: ArrayLike,
    a: ArrayLike,
    axis: int | None = None,
    out: None = None,
    *,
    size: int | None = None,
    fill_value: Any = 0,
) -> Array:
    """Return the slices along an axis for which a vector of conditions holds.

    Parameters
    ----------
    condition : array_like of bool, one axis
        At most as long as the axis.
    a : array_like
        Where they are taken from.
    axis : int, optional
        The axis; the flattened array by default.
    out : None
        Refused: arrays are not written in place.
    size : int, optional
        How many slices are returned; necessary for a traced condition.
    fill_value : number
        What missing slices hold.

    Returns
    -------
    Array
        The chosen slices.
    """
    refuse_out(out)
    x = reshape_flat(a) if axis is None else as_array(a)
    number = normalize_axis(0 if axis is None else axis, x.ndim)
    if size is None:
        known = concrete("compress", condition)
        if known.ndim != 1:
            raise ShapeError(
                f"compress: the condition has shape {known.shape}", mend="give a vector of bools"
            )
        return take(x, np.nonzero(known)[0], number)
    places = true_places(as_array(condition), size=checked_size("compress", size), fill=-1)
    mode = "promise_in_bounds" if x.shape[number] else "fill"
    taken = take(x, maximum(places, 0), number, mode=mode)
    shape = (places.size, *(1,) * (x.ndim - number - 1))
    filling = full_of(taken, fill_value)
    result: Array = where(reshape(places >= 0, shape), taken, filling)
    return result


def full_of(x: Array, value: Any) -> Array:
    """Return a number in the type of `x`."""
    return broadcast(convert(as_array(value), x.dtype), x.shape)
