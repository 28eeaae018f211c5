"""Making arrays: from data, from constants, from ranges."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from tracer.array import promotion
from tracer.array.active import ACTIVE
from tracer.array.array import Array, ArrayLike, get_evaluator
from tracer.array.convert import (
    as_array,
    as_shape,
    broadcast,
    broadcast_shape,
    convert,
    holds_arrays,
    host_array,
    scalar,
    with_ndim,
)
from tracer.array.dispatch import from_host
from tracer.array.placement import beside_arguments
from tracer.errors import ArgumentError, ExportError, ShapeError
from tracer.ir import as_dtype, require_countable
from tracer.ir.storage import InStorage
from tracer.ir.types import MOST_AXES

_INT64 = as_dtype("int64")


def array(
    object: ArrayLike,  # noqa: A002 - NumPy's name
    dtype: Any = None,
    *,
    copy: bool | None = True,
    order: str | None = "K",
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
    order : {"K", "C", "A"}, optional
        Without effect; "F" is refused: arrays have no memory order of their own.
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
    require_countable((1,) * min(ndmin, MOST_AXES + 1), as_dtype(bool))
    result = asarray(object, dtype, order, device=device)
    if result is object and copy:
        result = result.copy()
    return with_ndim(result, ndmin)


def asarray(
    a: ArrayLike,
    dtype: Any = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    device: Any = None,
) -> Array:
    """Return an Array of the data, itself when it is one of that dtype.

    Parameters
    ----------
    a : array_like
        Numbers, nested lists, NumPy arrays, Arrays.
    dtype : dtype, optional
        Of the result.
    order : {"K", "C", "A"}, optional
        Without effect; "F" is refused: arrays have no memory order of their own.
    copy : bool, optional
        True copies in any case; False refuses to copy.
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
    ArgumentError
        `copy` is False and the data has to be copied.
    """
    _require_order(order)
    wanted = None if dtype is None else as_dtype(dtype)
    if isinstance(cast("Any", a), InStorage):
        return from_host(np.asarray(a, wanted), device)
    if isinstance(a, Array) or (isinstance(a, list | tuple) and holds_arrays(a)):
        result = as_array(a)
        result = placed(result if wanted is None else convert(result, wanted), device)
        if copy is False and result is not a:
            raise _copy_refused(a)
        return result.copy() if copy and result is a else result
    if copy is False:
        raise _copy_refused(a)
    return from_host(host_array(a, wanted), device)


def _require_order(order: str | None) -> None:
    if order not in (None, "C", "K", "A"):
        raise ArgumentError(
            f"order={order!r}: arrays have no memory order of their own",
            mend="leave it out; what is computed does not depend on it",
        )


def _copy_refused(value: Any) -> ArgumentError:
    return ArgumentError(
        f"asarray(copy=False) of a {type(value).__name__} would have to copy its data",
        mend="leave copy out, or give an Array of that dtype on that device",
    )


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """Copy an array of another library, through DLPack.

    Parameters
    ----------
    x : object
        Has `__dlpack__` and `__dlpack_device__`.
    device : Device or str, optional
        Where the copy goes; the default device when None.
    copy : bool, optional
        True copies an Array too, which is returned itself otherwise; False refuses to copy.

    Returns
    -------
    Array
        Changing `x` later does not change it.

    Raises
    ------
    ExportError
        `copy` is False and the data has to be copied.
    """
    if isinstance(x, Array):
        found = as_array(x)
        found = found.copy() if copy else found
    elif copy is False:
        raise ExportError(
            "from_dlpack(copy=False) would share memory that another library may change",
            mend="leave copy out: the data is copied once",
        )
    else:
        found = get_evaluator().from_dlpack(x)
    return placed(found, device)


def placed(x: Array, device: Any) -> Array:
    """Return `x` on a device; None leaves it where it is."""
    return x if device is None else x.to_device(device)


def copy(a: ArrayLike, order: str | None = "K") -> Array:
    """Return a copy with its own memory."""
    return array(a, copy=True, order=order)


def full(
    shape: Any,
    fill_value: ArrayLike,
    dtype: Any = None,
    order: str | None = "C",
    *,
    device: Any = None,
) -> Array:
    """Fill a new array with a value.

    Parameters
    ----------
    shape : int or tuple of int
        Of the result.
    fill_value : array_like
        Broadcast to the shape.
    dtype : dtype, optional
        Of the result; that of `fill_value` by default.
    order : {"K", "C", "A"}, optional
        Without effect; "F" is refused: arrays have no memory order of their own.
    device : Device or str, optional
        Where the array goes.

    Returns
    -------
    Array, shape `shape`
        The filled array.
    """
    _require_order(order)
    sizes = checked_shape(shape)
    if promotion.weak_class(fill_value) is None:
        value = as_array(fill_value)
    else:
        wanted = promotion.result_type(fill_value) if dtype is None else as_dtype(dtype)
        if sizes == ():
            return from_host(promotion.scalar_value(fill_value, wanted), device)
        value = scalar(fill_value, wanted)
    if broadcast_shape("full", value.shape, sizes) != sizes:
        raise ShapeError(
            f"cannot broadcast a value of shape {value.shape} to shape {sizes}",
            mend="give a value that fits the shape",
        )
    value = value if dtype is None else convert(value, as_dtype(dtype))
    if hasattr(device, "mesh") and not value.is_traced:
        # In parts: the whole is not made on any device.
        return from_host(np.broadcast_to(value._host("full"), sizes), device)
    return broadcast(placed(value, device), sizes)


def checked_shape(shape: Any) -> tuple[int, ...]:
    """Return a shape argument as a tuple of sizes that are not negative."""
    sizes = as_shape(shape)
    if min(sizes, default=0) < 0:
        raise ShapeError(f"negative size in shape {sizes}", mend="sizes are zero or more")
    return sizes


def zeros(shape: Any, dtype: Any = None, order: str | None = "C", *, device: Any = None) -> Array:
    """Return zeros of a shape; float64 by default."""
    return full(shape, 0, float if dtype is None else dtype, order, device=device)


def ones(shape: Any, dtype: Any = None, order: str | None = "C", *, device: Any = None) -> Array:
    """Return ones of a shape; float64 by default."""
    return full(shape, 1, float if dtype is None else dtype, order, device=device)


empty = zeros


def zeros_like(
    a: ArrayLike,
    dtype: Any = None,
    order: str | None = "K",
    *,
    shape: Any = None,
    device: Any = None,
) -> Array:
    """Return zeros of the shape and dtype of `a`, unless others are given."""
    return full_like(a, 0, dtype, order, shape=shape, device=device)


def ones_like(
    a: ArrayLike,
    dtype: Any = None,
    order: str | None = "K",
    *,
    shape: Any = None,
    device: Any = None,
) -> Array:
    """Return ones of the shape and dtype of `a`, unless others are given."""
    return full_like(a, 1, dtype, order, shape=shape, device=device)


@beside_arguments
def full_like(
    a: ArrayLike,
    fill_value: ArrayLike,
    dtype: Any = None,
    order: str | None = "K",
    *,
    shape: Any = None,
    device: Any = None,
) -> Array:
    """Return an array of the shape and dtype of `a`, filled with a value."""
    x = as_array(a)
    sizes = x.shape if shape is None else shape
    # In a trace the program has no places of its own, though an array at hand has one.
    if device is None and shape is None and not ACTIVE.stack:
        device = x._device
    return full(sizes, fill_value, x.dtype if dtype is None else dtype, order, device=device)


empty_like = zeros_like
