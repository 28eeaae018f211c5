"""How the host's C library keeps or returns the blocks that XLA:CPU allocates."""

from __future__ import annotations

import ctypes
import os
import resource
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

from tracer.lowering.shims import PACKS_INTO_ALIGNED_BLOCKS

_LIBC = ctypes.CDLL(None)
_MALLOC = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(("malloc", _LIBC))
_FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(("free", _LIBC))
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # malloc.h
_KEPT_BYTES, _HEADER_BYTES = 8 << 20, 4 << 10
# What glibc keeps at most by itself; larger blocks are mapped and given back at once.
_KEPT_WITH_LIMIT_BYTES = 32 << 20
# Freed blocks that are used no more may take this share of a program's peak: predictions of memory
# are to hold for calls in a row too.
_WASTE = 1 / 12
_PAGE = resource.getpagesize()
_NO_CACHES = "glibc.malloc.tcache_count=0"
LARGE_BYTES = 1 << 16
"""Smaller blocks find a place anywhere."""
# By so much more glibc asks of its heap to align a block to 64 bytes (`_int_memalign`).
_ALIGNING_BYTES = 112
# Of `_merge_freed`: requests of the sizes that are cut off, and what glibc has for them.
_CUT_OFF_SIZES, _CACHED_BLOCKS, _MERGING_BYTES = (24, 40, 56, 72, 88), 7, 70_000
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


@cache
def warn_of_gaps() -> None:
    """Say once that limits of CPU programs may be missed, where that is so (docs/devices.md).

    From jaxlib 0.11 on YNNPACK packs into aligned blocks. What glibc cuts off of each stays in the
    cache of a thread, and in the way of the next; only the environment can switch these caches off.
    """
    if PACKS_INTO_ALIGNED_BLOCKS and _NO_CACHES not in os.environ.get("GLIBC_TUNABLES", ""):
        warnings.warn(
            "programs with many products may take some megabytes more than memory_limit with this "
            f"jaxlib: set GLIBC_TUNABLES={_NO_CACHES} in the environment before Python starts, or "
            "use jaxlib 0.10.2",
            RuntimeWarning,
            stacklevel=2,
        )


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
        _HEAP.set_thresholds()
        trim(0)


@dataclass(frozen=True)
class Needs:
    """What a call of a program allocates.

    Attributes
    ----------
    nbytes : int
        Results, temporaries and what libraries pack.
    blocks : tuple of int
        The larger ones in the order in which they are asked for: XLA's one block of temporaries,
        results, and what libraries pack.
    packed_bytes : int
        The largest block that a library allocates for one product.
    peak_bytes : int
        The whole program's, with the arguments.
    """

    nbytes: int
    blocks: tuple[int, ...]
    packed_bytes: int
    peak_bytes: int


class _Heap:
    """The process's one heap: whether freed blocks stay in it from call to call."""

    def __init__(self) -> None:
        self.keeps = False
        self._lock = threading.Lock()
        self._lean_bytes = 0
        """Resident memory when freed blocks were last given back."""

    def keep(self) -> None:
        """Keep freed blocks from now on."""
        if not self.keeps:
            self.keeps = True
            self.set_thresholds()

    def set_thresholds(self) -> None:
        """Tell glibc what to keep; another thread may have begun to keep blocks meanwhile."""
        if self.keeps:
            _LIBC.mallopt(_M_MMAP_THRESHOLD, _KEPT_WITH_LIMIT_BYTES)
            _LIBC.mallopt(_M_TRIM_THRESHOLD, 2 * _KEPT_WITH_LIMIT_BYTES)
        else:
            return_freed_blocks()

    def make_room(self, needs: Needs, room: float) -> None:
        """Keep freed blocks if a program will use them again, else give them back.

        Parameters
        ----------
        needs : Needs
            What the program allocates.
        room : float
            The bytes of its limit that the program does not need.
        """
        with self._lock:
            self.keep()
            if self._wasted(needs) <= min(room, needs.peak_bytes * _WASTE):
                return
            _merge_freed()
            if self._wasted(needs) > min(room, needs.peak_bytes * _WASTE):
                _LIBC.malloc_trim(0)
                self._lean_bytes = _resident_bytes()

    def _wasted(self, needs: Needs) -> int:
        """Return the bytes above what it allocates that a program would make resident now."""
        kept = _resident_bytes() - self._lean_bytes
        return kept + _new_bytes(needs.blocks) - needs.nbytes


_HEAP = _Heap()


def _resident_bytes() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * _PAGE


def _new_bytes(blocks: tuple[int, ...]) -> int:
    """Return the bytes of new pages that blocks would take, if they are asked for in this order."""
    found = [_MALLOC(nbytes + _ALIGNING_BYTES) for nbytes in blocks]
    new = sum(map(_absent_bytes, found, blocks))
    for block in reversed(found):
        _FREE(block)
    return new


def _absent_bytes(address: int | None, nbytes: int) -> int:
    """Return how much of a block is not resident."""
    if address is None:
        return nbytes
    start = address - address % _PAGE
    pages = (nbytes + address - start + _PAGE - 1) // _PAGE
    found = (ctypes.c_ubyte * pages)()
    _LIBC.mincore(ctypes.c_void_p(start), ctypes.c_size_t(pages * _PAGE), found)
    return bytes(found).count(0) * _PAGE


def _merge_freed() -> None:
    """Have glibc merge small freed blocks with their neighbours.

    An aligned block is cut from a larger one, and what is cut off, at most 96 bytes, is freed into
    the thread's cache, which merges nothing: after the block is freed a request of the same size
    does not fit there, and the next set of temporaries would be new pages. So the cache, which
    holds 7 blocks of a size, is emptied and filled with others; then the rest is merged when a
    block above 64 KiB is freed (glibc 2.26 and later, `malloc/malloc.c`: `_int_memalign`,
    `_int_free`).
    """
    for size in _CUT_OFF_SIZES:
        for block in reversed([_MALLOC(size) for _ in range(2 * _CACHED_BLOCKS)]):
            _FREE(block)
    _FREE(_MALLOC(_MERGING_BYTES))


@contextmanager
def heap_for(needs: Needs, room: float | None) -> Iterator[None]:
    """Run a program with the heap that its limit allows.

    New pages cost more than what is computed on them in small programs: a training step that takes
    4.6 MB took 0.4 times the time with blocks that stay in the heap from call to call. They stay if
    the next call will use them again.

    Parameters
    ----------
    needs : Needs
        What the program allocates.
    room : float or None
        The bytes of its limit that the program does not need, infinite without a limit; None where
        the heap shall stay as other programs left it.
    """
    if not (hasattr(_LIBC, "mallopt") and hasattr(_LIBC, "malloc_trim")):
        yield  # Another C library has other rules.
        return
    if room is not None:
        _HEAP.make_room(needs, room)
    if needs.packed_bytes >= NEW_PAGES_BYTES and not _HEAP.keeps:
        with blocks_kept(needs.packed_bytes):
            yield
    else:
        yield
