"""What a program's blocks would take of the heap's freed ones (glibc)."""

from __future__ import annotations

import ctypes
import resource

from tracer.lowering.large_blocks import LARGE_BLOCK_BYTES

LIBC = ctypes.CDLL(None)
MALLOC = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(("malloc", LIBC))
FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(("free", LIBC))
_PAGE = resource.getpagesize()
# By so much more glibc asks of its heap to align a block to 64 bytes (`_int_memalign`).
_ALIGNING_BYTES = 112
# Of `merge_freed`: requests of the sizes that are cut off, and what glibc has for them.
CUT_OFF_SIZES, CACHED_BLOCKS, _MERGING_BYTES = (24, 40, 56, 72, 88), 7, 70_000


def resident_bytes() -> int:
    """Return the resident memory of this process."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * _PAGE


class Places:
    """Where glibc puts a program's blocks, if they are asked for in this order.

    It holds them until `free`; then the program will get the same.

    Parameters
    ----------
    blocks : tuple of int
        Their sizes in bytes.

    Attributes
    ----------
    new_bytes : int
        The new pages that they will take.
    resident_bytes : int
        The pages that they have.
    held_bytes : int
        What is held now: blocks, and holes without pages that glibc would choose.
    """

    def __init__(self, blocks: tuple[int, ...]) -> None:
        self._passed_over: list[int] = []
        self._passed_over_bytes = self.new_bytes = 0
        self._blocks = [self._place(nbytes) for nbytes in blocks]
        self.held_bytes = sum(blocks) + self._passed_over_bytes
        self.resident_bytes = sum(blocks) - self.new_bytes

    def _place(self, nbytes: int) -> int | None:
        """Return a place for a block.

        glibc chooses by size alone: of two holes it may take the one whose pages were given back,
        in every call. That one is passed over.
        """
        end = _end_of_heap()
        block: int | None = MALLOC(nbytes + _ALIGNING_BYTES)
        absent = _absent_bytes(block, nbytes)
        if block is not None and nbytes > LARGE_BLOCK_BYTES and absent > nbytes // 2:
            other = MALLOC(nbytes + _ALIGNING_BYTES)
            of_other = _absent_bytes(other, nbytes)
            # A longer heap would be address space that the program itself may need.
            if of_other <= nbytes // 2 and _end_of_heap() == end:
                self._passed_over.append(block)
                self._passed_over_bytes += nbytes
                block, absent = other, of_other
            else:
                FREE(other)
        self.new_bytes += absent
        return block

    def free(self) -> None:
        """Make the blocks free for the program, but not what was passed over."""
        while self._blocks:
            FREE(self._blocks.pop())
        self.held_bytes, self.resident_bytes = self._passed_over_bytes, 0

    def release(self) -> None:
        """Make everything free, once the program has its blocks."""
        self.free()
        while self._passed_over:
            FREE(self._passed_over.pop())
        self.held_bytes = self._passed_over_bytes = 0


def _end_of_heap() -> int:
    return int(_SBRK(0))


_SBRK = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_ssize_t)(("sbrk", LIBC))


def _absent_bytes(address: int | None, nbytes: int) -> int:
    """Return how much of a block is not resident."""
    if address is None:
        return nbytes
    start = address - address % _PAGE
    pages = (nbytes + address - start + _PAGE - 1) // _PAGE
    found = (ctypes.c_ubyte * pages)()
    LIBC.mincore(ctypes.c_void_p(start), ctypes.c_size_t(pages * _PAGE), found)
    return bytes(found).count(0) * _PAGE


def merge_freed() -> None:
    """Have glibc merge small freed blocks with their neighbours.

    An aligned block is cut from a larger one, and what is cut off, at most 96 bytes, is freed into
    the thread's cache, which merges nothing: after the block is freed a request of the same size
    does not fit there, and the next set of temporaries would be new pages. So the cache, which
    holds 7 blocks of a size, is emptied and filled with others; then the rest is merged when a
    block above 64 KiB is freed (glibc 2.26 and later, `malloc/malloc.c`: `_int_memalign`,
    `_int_free`).
    """
    for size in CUT_OFF_SIZES:
        for block in reversed([MALLOC(size) for _ in range(2 * CACHED_BLOCKS)]):
            FREE(block)
    FREE(MALLOC(_MERGING_BYTES))
