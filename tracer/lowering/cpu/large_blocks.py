"""Keep blocks above 32 MiB in the heap from call to call, and give them back after a pause.

glibc maps such blocks and gives them back when they are freed, whatever its threshold, so each call
waits for new pages: a third of a training step of 4.6 GB (docs/memory-model.md). While a program
runs, no block is mapped. When no call has come for a second, everything is given back, including
what dropped results leave. jemalloc does the same (`dirty_decay_ms`,
https://jemalloc.net/jemalloc.3.html).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tracer.lowering.cpu import c_heap
from tracer.lowering.cpu.c_heap import LARGE_BLOCK_BYTES

PAUSE_SECONDS = 1.0
"""Blocks are given back when no large program has run for so long, and at most twice as long."""


class LargeBlocks:
    """The large blocks of the process's heap.

    Parameters
    ----------
    give_back : callable
        Gives freed memory back to the system, and makes glibc do so again at the heap's end.
    kept_bytes : callable
        Returns an upper bound of that.
    """

    def __init__(self, give_back: Callable[[], None], kept_bytes: Callable[[], int]) -> None:
        self._give_back, self._kept_bytes = give_back, kept_bytes
        self._lock = threading.RLock()
        self._watcher: threading.Thread | None = None
        self._running: set[object] = set()
        self._was_called = self._is_kept = False
        self._end = threading.Event()

    def stop(self) -> None:
        """Keep nothing from now on, and end the thread."""
        with self._lock:
            self._end.set()
        if self._watcher is not None:
            self._watcher.join()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Take all blocks from the heap, and leave them there, while a program runs."""
        call = object()
        try:
            with self._lock:
                if self._is_watched():
                    self._running.add(call)
                    self._is_kept = True
                    c_heap.map_nothing()
            yield
        finally:
            with self._lock:
                self._running.discard(call)
                self._was_called = True
                if not self._running:
                    # What others allocate between calls is mapped as usual.
                    c_heap.map_as_usual()

    def clear(self) -> None:
        """Give freed memory back now, if it is much and no program uses it."""
        if self._watcher is not None:  # Otherwise nothing was ever kept.
            with self._lock:
                self._look()

    def _is_watched(self) -> bool:
        """Start the thread that gives kept memory back; return whether it runs."""
        if self._end.is_set():
            return False
        if self._watcher is None:
            watcher = threading.Thread(target=self._watch, name="tracer-heap", daemon=True)
            try:
                watcher.start()
            except RuntimeError:  # No threads can be started any more, as when Python ends.
                return False
            self._watcher = watcher
        return True

    def _watch(self) -> None:
        """Give freed memory back when nothing has run for a while."""
        while not self._end.wait(PAUSE_SECONDS):
            with self._lock:
                if self._was_called:
                    self._was_called = False
                else:
                    self._look()

    def _look(self) -> None:
        if not self._running and (self._is_kept or self._kept_bytes() > LARGE_BLOCK_BYTES):
            self._give_back()
            self._is_kept = False
