"""Move data to and from devices, and to and from other libraries through DLPack."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tracer.errors import DeviceError, DonatedArrayError, DTypeError
from tracer.ir.types import SUPPORTED_DTYPES, as_dtype
from tracer.lowering import shims
from tracer.lowering.devices.device import Device
from tracer.lowering.devices.forks import FORKS, absent_threads
from tracer.lowering.devices.registry import default_device, find_device
from tracer.lowering.run.budget import ASKED
from tracer.lowering.run.failures import absent, execution_failure
from tracer.lowering.run.large_arrays import copied, is_large
from tracer.lowering.shims import Buffer

_DLPACK_HOST_MEMORY = (1, 3)
"""DLPack's numbers of memory that the host can read: its own, and pinned."""
_DLPACK_PLATFORMS = {2: "gpu", 10: "gpu"}
"""DLPack's numbers of other memory: CUDA's and ROCm's."""


def to_device(array: np.ndarray[Any, Any], device: Device | None = None) -> Buffer:
    """Copy an array to a device.

    Parameters
    ----------
    array : ndarray
        Any shape, strides and byte order; a supported dtype.
    device : Device, optional
        The default device when None.

    Returns
    -------
    Buffer
        A private copy: the array may be changed as soon as this returns.

    Raises
    ------
    DTypeError
        No supported dtype.
    DeviceError
        The device is not here, or another process'; or this one was forked after XLA had started.
    ExecutionError
        The device is out of memory.
    """
    if array.dtype not in SUPPORTED_DTYPES:
        # Big-endian arrays would be taken as they are, without an error and with wrong numbers.
        array = array.astype(as_dtype(array.dtype))
    if FORKS.is_child:
        raise absent_threads()
    place = default_device() if device is None else device
    if not place.is_local:
        raise absent(place)
    budget = ASKED.budget  # Read once: another thread may take it back.
    if budget is not None and place.platform == "cpu":
        budget.admit_array(array.nbytes)
    try:
        if is_large(array.nbytes, place):
            return copied(array, place)
        return shims.put(array, place.sharding, place.raw)
    except RuntimeError as error:
        raise execution_failure(error) from error


def to_host(buffer: Buffer) -> np.ndarray[Any, Any]:
    """Return a buffer's values, waiting for them to be computed.

    Returns
    -------
    ndarray
        Read-only; on CPU a view of the buffer, which it keeps alive.

    Raises
    ------
    DonatedArrayError
        The buffer was donated.
    ExecutionError
        The program that computes it failed.
    """
    array: np.ndarray[Any, Any]
    try:
        return np.asarray(memoryview(buffer))
    except BufferError:
        pass  # A dtype that Python has no letter for, not the host's memory, or jaxlib up to 0.8.
    try:
        # It imports jax each time: all of it, or, if that is not installed, in 0.2 ms for nothing.
        array = buffer._single_device_array_to_np_array_did_copy()[0]
    except RuntimeError as error:
        raise execution_failure(error) from error
    array.flags.writeable = False
    return array


def start_to_host(buffers: Iterable[Buffer]) -> None:
    """Start to copy buffers to the host; `to_host` then waits for what is still on its way.

    A copy follows the program that computes its buffer, and neither the host nor the programs that
    are dispatched next wait for it. On CPU there is nothing to copy.

    Raises
    ------
    DonatedArrayError
        A buffer was donated.
    """
    for buffer in buffers:
        try:
            buffer._copy_single_device_array_to_host_async()
        except RuntimeError as error:
            raise execution_failure(error, (buffer,)) from error


def block_until_ready(buffer: Buffer) -> None:
    """Wait until the program that computes a buffer has run.

    Raises
    ------
    DonatedArrayError
        The buffer was donated.
    ExecutionError
        The program failed.
    """
    try:
        buffer.block_until_ready()
    except RuntimeError as error:
        raise execution_failure(error) from error


def to_dlpack(buffer: Buffer) -> Any:
    """Return a DLPack capsule that shares the buffer's memory.

    Raises
    ------
    DonatedArrayError
        The buffer was donated.
    DTypeError
        DLPack has no such dtype.
    """
    key = id(buffer)
    # Told before it is done, for the sake of calls on other threads that take the buffer.
    _exported[key] = weakref.ref(buffer, lambda _: _exported.pop(key, None))
    if buffer.is_deleted():
        raise DonatedArrayError(
            "an array was shared through DLPack after its memory had been given away",
            mend="use the array that the call returned, or do not donate this argument",
        )
    try:
        return shims.export_dlpack(buffer)
    except RuntimeError as error:
        raise DTypeError(
            f"the array cannot be shared through DLPack: {error}",
            mend="convert it with astype, or go through numpy.asarray",
        ) from error


_exported: dict[int, weakref.ref[Buffer]] = {}
"""Buffers that others may look at, by id: they cannot be hashed."""


def _is_exported(buffer: Buffer) -> bool:
    known = _exported.get(id(buffer))
    return known is not None and known() is buffer


def without_exported(
    buffers: Sequence[Buffer], positions: Iterable[int], device: Device
) -> Sequence[Buffer]:
    """Return a device's buffers, with copies of those at some positions that others may look at.

    XLA ends the process when memory is given away that DLPack has shared.
    """
    if not _exported:
        return buffers
    given = list(buffers)
    for i in positions:
        if _is_exported(given[i]):
            given[i] = to_device(to_host(given[i]), device)
    return given


def delete_given(buffers: Sequence[Buffer], positions: Iterable[int]) -> None:
    """Delete what a call was given, unless another thread has shared it meanwhile.

    XLA has left that one as it was, and ends the process when it is deleted.
    """
    for i in positions:
        if not _exported or not _is_exported(buffers[i]):
            buffers[i].delete()


def from_dlpack(array: Any, device: Device | None = None) -> Buffer:
    """Copy an array of another library to a device.

    Parameters
    ----------
    array : object
        Has `__dlpack__` and `__dlpack_device__`; any strides, on the host.
    device : Device, optional
        The default device when None.

    Returns
    -------
    Buffer
        A private copy.

    Raises
    ------
    DTypeError
        The object does not speak DLPack, or its dtype is not supported.
    DeviceError
        The object's memory is not on the host.
    """
    if isinstance(array, np.ndarray):
        return to_device(array, device)
    if not hasattr(array, "__dlpack__"):
        raise DTypeError(
            f"{type(array).__name__} has no __dlpack__",
            mend="give an array of a library that supports DLPack, or numpy.asarray(it)",
        )
    if array.__dlpack_device__()[0] not in _DLPACK_HOST_MEMORY:
        raise DeviceError(
            f"{type(array).__name__} is not on the host",
            mend="move it to the host with its own library first",
        )
    return to_device(_dlpack_view(array), device)


def share_dlpack(array: Any) -> tuple[Buffer, Device]:
    """Return a buffer in the memory of another library's array, and the device that it is on.

    Parameters
    ----------
    array : object
        Has `__dlpack__` and `__dlpack_device__`; nobody changes it, and its elements are row by
        row.

    Raises
    ------
    DeviceError
        It is on a device that tracer does not use.
    """
    place = dlpack_device(*array.__dlpack_device__())
    return shims.import_dlpack(array.__dlpack__(), place.raw), place


def dlpack_device(code: int, number: int) -> Device:
    """Return the device that DLPack knows by a code and a number.

    Raises
    ------
    DeviceError
        tracer does not use it.
    """
    if code in _DLPACK_HOST_MEMORY:
        return find_device("cpu")
    return find_device(f"{_DLPACK_PLATFORMS.get(code, 'device')}:{number}")


def _dlpack_view(array: Any) -> np.ndarray[Any, Any]:
    """Return a view of another library's array: NumPy knows strides, jaxlib the small floats."""
    try:
        return np.from_dlpack(array)
    except (BufferError, RuntimeError) as refused:
        try:
            return to_host(shims.import_dlpack(array.__dlpack__(), find_device("cpu").raw))
        except (BufferError, RuntimeError) as error:
            raise DTypeError(
                f"the array could not be read through DLPack: {refused}; {error}",
                mend="make it contiguous, convert it, or go through numpy.asarray",
            ) from error
