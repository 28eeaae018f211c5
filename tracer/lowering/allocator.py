"""How the host's C library keeps or returns the blocks that XLA:CPU allocates."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache

from tracer.lowering.freed_blocks import LIBC, Places, merge_freed, resident_bytes
from tracer.lowering.host_memory import free_host_bytes
from tracer.lowering.large_blocks import LARGE_BLOCK_BYTES, LargeBlocks
from tracer.lowering.shims import PACKS_INTO_ALIGNED_BLOCKS

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # malloc.h
_KEPT_BYTES, _HEADER_BYTES = 8 << 20, 4 << 10
# Freed blocks that are used no more may take this share of a program's peak: predictions of memory
# are to hold for calls in a row too.
_WASTE = 1 / 12
# Of the memory that is free: others may want it between two calls.
_KEPT_SHARE = 1 / 4
_NO_CACHES = "glibc.malloc.tcache_count=0"
LARGE_BYTES = 1 << 16
"""Smaller blocks find a place anywhere."""
NEW_PAGES_BYTES = 1 << 20
"""Blocks of this size are given back to the system when they are freed (`return_freed_blocks`)."""


def return_freed_blocks() -> None:
    """Have glibc map blocks of 1 MiB and more, so that freeing one gives it back at once."""
    mallopt = getattr(LIBC, "mallopt", None)
    if mallopt is not None:  # another C library has other rules
        mallopt(_M_MMAP_THRESHOLD, NEW_PAGES_BYTES)
        mallopt(_M_TRIM_THRESHOLD, 1 << 17)


def use_one_arena() -> None:
    """Have XLA's threads allocate from one heap: each heap keeps the most that it ever held.

    Which thread packs for which product is chance: with a heap for each the same program took 18.7
    to 27.7 MB, and is no slower with one (docs/memory-model.md).
    """
    mallopt = getattr(LIBC, "mallopt", None)
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
    mallopt, trim = getattr(LIBC, "mallopt", None), getattr(LIBC, "malloc_trim", None)
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

    @property
    def is_large(self) -> bool:
        """Whether there are blocks that glibc does not keep by itself."""
        return max(self.blocks, default=0) > LARGE_BLOCK_BYTES


class _Heap:
    """The process's one heap: whether freed blocks stay in it from call to call."""

    def __init__(self) -> None:
        self.keeps = False
        self._lock = threading.Lock()
        self._lean_bytes = 0
        """Resident memory when freed blocks were last given back."""
        self._large = LargeBlocks(self.give_back)
        self._lean_used_bytes = 0
        """What of that memory blocks held that were in use."""

    def keep(self) -> None:
        """Keep freed blocks from now on."""
        if not self.keeps:
            self.keeps = True
            self.set_thresholds()

    def set_thresholds(self) -> None:
        """Tell glibc what to keep; another thread may have begun to keep blocks meanwhile."""
        if self.keeps:
            LIBC.mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
            LIBC.mallopt(_M_TRIM_THRESHOLD, 2 * LARGE_BLOCK_BYTES)
        else:
            return_freed_blocks()

    @contextmanager
    def ready(self, needs: Needs, room: float) -> Iterator[None]:
        """Run a program with what was freed before it, as far as its limit has room for that."""
        self.keep()
        is_large = self._keeps_large(needs)
        with self._large.kept() if is_large else nullcontext():
            if is_large:
                merge_freed()
            places = self.make_room(needs, room)
            try:
                yield
            finally:
                places.release()

    def _keeps_large(self, needs: Needs) -> bool:
        """Return whether a program has large blocks that may stay till the next call."""
        if not (needs.is_large and self._large.can_stay):
            return False
        kept = max(0, resident_bytes() - self._lean_bytes)
        return needs.nbytes <= _KEPT_SHARE * (free_host_bytes() + kept)

    def give_back(self) -> None:
        """Give all freed blocks back to the system."""
        with self._lock:
            self.set_thresholds()
            self._trim(Places(()))

    def _trim(self, places: Places) -> None:
        """Give back what is freed, except what a program's blocks are about to take."""
        LIBC.malloc_trim(0)
        self._lean_bytes = resident_bytes() - places.resident_bytes
        self._lean_used_bytes = self._large.used_bytes() - places.held_bytes

    def make_room(self, needs: Needs, room: float) -> Places:
        """Keep freed blocks that a program will use again; give the others back if they are many.

        Parameters
        ----------
        needs : Needs
            What the program allocates.
        room : float
            The bytes of its limit that the program does not need.

        Returns
        -------
        Places
            To be released when the program has run.
        """
        with self._lock:
            self.keep()
            most = min(room, needs.peak_bytes * _WASTE)
            places = Places(needs.blocks)
            if self._wasted(needs, places) > most:
                places.release()
                merge_freed()
                places = Places(needs.blocks)
                if self._wasted(needs, places) > most:
                    if not needs.is_large:
                        # Small ones are cheap, and lie elsewhere once libraries pack between them.
                        places.release()
                    self._trim(places)
            places.free()
            return places

    def _wasted(self, needs: Needs, places: Places) -> int:
        """Return the bytes above what it allocates that a program would make resident now."""
        kept = resident_bytes() - self._lean_bytes
        if needs.is_large:
            # Else results that are still in use would count as kept, and all be given back.
            used = self._large.used_bytes() - places.held_bytes
            kept -= used - self._lean_used_bytes
        return kept + places.new_bytes - needs.nbytes


_HEAP = _Heap()


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
    if not (hasattr(LIBC, "mallopt") and hasattr(LIBC, "malloc_trim")):
        yield  # Another C library has other rules.
        return
    if room is not None:
        with _HEAP.ready(needs, room):
            yield
    elif needs.packed_bytes >= NEW_PAGES_BYTES and not _HEAP.keeps:
        with blocks_kept(needs.packed_bytes):
            yield
    else:
        yield
