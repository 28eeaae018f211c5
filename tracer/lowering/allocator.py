"""How the host's C library keeps or returns the blocks that XLA:CPU allocates."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

_LIBC = ctypes.CDLL(None)
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # malloc.h
_KEPT_BYTES, _HEADER_BYTES = 8 << 20, 4 << 10


def return_freed_blocks() -> None:
    """Have glibc map blocks of 1 MiB and more, so that freeing one gives it back at once."""
    mallopt = getattr(_LIBC, "mallopt", None)
    if mallopt is not None:  # another C library has other rules
        mallopt(_M_MMAP_THRESHOLD, 1 << 20)
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
