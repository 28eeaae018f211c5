"""How the host's C library keeps or returns the blocks that XLA:CPU allocates."""

from __future__ import annotations

import ctypes
import math
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_LIBC = ctypes.CDLL(None)
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # malloc.h
_KEPT_BYTES, _HEADER_BYTES = 8 << 20, 4 << 10
# What glibc keeps at most by itself; larger blocks are mapped and given back at once.
_KEPT_WITH_ROOM_BYTES = 32 << 20
NEW_PAGES_BYTES = 1 << 20
"""Blocks of this size are given back to the system when they are freed (`return_freed_blocks`)."""


def return_freed_blocks() -> None:
    """Have glibc map blocks of 1 MiB and more, so that freeing one gives it back at once."""
    mallopt = getattr(_LIBC, "mallopt", None)
    if mallopt is not None:  # another C library has other rules
        mallopt(_M_MMAP_THRESHOLD, NEW_PAGES_BYTES)
        mallopt(_M_TRIM_THRESHOLD, 1 << 17)


def use_one_arena() -> None:
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
    mallopt(_M_MMAP_THRESHOLD, kept)
    mallopt(_M_TRIM_THRESHOLD, kept)
    try:
        yield
    finally:
        return_freed_blocks()
        trim(0)


class _Heap:
    """The process's one heap: whether freed blocks stay in it from call to call."""

    def __init__(self) -> None:
        self.keeps = False
        self._lock = threading.Lock()
        self._lean_bytes = 0
        """Resident memory when freed blocks were last given back."""

    def keep(self, room: float) -> None:
        """Keep freed blocks; first give them back where there may be more than `room` bytes."""
        with self._lock:
            if not self.keeps:
                _LIBC.mallopt(_M_MMAP_THRESHOLD, _KEPT_WITH_ROOM_BYTES)
                _LIBC.mallopt(_M_TRIM_THRESHOLD, 2 * _KEPT_WITH_ROOM_BYTES)
                self.keeps = True
                self._lean_bytes = 0
            if room < math.inf and _resident_bytes() - self._lean_bytes > room:
                _LIBC.malloc_trim(0)
                self._lean_bytes = _resident_bytes()

    def give_back(self) -> None:
        """Give freed blocks back, now and from now on."""
        with self._lock:
            if self.keeps:
                self.keeps = False
                return_freed_blocks()
                _LIBC.malloc_trim(0)


_HEAP = _Heap()


def _resident_bytes() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def heap_for(nbytes: int, packed_bytes: int, room: float | None) -> Iterator[None]:
    """Run a program with the heap that its limit allows.

    New pages cost more than what is computed on them in small programs: a training step that takes
    4.6 MB took 0.4 times the time with blocks that stay in the heap from call to call. They may
    stay where the program's limit has room for a second set of them, and without a limit.

    Parameters
    ----------
    nbytes : int
        What the program allocates.
    packed_bytes : int
        Of this, the largest block that a library allocates for one product.
    room : float or None
        The bytes of its limit that the program does not need, infinite without a limit; None where
        the heap shall stay as other programs left it.
    """
    if not (hasattr(_LIBC, "mallopt") and hasattr(_LIBC, "malloc_trim")):
        yield  # Another C library has other rules.
        return
    if room is not None and room >= nbytes:
        _HEAP.keep(room)
    elif room is not None:
        _HEAP.give_back()
    if packed_bytes >= NEW_PAGES_BYTES and not _HEAP.keeps:
        with blocks_kept(packed_bytes):
            yield
    else:
        yield
