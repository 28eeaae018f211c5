"""Which freed blocks of XLA:CPU the host's C library keeps, and which it gives back.

In force only while `tracer.tune_host_allocator` is on (`host_allocator.py`).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from tracer.lowering.cpu import c_heap
from tracer.lowering.cpu.c_heap import LARGE_BLOCK_BYTES
from tracer.lowering.cpu.freed_blocks import Places, merge_freed
from tracer.lowering.cpu.large_blocks import LargeBlocks
from tracer.target import free_bytes

_KEPT_BYTES, _HEADER_BYTES = 8 << 20, 4 << 10
# Freed blocks that are used no more may take this share of a program's peak: predictions of memory
# are to hold for calls in a row too.
_WASTE = 1 / 12
# Of the memory that is free: others may want it between two calls.
_KEPT_SHARE = 1 / 3
# Of a limited address space a program whose blocks are kept may need so many times its blocks.
_ADDRESSES = 3
LARGE_BYTES = 1 << 16
"""Smaller blocks find a place anywhere."""
NEW_PAGES_BYTES = 1 << 20
"""Blocks of this size are given back to the system when they are freed (`return_freed_blocks`)."""


def return_freed_blocks() -> None:
    """Make glibc map blocks of 1 MiB and more, so that freeing one gives it back at once."""
    c_heap.set_thresholds(NEW_PAGES_BYTES, 1 << 17)


@contextmanager
def blocks_kept(nbytes: int) -> Iterator[None]:
    """Let glibc keep freed blocks of that size, at most 8 MiB, for a while; then give them back.

    A library that packs operands into a new block for each product would wait for new pages in
    every trip of a loop: batched products took up to 7 times the processor's time so. Larger blocks
    go back at once: among small ones they leave gaps in the heap that nothing fits.
    """
    kept = min(_KEPT_BYTES, nbytes + _HEADER_BYTES)
    c_heap.set_thresholds(kept, kept)
    try:
        yield
    finally:
        _HEAP.set_thresholds()
        c_heap.trim()


@dataclass(frozen=True)
class Needs:
    """What a call of a program allocates.

    Attributes
    ----------
    nbytes : int
        Results, temporaries and what libraries pack.
    blocks : tuple of int
        The larger ones in the order of allocation: XLA's one block of temporaries,
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
        self._has_ended = False
        self._lock = threading.RLock()
        self._lean_bytes = 0
        """Resident memory when freed blocks were last given back."""
        self._lean_usage = c_heap.Usage()
        """What the heap held then."""
        self._large = LargeBlocks(self.give_back, lambda: self._kept(c_heap.usage()))

    def keep(self) -> None:
        """Keep freed blocks from now on."""
        if not self.keeps:
            self.keeps = True
            self.set_thresholds()

    def set_thresholds(self) -> None:
        """Tell glibc what to keep; another thread may have begun to keep blocks meanwhile."""
        if self._has_ended:
            c_heap.use_defaults()
        elif self.keeps:
            c_heap.set_thresholds(LARGE_BLOCK_BYTES, 2 * LARGE_BLOCK_BYTES)
        else:
            return_freed_blocks()

    def end(self) -> None:
        """Set glibc's defaults again; calls that run now leave them."""
        with self._lock:
            self._has_ended = True
        self._large.stop()
        self.give_back()

    @contextmanager
    def ready(self, needs: Needs, room: float) -> Iterator[None]:
        """Run a program with earlier freed blocks, as far as its limit has room for them."""
        self.keep()
        keeps = self._keeps_large(needs)
        if not keeps and room < math.inf:
            self._large.clear()
        with self._large.kept() if keeps else nullcontext():
            places = self.make_room(needs, room)
            try:
                yield
            finally:
                places.release()

    def _keeps_large(self, needs: Needs) -> bool:
        """Return whether a program has large blocks that may stay until the next call."""
        if not (needs.is_large and c_heap.COUNTS):
            return False
        usage = c_heap.usage()
        # Where holes do not fit the same memory is taken again, elsewhere.
        if _ADDRESSES * needs.nbytes > c_heap.address_room() + usage.freed_bytes:
            return False
        kept = max(0, self._kept(usage)) if self._lean_bytes else 0
        return needs.nbytes <= _KEPT_SHARE * (free_bytes() + kept)

    def give_back(self) -> None:
        """Give all freed blocks back to the system."""
        with self._lock:
            self.set_thresholds()
            self._trim(0, c_heap.usage())

    def _trim(self, stays: int, usage: c_heap.Usage) -> None:
        """Give freed memory back, except what a program's blocks are about to take."""
        c_heap.trim()
        self._lean_bytes, self._lean_usage = c_heap.resident_bytes() - stays, usage

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
            most = min(room, needs.peak_bytes * _WASTE)
            usage = c_heap.usage() if needs.is_large else c_heap.Usage()
            if needs.is_large:
                merge_freed()  # It takes little time compared with such a program.
            places = Places(needs.blocks)
            try:
                wastes = self._wasted(needs, places, usage) > most
                if wastes and not needs.is_large:
                    places.release()
                    merge_freed()
                    places = Places(needs.blocks)
                    wastes = self._wasted(needs, places, usage) > most
                if wastes:
                    self._give_back_others(needs, places, usage)
            except BaseException:
                places.release()
                raise
            places.free()
            return places

    def _give_back_others(self, needs: Needs, places: Places, usage: c_heap.Usage) -> None:
        if needs.is_large:
            self._trim(places.resident_bytes, usage)
        else:
            # Small ones are cheap, and move once libraries pack between them.
            places.release()
            self._trim(0, c_heap.usage())

    def _wasted(self, needs: Needs, places: Places, usage: c_heap.Usage) -> int:
        """Return the bytes that a program would now make resident beyond what it allocates."""
        kept = self._kept(usage) if needs.is_large else c_heap.resident_bytes() - self._lean_bytes
        return kept + places.new_bytes - needs.nbytes

    def _kept(self, usage: c_heap.Usage) -> int:
        """Return an upper bound of the freed bytes that are resident.

        Results that are still in use are not among them, else they would all be given back for
        nothing. What is mapped may have no pages, so it counts only where it became less.
        """
        used = usage.used_bytes - self._lean_usage.used_bytes
        mapped = min(0, usage.mapped_bytes - self._lean_usage.mapped_bytes)
        return c_heap.resident_bytes() - self._lean_bytes - used - mapped


_HEAP = _Heap()


def begin() -> None:
    """Set what glibc keeps, to suit XLA's blocks."""
    global _HEAP
    _HEAP = _Heap()
    return_freed_blocks()
    c_heap.use_one_arena()


def end() -> None:
    """Restore glibc's own settings, and give freed memory back to the system."""
    _HEAP.end()


def begin_anew() -> None:
    """Reset the heap's state in a forked process: threads that held its locks are gone."""
    global _HEAP
    if _HEAP.keeps:
        c_heap.map_as_usual()
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
    if room is not None:
        with _HEAP.ready(needs, room):
            yield
    elif needs.packed_bytes >= NEW_PAGES_BYTES and not _HEAP.keeps:
        with blocks_kept(needs.packed_bytes):
            yield
    else:
        yield
