"""Programs of known appetite, which the tests of benchmarks/measure.py run in a child."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.measure import address_space
from benchmarks.unavailable import Unavailable

Run = Callable[[], Any]


def allocate(megabytes: int, before: int = 0) -> Run:
    """Touch memory in the run; `before` megabytes are used and freed in set-up."""
    np.ones(before * 125_000).sum()
    return lambda: np.ones(megabytes * 125_000)


def spike(megabytes: int) -> Run:
    """Touch memory for a moment and give it back."""

    def run() -> float:
        return float(np.ones(megabytes * 125_000).sum())

    return run


def use_again(megabytes: int) -> Run:
    """Touch small blocks in the run, as many as set-up has freed below one that it keeps."""
    blocks = [bytearray(64_000) for _ in range(megabytes * 15)]
    kept = bytearray(64_000)
    del blocks
    return lambda: [bytearray(64_000) for _ in range(megabytes * 15)] + [kept]


def leak(megabytes: int) -> Run:
    """Keep the memory of every run."""
    kept: list[Any] = []
    return lambda: kept.append(np.ones(megabytes * 125_000))


def keep_in_pieces(megabytes: int) -> Run:
    """Free many small pieces in set-up: malloc would keep them for the run."""
    pieces = [bytearray(50_000) for _ in range(megabytes * 20)]
    del pieces
    return lambda: [bytearray(50_000) for _ in range(megabytes * 20)]


def sleep(seconds: float) -> Run:
    """Take a known time."""
    return lambda: time.sleep(seconds)


def talkative() -> Run:
    """Print on both streams, from Python and from C."""
    os.write(1, b"set-up\n")
    return lambda: sys.stdout.write("running\n")


def crash() -> Run:
    """Read a null pointer."""
    return lambda: ctypes.string_at(0)


def kill() -> Run:
    """Die as the out-of-memory killer would have it."""
    return lambda: os.kill(os.getpid(), 9)


def raises(message: str) -> Run:
    """Raise what XLA raises."""

    def run() -> None:
        raise RuntimeError(message)

    return run


class Told:
    """A run with a report, and with a device's counter if there is one."""

    def __init__(self, seconds: float = 0) -> None:
        self.seconds = seconds
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1
        time.sleep(self.seconds)

    def report(self) -> Any:
        """Return how often it ran."""
        return self.calls


def counted(seconds: float) -> Run:
    """Count the runs."""
    return Told(seconds)


def reports(value: Any) -> Run:
    """Report a value."""
    run = Told()
    run.report = lambda: value  # type: ignore[method-assign]
    return run


def too_large_in_set_up() -> Run:
    """Run under a cap in set-up already."""
    with address_space(100_000_000):
        np.ones(50_000_000)
    return lambda: None


def on_a_device(in_use: int, highest: int) -> Run:
    """Run on a device that counts its bytes."""
    run = Told()
    run.device_bytes = lambda: (in_use, highest)  # type: ignore[attr-defined]
    return run


def missing() -> Run:
    """Need what is not here."""
    raise Unavailable("there is no such accelerator")
