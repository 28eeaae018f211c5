"""Which freed blocks of glibc's heap a program's blocks would reuse."""

from __future__ import annotations

import ctypes

from tracer.lowering.cpu.c_heap import FREE, LARGE_BLOCK_BYTES, LIBC, MALLOC, PAGE_BYTES

# By so much more glibc asks of its heap to align a block to 64 bytes (`_int_memalign`).
_ALIGNING_BYTES = 112
# Of `merge_freed`: requests of the sizes that are cut off, and what glibc has for them.
CUT_OFF_SIZES, CACHED_BLOCKS, _MERGING_BYTES = (24, 40, 56, 72, 88), 7, 70_000
_SBRK = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_ssize_t)(("sbrk", LIBC))


class Places:
    """Where glibc puts a program's blocks, if they are allocated in this order.

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
    """

    def __init__(self, blocks: tuple[int, ...]) -> None:
        self._blocks: list[int | None] = []
        self._passed_over: list[int | None] = []
        self.new_bytes = 0
        try:
            for nbytes in blocks:
                self.new_bytes += self._place(nbytes)
        except BaseException:  # Ctrl-C: nothing else knows them.
            self.release()
            raise
        self.resident_bytes = sum(blocks) - self.new_bytes

    def _place(self, nbytes: int) -> int:
        """Find a place for a block, and return how much of it is not resident.

        glibc chooses by size alone: of two holes it may take the one whose pages were given back,
        in every call. That one is passed over.
        """
        end = _SBRK(0)
        absent = self._take(nbytes)
        if nbytes <= LARGE_BLOCK_BYTES or absent <= nbytes // 2:
            return absent
        of_other = self._take(nbytes)
        # A longer heap would be address space that the program itself may need.
        if of_other <= nbytes // 2 and _SBRK(0) == end:
            self._passed_over.append(self._blocks.pop(-2))
            return of_other
        FREE(self._blocks.pop())
        return absent

    def _take(self, nbytes: int) -> int:
        self._blocks.append(MALLOC(nbytes + _ALIGNING_BYTES))
        return _absent_bytes(self._blocks[-1], nbytes)

    def free(self) -> None:
        """Make the blocks free for the program, but not what was passed over."""
        while self._blocks:
            FREE(self._blocks.pop())

    def release(self) -> None:
        """Make everything free, once the program has its blocks."""
        self.free()
        while self._passed_over:
            FREE(self._passed_over.pop())


def _absent_bytes(address: int | None, nbytes: int) -> int:
    """Return how much of a block is not resident."""
    if address is None:
        return nbytes
    start = address - address % PAGE_BYTES
    pages = (nbytes + address - start + PAGE_BYTES - 1) // PAGE_BYTES
    found = (ctypes.c_ubyte * pages)()
    LIBC.mincore(ctypes.c_void_p(start), ctypes.c_size_t(pages * PAGE_BYTES), found)
    return bytes(found).count(0) * PAGE_BYTES


def merge_freed() -> None:
    """Make glibc merge small freed blocks with their neighbours.

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
