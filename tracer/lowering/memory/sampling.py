"""What a call takes while it runs, read again and again by a thread that ends with it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tracer.lowering.cpu import c_heap
from tracer.lowering.devices.device import Device

INTERVAL_SECONDS = 0.001


def sample_memory(run: Callable[[], object], device: Device) -> tuple[tuple[float, int], ...]:
    """Run a function and return the bytes that it takes above what was taken before.

    On a CPU these are of the resident memory of the process, what other threads take included.
    Freed blocks are given back first, as they would be used again unseen. Elsewhere they are those
    that the device's allocator has handed out.

    Parameters
    ----------
    run : callable
        Returns when its work is done.
    device : Device

    Returns
    -------
    tuple of (float, int)
        Seconds since the beginning, and bytes; the first and the last are of the time before and
        after the call.
    """
    read = _reading(device)
    start, before = time.perf_counter(), read()
    samples, is_done = [(0.0, 0)], threading.Event()

    def sample() -> None:
        while not is_done.wait(INTERVAL_SECONDS):
            samples.append((time.perf_counter() - start, read() - before))

    thread = threading.Thread(target=sample, name="tracer-sample-memory", daemon=True)
    thread.start()
    try:
        run()
    finally:
        is_done.set()
        thread.join()
    samples.append((time.perf_counter() - start, read() - before))
    return tuple(samples)


def _reading(device: Device) -> Callable[[], int]:
    if device.raw.memory_stats():
        return lambda: int(device.raw.memory_stats()["bytes_in_use"])
    if c_heap.IS_GLIBC:
        c_heap.trim()
    return c_heap.resident_bytes
