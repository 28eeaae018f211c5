"""Reading ahead: which block comes next, where it goes, and on which thread it is read."""

from __future__ import annotations

import contextlib
import math
import mmap
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tracer.ir.storage import LARGE_PAGE, PAGE

Array = np.ndarray[Any, Any]
Starts: TypeAlias = tuple[int, ...]
LEAST_AHEAD = 1 << 16
"""Bytes of a block from which on it has pages of its own."""
SPARE = 2 * PAGE
"""Bytes that such a block has more, for what else is in its first and last page of a file."""


def space(shape: Starts, dtype: np.dtype[Any]) -> Array:
    """Return memory for a block, by pages of its own: the system has them back when it is dropped.

    The heap keeps what is freed, and each thread has one. Large pages, as far as whole ones go, are
    in one piece for a device: direct reads into 4 MB of them are twice to three times as fast here
    (a virtual disk), and no page more is resident.
    """
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes < LEAST_AHEAD:
        return np.empty(shape, dtype)
    pages = mmap.mmap(-1, nbytes + LARGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    start = -np.frombuffer(pages, np.uint8).ctypes.data % LARGE_PAGE
    if nbytes >= LARGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # A system without them.
            pages.madvise(mmap.MADV_HUGEPAGE, start, nbytes // LARGE_PAGE * LARGE_PAGE)
    return np.ndarray(shape, dtype, pages, start)


class Block(NamedTuple):
    """A block that was read, and the memory that it is somewhere in."""

    array: Array
    memory: Array


class Buffers:
    """Memory for blocks, used again once the program has copied what it was given."""

    def __init__(self) -> None:
        self._free: list[Array] = []
        self._is_over = False

    def take(self, nbytes: int) -> Array:
        """Return memory for a block of so many bytes, and `SPARE` more if it has its own pages."""
        self._is_over = False
        spare = SPARE if nbytes >= LEAST_AHEAD else 0
        return self._free.pop() if self._free else space((nbytes + spare,), np.dtype(np.uint8))

    def lent(self, block: Block, *, is_last: bool) -> Array:
        """Return a view of a block; when the view is dropped, the memory is free again.

        After the last block of a loop all is given back.
        """
        view = block.array[...]
        weakref.finalize(view, self._returned, block.memory).atexit = False
        if is_last:
            self._is_over = True
            self._free.clear()
        return view

    def _returned(self, memory: Array) -> None:
        if not self._is_over:
            self._free.append(memory)


@dataclass
class Progress:
    """How far one reader has come through an array."""

    last: Starts | None = None
    ahead: tuple[Starts, Future[Block]] | None = None
    """Where the block begins that is read ahead, and what becomes of it."""
    buffers: Buffers = field(default_factory=Buffers)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def awaits(self, starts: Starts) -> bool:
        """Tell whether the block that begins here is read ahead."""
        return self.ahead is not None and self.ahead[0] == starts

    def awaited(self, starts: Starts) -> Block | None:
        """Return the block that was read ahead, if it is the one that begins here."""
        ahead, self.ahead = self.ahead, None
        return ahead[1].result() if ahead is not None and ahead[0] == starts else None


def following_block(
    starts: Starts, last: Starts | None, shape: Starts, whole: Starts
) -> Starts | None:
    """Return where the block begins that is as far from this one as this one is from the last.

    The first of a loop has no last one, or that of an earlier loop, behind it: the next one is
    beside it, along the first axis that is cut. None at the end of the array.
    """
    steps = [0] * len(shape)
    if last is not None and all(a >= b for a, b in zip(starts, last, strict=True)):
        steps = [start - before for start, before in zip(starts, last, strict=True)]
    else:
        cut = next((i for i, size in enumerate(shape) if size < whole[i]), None)
        if cut is not None:
            steps[cut] = shape[cut]
    following = tuple(start + step for start, step in zip(starts, steps, strict=True))
    ends = (start + size for start, size in zip(following, shape, strict=True))
    is_inside = all(end <= size for end, size in zip(ends, whole, strict=True))
    return following if is_inside and following != starts else None


def begun(work: Callable[[], Any]) -> Future[Any]:
    """Begin some work on a thread of its own, which ends with it."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # raised again where the result is needed
            future.set_exception(error)

    threading.Thread(target=run, name="tracer-storage", daemon=True).start()
    return future


__all__ = [
    "LEAST_AHEAD",
    "SPARE",
    "Array",
    "Block",
    "Buffers",
    "Progress",
    "Starts",
    "begun",
    "following_block",
    "space",
]
