"""Know the highest memory of a while: of this process, or of a device."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

PAGE = os.sysconf("SC_PAGE_SIZE")
SAMPLING_SECONDS = 0.001


def resident_bytes() -> int:
    """Return this process's resident memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def mapped_bytes() -> int:
    """Return this process's address space now."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * PAGE


class Watch(Protocol):
    """Something that knows the highest memory since its start."""

    method: str

    def baseline(self) -> int:
        """Return the memory that is in use before the start."""

    def start(self) -> None:
        """Begin."""

    def peak(self) -> int:
        """Return the highest memory since the start."""

    def stop(self) -> None:
        """End."""


class DeviceCounter:
    """The counter of a device's allocator. It never falls: set-up should take less than a run."""

    method = "device counter"

    def __init__(self, device_bytes: Callable[[], tuple[int, int]]) -> None:
        self._device_bytes = device_bytes

    def baseline(self) -> int:
        """Return the bytes in use."""
        return self._device_bytes()[0]

    def start(self) -> None:
        """Do nothing: the device counts anyway."""

    def peak(self) -> int:
        """Return the highest bytes in use, ever."""
        return self._device_bytes()[1]

    def stop(self) -> None:
        """Do nothing."""


class HighWater:
    """The kernel's own high-water mark of resident memory, reset at the start: exact."""

    method = "high-water"

    @classmethod
    def works(cls) -> bool:
        """Tell whether this kernel lets the mark be reset; some sandboxes do not."""
        try:
            watch = cls()
            watch.start()
            return watch.peak() < resident_bytes() + 16 * 2**20
        except (OSError, LookupError):
            return False

    def baseline(self) -> int:
        """Return the resident memory."""
        return resident_bytes()

    def start(self) -> None:
        """Reset the mark to the memory that is resident now ("5": see man 5 proc)."""
        Path("/proc/self/clear_refs").write_text("5")

    def peak(self) -> int:
        """Return the highest resident memory since the start."""
        lines = Path("/proc/self/status").read_text().splitlines()
        marks = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
        return int(marks[0]) * 1024

    def stop(self) -> None:
        """Do nothing: the kernel keeps the mark anyway."""


class Sampler:
    """A thread that reads the resident memory every millisecond, for want of the mark."""

    method = "sampled"

    def __init__(self) -> None:
        self._done = threading.Event()
        self._peak = 0
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._done.wait(SAMPLING_SECONDS):
            self._peak = max(self._peak, resident_bytes())

    def baseline(self) -> int:
        """Return the resident memory."""
        return resident_bytes()

    def start(self) -> None:
        """Begin to sample."""
        self._thread.start()

    def peak(self) -> int:
        """Return the highest sample since the start."""
        return max(self._peak, resident_bytes())

    def stop(self) -> None:
        """End the thread."""
        self._done.set()
        self._thread.join()
