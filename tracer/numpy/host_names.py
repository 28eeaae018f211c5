"""Names of NumPy that concern its own memory, files and iteration: on concrete arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array
from tracer.errors import ArgumentError, DTypeError, TracerError
from tracer.ir import as_dtype
from tracer.numpy.positions import concrete

complexfloating, floating, inexact = np.complexfloating, np.floating, np.inexact
generic, integer, number = np.generic, np.integer, np.number
signedinteger, unsignedinteger = np.signedinteger, np.unsignedinteger
int_, uint, double, single = np.int_, np.uint, np.double, np.single
cdouble, csingle = np.cdouble, np.csingle
errstate, ndindex = np.errstate, np.ndindex
set_printoptions, get_printoptions = np.set_printoptions, np.get_printoptions
printoptions = np.printoptions

_CONCRETE = "call it outside of the traced function, on arguments or results"


def asanyarray(a: ArrayLike, dtype: Any = None) -> Array:
    """Return an Array: there are no subclasses; see `asarray`."""
    return _as(a, dtype)


def ascontiguousarray(a: ArrayLike, dtype: Any = None) -> Array:
    """Return an Array of one axis or more: none has strides of its own; see `asarray`."""
    x = _as(a, dtype)
    return x if x.ndim else x.reshape(1)


def _as(a: ArrayLike, dtype: Any) -> Array:
    x = as_array(a)
    return x if dtype is None else x.astype(dtype)


def ndenumerate(arr: ArrayLike) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Iterate over the indices and elements of a concrete array; see `numpy.ndenumerate`.

    The elements are NumPy's scalars: one copy of the whole array is made.
    """
    return iter(np.ndenumerate(concrete("ndenumerate", arr, _CONCRETE)))


def frombuffer(
    buffer: bytes | bytearray | memoryview | np.ndarray[Any, Any],
    dtype: Any = float,
    count: int = -1,
    offset: int = 0,
) -> Array:
    """Return a copy of memory as a vector; see `numpy.frombuffer`."""
    try:
        found = np.frombuffer(buffer, as_dtype(dtype), count, offset)
    except ValueError as error:
        raise ArgumentError(
            f"frombuffer: {error}", mend="give memory of whole elements from offset on"
        ) from error
    return as_array(found)


def fromiter(iter: Iterable[Any], dtype: Any, count: int = -1) -> Array:  # noqa: A002 - NumPy's name
    """Return a vector of what an iterable yields; see `numpy.fromiter`."""
    try:
        found = np.fromiter(iter, as_dtype(dtype), count)
    except (ValueError, TypeError, np.ma.MaskError) as error:
        if isinstance(error, TracerError) or not isinstance(iter, Iterable):
            raise
        raise ArgumentError(
            f"fromiter: {error}", mend="give numbers of the dtype, as many as count says"
        ) from error
    return as_array(found)


def save(file: Any, arr: ArrayLike, allow_pickle: bool = False) -> None:
    """Write a concrete array to a file in NumPy's format.

    Parameters
    ----------
    file : file or path
        ".npy" is added where the name has no such end.
    arr : array_like
        The array.
    allow_pickle : bool
        Has no effect: arrays here hold numbers.

    Raises
    ------
    DTypeError
        A dtype that NumPy's format cannot name (bfloat16, float8).
    """
    del allow_pickle
    np.save(file, _writable("save", arr), allow_pickle=False)


def savez(file: Any, *args: ArrayLike, **kwds: ArrayLike) -> None:
    """Write several concrete arrays to a file in NumPy's format; see `numpy.savez` and `save`."""
    named: dict[str, Any] = {name: _writable("savez", x) for name, x in kwds.items()}
    np.savez(file, *[_writable("savez", x) for x in args], **named)


def _writable(name: str, arr: ArrayLike) -> np.ndarray[Any, Any]:
    data = concrete(name, arr, _CONCRETE)
    if data.dtype.kind == "V":
        raise DTypeError(
            f"{name}: NumPy's format has no name for {data.dtype}, and loads it as raw bytes",
            mend='write x.astype("float32")',
        )
    return data


def load(file: Any, mmap_mode: Any = None) -> Any:
    """Read what `save` or `savez` wrote.

    Parameters
    ----------
    file : file or path
        The file.
    mmap_mode : str, optional
        As in NumPy; the array is copied all the same, since arrays here own their memory.

    Returns
    -------
    Array, or NumPy's mapping of names to NumPy arrays
        For an archive of several arrays NumPy's mapping, which reads each when asked.
    """
    found = np.load(file, mmap_mode=mmap_mode, allow_pickle=False)
    return as_array(found) if isinstance(found, np.ndarray) else found
