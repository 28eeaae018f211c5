"""Making arrays: from data, from constants, from ranges."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tracer import ops
from tracer.errors import ArgumentError, ShapeError, TracingError
from tracer.ir import as_dtype
from tracer.numpy import promotion
from tracer.numpy.base import ArrayBase, ArrayLike
from tracer.numpy.convert import (
    as_array,
    as_shape,
    broadcast,
    broadcast_shape,
    convert,
    host_array,
    reshape,
    scalar,
)
from tracer.numpy.dispatch import apply, compound, from_host
from tracer.numpy.evaluation import get_evaluator
from tracer.numpy.promotion import Dtype
from tracer.numpy.recording import current_recording
from tracer.numpy.ufunc import full_like as _filled

if TYPE_CHECKING:
    from tracer.numpy.array import Array

_INT64, _FLOAT64 = as_dtype("int64"), as_dtype("float64")


def array(
    object: ArrayLike,  # noqa: A002 - NumPy's name
    dtype: Any = None,
    *,
    copy: bool | None = True,
    ndmin: int = 0,
    device: Any = None,
) -> Array:
    """Make an array of data; always a private copy by default.

    Parameters
    ----------
    object : array_like
        Numbers, nested lists, NumPy arrays, Arrays.
    dtype : dtype, optional
        Of the result.
    copy : bool or None
        False and None share the data of an Array of the right dtype; data from the host is copied
        in any case.
    ndmin : int
        Axes of size one are put in front until there are so many.
    device : Device or str, optional
        Where the array goes.

    Returns
    -------
    Array
        Changing `object` later does not change it.

    Raises
    ------
    DTypeError
        Ragged lists, strings, objects, and dtypes that are not supported.
    """
    result = asarray(object, dtype, device=device)
    if result is object and copy:
        result = result.copy()
    if result.ndim < ndmin:
        result = reshape(result, (1,) * (ndmin - result.ndim) + result.shape)
    return result


def asarray(
    a: ArrayLike, dtype: Any = None, *, copy: bool | None = None, device: Any = None
) -> Array:
    """Return an Array of the data, itself when it is one of that dtype.

    Parameters
    ----------
    a : array_like
        Numbers, nested lists, NumPy arrays, Arrays.
    dtype : dtype, optional
        Of the result.
    copy : bool, optional
        True copies in any case.
    device : Device or str, optional
        Where the array goes.

    Returns
    -------
    Array
        Data from the host is copied: changing it later does not change the Array.

    Raises
    ------
    DTypeError
        Ragged lists, strings, objects, and dtypes that are not supported.
    """
    wanted = None if dtype is None else as_dtype(dtype)
    if isinstance(a, ArrayBase) or (isinstance(a, list | tuple) and not _is_host_data(a)):
        result = as_array(a)
        result = result if wanted is None else convert(result, wanted)
        if copy and result is a:
            result = result.copy()
        return result if device is None else result.to_device(device)
    return from_host(host_array(a, wanted), device)


def _is_host_data(values: Any) -> bool:
    return all(
        _is_host_data(value)
        if isinstance(value, list | tuple)
        else not isinstance(value, ArrayBase)
        for value in values
    )


def from_dlpack(x: Any, /) -> Array:
    """Copy an array of another library to the default device, through DLPack."""
    return as_array(x) if isinstance(x, ArrayBase) else get_evaluator().from_dlpack(x)


def copy(a: ArrayLike) -> Array:
    """Return a copy with memory of its own."""
    return array(a, copy=True)


def full(shape: Any, fill_value: ArrayLike, dtype: Any = None) -> Array:
    """Fill a new array with a value.

    Parameters
    ----------
    shape : int or tuple of int
        Of the result.
    fill_value : array_like
        Broadcast to the shape.
    dtype : dtype, optional
        Of the result; that of `fill_value` by default.

    Returns
    -------
    Array, shape `shape`
        The filled array.
    """
    if dtype is not None and promotion.weak_class(fill_value) is not None:
        value = scalar(fill_value, as_dtype(dtype))
    else:
        value = as_array(fill_value)
    sizes = checked_shape(shape)
    if broadcast_shape("full", value.shape, sizes) != sizes:
        raise ShapeError(
            f"cannot broadcast a value of shape {value.shape} to shape {sizes}",
            mend="give a value that fits the shape",
        )
    return broadcast(value if dtype is None else convert(value, as_dtype(dtype)), sizes)


def checked_shape(shape: Any) -> tuple[int, ...]:
    """Return a shape argument as a tuple of sizes that are not negative."""
    sizes = as_shape(shape)
    if min(sizes, default=0) < 0:
        raise ShapeError(f"negative size in shape {sizes}", mend="sizes are zero or more")
    return sizes


def zeros(shape: Any, dtype: Any = None) -> Array:
    """Return zeros of a shape; float64 by default."""
    return full(shape, 0, float if dtype is None else dtype)


def ones(shape: Any, dtype: Any = None) -> Array:
    """Return ones of a shape; float64 by default."""
    return full(shape, 1, float if dtype is None else dtype)


empty = zeros


def zeros_like(a: ArrayLike, dtype: Any = None, *, shape: Any = None) -> Array:
    """Return zeros of the shape and dtype of `a`, unless others are given."""
    return full_like(a, 0, dtype, shape=shape)


def ones_like(a: ArrayLike, dtype: Any = None, *, shape: Any = None) -> Array:
    """Return ones of the shape and dtype of `a`, unless others are given."""
    return full_like(a, 1, dtype, shape=shape)


def full_like(
    a: ArrayLike, fill_value: ArrayLike, dtype: Any = None, *, shape: Any = None
) -> Array:
    """Return an array of the shape and dtype of `a`, filled with a value."""
    x = as_array(a)
    return full(
        x.shape if shape is None else shape, fill_value, x.dtype if dtype is None else dtype
    )


empty_like = zeros_like


@compound
def iota(*, shape: tuple[int, ...], dtype: Dtype, dimension: int) -> Array:
    """Return indices along one axis."""
    return apply(ops.iota, shape=shape, dtype=dtype, dimension=dimension)


def arange(start: Any, stop: Any = None, step: Any = None, dtype: Any = None) -> Array:
    """Return evenly spaced numbers of a half-open interval.

    Parameters
    ----------
    start : number
        The first number; the end of the interval when it stands alone.
    stop : number, optional
        The end, not contained.
    step : number
        The distance; 1 by default.
    dtype : dtype, optional
        Of the result; by default that of the arguments.

    Returns
    -------
    Array, one axis
        start, start + step, ...

    Raises
    ------
    TracingError
        An argument is traced: the size would depend on values.
    """
    if stop is None:
        start, stop = 0, start
    step = 1 if step is None else step
    numbers = [_concrete_number("arange", value) for value in (start, stop, step)]
    if numbers[2] == 0:
        raise ArgumentError("arange with step 0 never ends", mend="give another step")
    wanted = promotion.result_type(*numbers) if dtype is None else as_dtype(dtype)
    if current_recording() is None or wanted.kind in "bc":
        return from_host(np.arange(*numbers).astype(wanted))
    size = max(0, math.ceil((numbers[1] - numbers[0]) / numbers[2]))
    return _ramp(numbers[0], numbers[2], size, wanted)


def _concrete_number(name: str, value: Any) -> Any:
    if isinstance(value, ArrayBase):
        if value.is_traced:
            raise TracingError(
                f"{name} with a traced argument: the shape of the result would depend on values",
                mend="use Python numbers, such as x.shape[0], or static_argnums",
            )
        return np.asarray(value)[()]
    return value


def _ramp(start: Any, step: Any, size: int, dtype: Dtype) -> Array:
    steps = iota(shape=(size,), dtype=dtype, dimension=0)
    if step != 1:
        steps = apply(ops.multiply, steps, _filled(steps, step))
    if start != 0:
        steps = apply(ops.add, steps, _filled(steps, start))
    return steps


def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    dtype: Any = None,
) -> Array:
    """Return `num` evenly spaced numbers from `start` to `stop`.

    Parameters
    ----------
    start, stop : array_like
        Ends; arrays are broadcast together and the numbers lie along a new first axis.
    num : int
        How many.
    endpoint : bool
        Whether `stop` is the last one.
    dtype : dtype, optional
        Of the result; floats by default.

    Returns
    -------
    Array, shape (num, ...)
        The numbers.
    """
    count = int(_concrete_number("linspace", num))
    if count < 0:
        raise ArgumentError(f"linspace of {count} numbers", mend="give 0 or more")
    if not isinstance(start, ArrayBase) and not isinstance(stop, ArrayBase):
        numbers = np.linspace(start, stop, count, endpoint)  # type: ignore[arg-type]
        return from_host(numbers.astype(as_dtype(dtype)) if dtype else numbers)
    first, last = as_array(start), as_array(stop)
    wide = promotion.promote_types(promotion.result_type(first, last), _FLOAT64)
    first, last = convert(first, wide), convert(last, wide)
    shape = broadcast_shape("linspace", first.shape, last.shape)
    first, last = broadcast(first, shape), broadcast(last, shape)
    positions = iota(shape=(count, *shape), dtype=wide, dimension=0)
    result = first + positions * ((last - first) / max(count - 1 if endpoint else count, 1))
    return result if dtype is None else convert(result, as_dtype(dtype))


def meshgrid(*xi: ArrayLike, indexing: str = "xy", sparse: bool = False) -> tuple[Array, ...]:
    """Return coordinate arrays of a grid.

    Parameters
    ----------
    *xi : array_like, one axis
        Coordinates along each axis.
    indexing : {"xy", "ij"}
        Whether the first two axes of the result are swapped.
    sparse : bool
        Leave the axes at size one that could be broadcast.

    Returns
    -------
    tuple of Array
        One for each argument.
    """
    if indexing not in ("xy", "ij"):
        raise ArgumentError(f"indexing {indexing!r} is not known", mend='use "xy" or "ij"')
    arrays = [reshape(as_array(x), (as_array(x).size,)) for x in xi]
    order = list(range(len(arrays)))
    if indexing == "xy" and len(arrays) > 1:
        order[:2] = [1, 0]
    placed = [
        reshape(x, tuple(x.size if axis == place else 1 for axis in range(len(arrays))))
        for x, place in zip(arrays, order, strict=True)
    ]
    if sparse:
        return tuple(placed)
    shape = broadcast_shape("meshgrid", *[x.shape for x in placed])
    return tuple(broadcast(x, shape) for x in placed)
