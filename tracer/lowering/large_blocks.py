"""Blocks above 32 MiB stay in the heap from call to call too, and go back after a pause.

glibc maps such blocks and gives them back when they are freed, whatever its threshold, so each call
waits for new pages: a third of a training step of 4.6 GB (docs/memory-model.md). While a program
runs no block is mapped; when no call has come for a second the rest is given back, as jemalloc's
decay does (its `dirty_decay_ms`, https://jemalloc.net/jemalloc.3.html), also what results leave
when they are dropped later.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LARGE_BLOCK_BYTES = 32 << 20
"""glibc keeps no larger ones by itself (`HEAP_MAX_SIZE / 2` in malloc/malloc.c)."""
PAUSE_SECONDS = 1.0
"""Blocks are given back when no large program has run for so long, and at most twice as long."""
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # malloc.h
_NEVER, _USUAL_MAPPED_BLOCKS = -1, 65536  # DEFAULT_MMAP_MAX in malloc/malloc.c


class _Count(ctypes.Structure):
    """The `struct mallinfo2` of malloc.h (glibc 2.33)."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
            "fordblks", "keepcost",
        )
    )  # fmt: skip


class LargeBlocks:
    """The large blocks of the process's heap.

    Parameters
    ----------
    give_back : callable
        Gives what is freed back to the system, and has glibc do so again at the heap's end.
    """

    def __init__(self, give_back: Callable[[], None]) -> None:
        self._libc = ctypes.CDLL(None)
        self._give_back = give_back
        self._lock = threading.Lock()
        self._watcher: threading.Thread | None = None
        self._running = 0
        self._was_called = False
        self._used_at_first = self._freed_at_last = 0
        self.can_stay = hasattr(self._libc, "mallinfo2") and hasattr(self._libc, "mallopt")
        if self.can_stay:
            self._libc.mallinfo2.restype = _Count

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Take all blocks from the heap, and leave them there, while a program runs."""
        with self._lock:
            self._running += 1
            self._libc.mallopt(_M_MMAP_MAX, 0)
            self._libc.mallopt(_M_TRIM_THRESHOLD, _NEVER)
            self._watch()
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1
                self._was_called = True
                if not self._running:
                    # What others allocate between calls is mapped and given back as ever.
                    self._libc.mallopt(_M_MMAP_MAX, _USUAL_MAPPED_BLOCKS)

    def used_bytes(self) -> int:
        """Return what the heap's blocks in use hold; 0 where the C library does not say."""
        return int(self._libc.mallinfo2().uordblks) if self.can_stay else 0

    def _watch(self) -> None:
        if self._watcher is None:
            self._used_at_first = self.used_bytes()
            self._watcher = threading.Thread(
                target=self._give_back_after_pauses, name="tracer-heap", daemon=True
            )
            self._watcher.start()

    def _give_back_after_pauses(self) -> None:
        """Give back what is freed, until the heap holds no large blocks any more."""
        is_kept = True
        while True:
            time.sleep(PAUSE_SECONDS)
            with self._lock:
                if self._running or self._was_called:
                    self._was_called, is_kept = False, True
                    continue
                found = self._libc.mallinfo2()
                if is_kept or found.fordblks > self._freed_at_last + LARGE_BLOCK_BYTES:
                    self._give_back()
                    is_kept, self._freed_at_last = False, self._libc.mallinfo2().fordblks
                if found.uordblks <= self._used_at_first + LARGE_BLOCK_BYTES:
                    self._watcher = None
                    return
