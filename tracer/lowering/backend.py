"""Clients and the devices that they own. The only file that knows how to make a client."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracer.errors import DeviceError
from tracer.lowering.shims import OneDevice, xla_client


def _make_cpu_client() -> Any:
    """Make the CPU client in the form that keeps a memory limit over calls in a row.

    An asynchronous client frees a call's temporaries on a thread of its own, after the result is
    there, so the next call allocates a second block; and glibc keeps freed blocks of up to 32 MB
    in each thread's arena. Measured (docs/memory-model.md): 20 calls of a program planned to
    9.2 MB took 17 to 42 MB so, and 9.0 MB with a synchronous client that returns blocks at once.
    """
    _return_freed_blocks()
    _use_one_arena()
    return xla_client.make_cpu_client(asynchronous=False)


def _return_freed_blocks() -> None:
    """Have glibc map blocks of 1 MiB and more, so that freeing one gives it back at once."""
    mallopt = getattr(_LIBC, "mallopt", None)
    if mallopt is not None:  # another C library has other rules
        mallopt(_M_MMAP_THRESHOLD, 1 << 20)
        mallopt(_M_TRIM_THRESHOLD, 1 << 17)


def _use_one_arena() -> None:
    """Have XLA's threads allocate from one heap: each heap keeps the most that it ever held.

    Which thread packs for which product is chance: with a heap for each the same program took 18.7
    to 27.7 MB, and is no slower with one (docs/memory-model.md).
    """
    mallopt = getattr(_LIBC, "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)


@contextmanager
def blocks_kept(nbytes: int) -> Iterator[None]:
    """Let freed blocks of that size, at most 8 MiB, stay with glibc for a while; then give back.

    A library that packs operands into a new block for each product would wait for new pages in
    every trip of a loop: batched products took up to 7 times the processor's time so. Larger blocks
    go back at once: among small ones they leave gaps in the heap that nothing fits.
    """
    mallopt, trim = getattr(_LIBC, "mallopt", None), getattr(_LIBC, "malloc_trim", None)
    if mallopt is None or trim is None:
        yield
        return
    kept = min(_KEPT_BYTES, nbytes + _HEADER_BYTES)
    # Results of an earlier call, as large as what is kept, were in the heap: aligned requests of
    # the same size do not fit the gap that they left (glibc before 2.38).
    trim(0)
    mallopt(_M_MMAP_THRESHOLD, kept)
    mallopt(_M_TRIM_THRESHOLD, kept)
    try:
        yield
    finally:
        _return_freed_blocks()
        trim(0)


_LIBC = ctypes.CDLL(None)
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # malloc.h
_KEPT_BYTES, _HEADER_BYTES = 8 << 20, 4 << 10
_CLIENT_FACTORIES: dict[str, Callable[[], Any]] = {"cpu": _make_cpu_client}
"""How to make the client of each platform, in order of preference for the default device."""


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
    names = ", ".join(map(str, _devices()))
    raise DeviceError(f"there is no device {device!r}; found: {names}", mend=f"use one of {names}")


_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_USUAL_CACHE_BYTES = 32 << 20


def cache_bytes(device: Device | str | None = None) -> int:
    """Return the bytes of the largest cache of a device, which loops should stay within.

    On a CPU it is read from the machine (Linux); 32 MiB, a usual last-level cache and about an
    accelerator's, where it cannot be read.
    """
    if find_device(device).platform != "cpu":
        return _USUAL_CACHE_BYTES
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    sizes = []
    for file in _CACHES.glob("index*/size"):
        text = file.read_text(encoding="ascii").strip()
        sizes.append(int(text[:-1]) * units[text[-1]] if text[-1] in units else int(text))
    return max(sizes, default=_USUAL_CACHE_BYTES)


def core_count() -> int:
    """Return how many cores this process may use; XLA's CPU client starts as many threads."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
