"""Run Python's cyclic garbage collector less often while a program is planned.

The thresholds belong to the whole process, so only `tracer.tune_host_allocator` asks for this.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# New objects between two runs: a planner makes millions, nearly all of which reference counts free.
_RARELY = 1_000_000
_LOCK = threading.Lock()
_active: set[object] = set()
"""A token for each use."""
_before: list[tuple[int, int, int]] = []
"""The thresholds before the first use; after an interrupt the next use may give them back."""


@contextmanager
def rare_collection() -> Iterator[None]:
    """Run the collector rarely for a while, in all threads; nested uses count as one.

    Planning a Transformer's training step took 55 s of processor time with the collector's own
    thresholds, and 35 s without it.
    """
    use = object()
    try:  # Before anything is changed: an interrupt may come at once.
        with _LOCK:
            if not _active and not _before:
                _before.append(gc.get_threshold())
            _active.add(use)
            gc.set_threshold(_RARELY, *_before[0][1:])
        yield
    finally:
        with _LOCK:
            _active.discard(use)
            if not _active and _before:
                gc.set_threshold(*_before[0])
                _before.clear()
