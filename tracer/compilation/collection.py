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
_active: list[tuple[int, int, int]] = []


@contextmanager
def rare_collection() -> Iterator[None]:
    """Run the collector rarely for a while, in all threads; nested uses count as one.

    Planning a Transformer's training step took 55 s of processor time with the collector's own
    thresholds, and 35 s without it.
    """
    with _LOCK:
        _active.append(gc.get_threshold())
        gc.set_threshold(_RARELY, *_active[0][1:])
    try:
        yield
    finally:
        with _LOCK:
            before = _active.pop()
            if not _active:
                gc.set_threshold(*before)
