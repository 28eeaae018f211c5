"""Clients, devices and the way of data to and from them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracer.errors import DeviceError, DTypeError
from tracer.ir.types import SUPPORTED_DTYPES, as_dtype
from tracer.lowering import shims
from tracer.lowering.failures import execution_failure
from tracer.lowering.shims import Buffer, OneDevice, XlaError, xla_client

_CLIENT_FACTORIES: dict[str, Callable[[], Any]] = {"cpu": xla_client.make_cpu_client}
"""How to make the client of each platform, in order of preference for the default device."""
_EXTRAS = {"gpu": "tracer[cuda]", "cuda": "tracer[cuda]", "tpu": "tracer[tpu]"}


@dataclass(frozen=True)
class Device:
    """One device that programs can run on.

    Attributes
    ----------
    platform : str
        "cpu", "gpu" or "tpu".
    id : int
        Its number on the platform.
    kind : str
        The maker's name for it.

    Examples
    --------
    >>> from tracer import lowering
    >>> str(lowering.devices()[0])
    'cpu:0'
    """

    platform: str
    id: int
    kind: str = field(compare=False)
    raw: Any = field(compare=False, repr=False)
    sharding: OneDevice = field(compare=False, repr=False)

    @property
    def client(self) -> Any:
        """The XLA client that owns the device."""
        return self.raw.client

    def __str__(self) -> str:
        return f"{self.platform}:{self.id}"


class _Devices:
    """The devices of this process, found when first asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: tuple[Device, ...] | None = None

    def __call__(self) -> tuple[Device, ...]:
        if self._found is None:
            with self._lock:
                if self._found is None:
                    self._found = tuple(
                        Device(platform, raw.id, raw.device_kind, raw, OneDevice(raw))
                        for platform, make_client in _CLIENT_FACTORIES.items()
                        for raw in make_client().local_devices()
                    )
        return self._found


_devices = _Devices()


def devices(platform: str | None = None) -> list[Device]:
    """Return the devices of this process.

    Parameters
    ----------
    platform : str, optional
        Only those of one platform.

    Returns
    -------
    list of Device
        The default device first.
    """
    return [d for d in _devices() if platform is None or d.platform == platform]


def default_device() -> Device:
    """Return the device that is used when none is named."""
    return _devices()[0]


def find_device(device: Device | str | None) -> Device:
    """Return a device by its name.

    Parameters
    ----------
    device : Device or str or None
        Such as "cpu" (the first one) or "cpu:0"; None is the default device.

    Raises
    ------
    DeviceError
        There is no such device; the message names those that there are.
    """
    if isinstance(device, Device):
        return device
    if device is None:
        return default_device()
    for found in _devices():
        if device in (str(found), found.platform):
            return found
    platform = str(device).partition(":")[0]
    extra = _EXTRAS.get(platform)
    install = f', or install the support for it: pip install "{extra}"' if extra else ""
    names = ", ".join(map(str, _devices()))
    raise DeviceError(
        f"there is no device {device!r}; found: {names}", mend=f"use one of {names}{install}"
    )


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
    ExecutionError
        The device is out of memory.
    """
    if array.dtype not in SUPPORTED_DTYPES:
        # Big-endian arrays would be taken as they are, without an error and with wrong numbers.
        array = array.astype(as_dtype(array.dtype))
    place = default_device() if device is None else device
    try:
        return shims.put(array, place.sharding, place.raw)
    except XlaError as error:
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
    try:
        array: np.ndarray[Any, Any] = buffer._single_device_array_to_np_array_did_copy()[0]
    except (XlaError, RuntimeError) as error:
        raise execution_failure(error) from error
    array.flags.writeable = False
    return array


def to_dlpack(buffer: Buffer) -> Any:
    """Return a DLPack capsule that shares the buffer's memory.

    Raises
    ------
    DonatedArrayError
        The buffer was donated.
    DTypeError
        DLPack has no such dtype.
    """
    try:
        return shims.export_dlpack(buffer)
    except (XlaError, RuntimeError) as error:
        if "UNIMPLEMENTED" in str(error):
            raise DTypeError(
                f"the array cannot be shared through DLPack: {error}",
                mend="convert it with astype, or go through numpy.asarray",
            ) from error
        raise execution_failure(error) from error


def from_dlpack(array: Any, device: Device | None = None) -> Buffer:
    """Copy an array of another library to a device.

    Parameters
    ----------
    array : object
        Has `__dlpack__`; its memory must be readable from the host.
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
    """
    if isinstance(array, np.ndarray):
        return to_device(array, device)
    if not hasattr(array, "__dlpack__"):
        raise DTypeError(
            f"{type(array).__name__} has no __dlpack__",
            mend="give an array of a library that supports DLPack, or numpy.asarray(it)",
        )
    try:
        shared = shims.import_dlpack(array.__dlpack__(), find_device("cpu").raw)
    except (XlaError, RuntimeError, BufferError) as error:
        raise DTypeError(
            f"the array could not be read through DLPack: {error}",
            mend="move it to the host and make it contiguous, or go through numpy.asarray",
        ) from error
    return to_device(to_host(shared), device)


def free_bytes(device: Device | None = None) -> int:
    """Return the bytes that are free on a device now.

    Notes
    -----
    On CPU the smaller of the machine's available memory and what is left of the limit of the
    control group (a container's limit).
    """
    place = default_device() if device is None else device
    stats = place.raw.memory_stats()
    if stats:
        return int(stats["bytes_limit"]) - int(stats["bytes_in_use"])
    return _free_host_bytes()


def _free_host_bytes() -> int:
    pages = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    candidates = [_meminfo().get("MemAvailable", pages)]
    for limit, usage, statistics, cache in _CONTROL_GROUPS:
        allowed, used = _read_number(limit), _read_number(usage)
        if allowed is not None and used is not None:
            reclaimable = _read_table(statistics).get(cache, 0)
            candidates.append(max(0, allowed - used + reclaimable))
    return min(candidates)


# Version 2 first, then version 1. Inactive file pages are counted as used but given back on demand.
_CONTROL_GROUPS = (
    (
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory.current",
        "/sys/fs/cgroup/memory.stat",
        "inactive_file",
    ),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        "/sys/fs/cgroup/memory/memory.stat",
        "total_inactive_file",
    ),
)


def _lines(path: str) -> list[list[str]]:
    if not os.path.exists(path):
        return []
    with open(path, encoding="ascii") as file:
        return [line.split() for line in file]


def _read_number(path: str) -> int | None:
    lines = _lines(path)
    # A group without a limit says "max".
    return int(lines[0][0]) if lines and lines[0][0].isdigit() else None


def _read_table(path: str) -> dict[str, int]:
    return {words[0]: int(words[1]) for words in _lines(path)}


def _meminfo() -> dict[str, int]:
    return {words[0].rstrip(":"): 1024 * int(words[1]) for words in _lines("/proc/meminfo")}
