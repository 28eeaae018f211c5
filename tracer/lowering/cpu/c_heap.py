"""The heap of the host's C library (glibc): settings, counts, and freed blocks.

The only file that calls mallopt and malloc_trim.
"""

from __future__ import annotations

import ctypes
import resource
from dataclasses import dataclass

LIBC = ctypes.CDLL(None)
MALLOC = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(("malloc", LIBC))
FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(("free", LIBC))
LARGE_BLOCK_BYTES = 32 << 20
"""glibc keeps no larger ones unasked (`HEAP_MAX_SIZE / 2` in malloc/malloc.c)."""
PAGE_BYTES = resource.getpagesize()
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -3, -4, -8  # malloc.h
# DEFAULT_MMAP_MAX, DEFAULT_MMAP_THRESHOLD and DEFAULT_TRIM_THRESHOLD in malloc/malloc.c.
_NEVER, _USUAL_MAPPED_BLOCKS, _USUAL_THRESHOLD = -1, 65536, 128 << 10
_AS_MANY_AS_USUAL = 0


class _Count(ctypes.Structure):
    """The `struct mallinfo2` of malloc.h."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
            "fordblks", "keepcost",
        )
    )  # fmt: skip


IS_GLIBC = hasattr(LIBC, "mallopt") and hasattr(LIBC, "malloc_trim")
COUNTS = IS_GLIBC and hasattr(LIBC, "mallinfo2")
"""Whether the library says what it holds (glibc 2.33)."""
if COUNTS:
    LIBC.mallinfo2.restype = _Count


@dataclass(frozen=True)
class Usage:
    """What the heap holds, in bytes; all zero if the library does not say.

    Attributes
    ----------
    used_bytes, freed_bytes : int
        Blocks of the heap that are in use, and free ones, with and without pages.
    mapped_bytes : int
        Blocks that are mapped one by one.
    """

    used_bytes: int = 0
    freed_bytes: int = 0
    mapped_bytes: int = 0


def usage() -> Usage:
    """Return what the heap holds now."""
    if not COUNTS:
        return Usage()
    found = LIBC.mallinfo2()
    return Usage(found.uordblks, found.fordblks, found.hblkhd)


def set_thresholds(mapped_bytes: int, trimmed_bytes: int) -> None:
    """Set the size from which blocks are mapped, and how much may be free at the heap's end."""
    if IS_GLIBC:
        LIBC.mallopt(_M_MMAP_THRESHOLD, mapped_bytes)
        LIBC.mallopt(_M_TRIM_THRESHOLD, trimmed_bytes)


def map_nothing() -> None:
    """Take blocks of every size from the heap, and give none of it back."""
    LIBC.mallopt(_M_MMAP_MAX, 0)
    LIBC.mallopt(_M_TRIM_THRESHOLD, _NEVER)


def map_as_usual() -> None:
    """Map large blocks again; the heap's end stays until the thresholds are set."""
    LIBC.mallopt(_M_MMAP_MAX, _USUAL_MAPPED_BLOCKS)


def use_defaults() -> None:
    """Restore glibc's initial settings.

    Two things do not come back: glibc adapts its thresholds to what is freed until somebody sets
    one, and counts the heaps that there may be once, when a thread first asks for another.
    """
    if IS_GLIBC:
        map_as_usual()
        set_thresholds(_USUAL_THRESHOLD, _USUAL_THRESHOLD)
        LIBC.mallopt(_M_ARENA_MAX, _AS_MANY_AS_USUAL)


def trim() -> None:
    """Give all freed pages back to the system."""
    LIBC.malloc_trim(0)


def use_one_arena() -> None:
    """Make XLA's threads allocate from one heap: each heap keeps the most that it ever held.

    Which thread packs for which product is chance: with a heap for each the same program took 18.7
    to 27.7 MB, and is no slower with one (docs/memory-model.md).
    """
    if IS_GLIBC:
        LIBC.mallopt(_M_ARENA_MAX, 1)


def resident_bytes() -> int:
    """Return the resident memory of this process."""
    return _statm(1)


def address_room() -> float:
    """Return how much address space the process may still take; infinite without a limit."""
    limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    set_ = [limit for limit in limits if limit != resource.RLIM_INFINITY]
    return min(set_) - _statm(0) if set_ else float("inf")


def _statm(column: int) -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[column]) * PAGE_BYTES
