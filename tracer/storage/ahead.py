"""Reading ahead: which block comes next, where it goes, and on which thread it is read."""

from __future__ import annotations

import contextlib
import math
import mmap
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
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
        self._taken = 0
        self._is_over = False
        self._lock = threading.RLock()  # Views are dropped anywhere, here too.

    def take(self, nbytes: int) -> Array:
        """Return memory for a block of so many bytes, and `SPARE` more if it has its own pages."""
        with self._lock:
            self._is_over = False
            self._taken += 1
            if self._free:
                return self._free.pop()
        spare = SPARE if nbytes >= LEAST_AHEAD else 0
        return space((nbytes + spare,), np.dtype(np.uint8))

    @property
    def has_spare(self) -> bool:
        """Whether there is memory for a block beside those in use: two are all."""
        return self._taken < 2

    def lent(self, block: Block, *, is_last: bool) -> Array:
        """Return a view of a block; when the view is dropped, the memory is free again.

        After the last block of a loop all is given back.
        """
        view = block.array[...]
        weakref.finalize(view, self.give_back, block.memory).atexit = False
        if is_last:
            with self._lock:
                self._is_over = True
                self._free.clear()
        return view

    def give_back(self, memory: Array) -> None:
        """Have memory that was taken."""
        with self._lock:
            self._taken -= 1
            if not self._is_over:
                self._free.append(memory)


class Progress:
    """How far one reader has come through an array, and what is read ahead for it.

    A thread reads block after block as long as there is memory for one more than the program has:
    the device does not wait for the program to ask, nor for a thread to begin.
    """

    def __init__(self) -> None:
        self.last: Starts | None = None
        self.buffers = Buffers()
        self.lock = threading.Lock()
        self._ahead: deque[tuple[Starts, Future[Block]]] = deque()
        self._places: Iterator[Starts] = iter(())
        self._is_reading = False
        self._state = threading.Lock()

    @property
    def is_ahead(self) -> bool:
        """Whether anything is read ahead."""
        return bool(self._ahead)

    def awaits(self, starts: Starts) -> bool:
        """Tell whether the block that begins here is read ahead."""
        with self._state:
            return any(place == starts for place, _ in self._ahead)

    def awaited(self, starts: Starts) -> Block | None:
        """Return the block that was read ahead, if there is one that begins here.

        What was read before it was for nothing. If there is none, all was, and no more is read.
        """
        with self._state:
            found = None
            while self._ahead and found is None:
                place, future = self._ahead.popleft()
                if place == starts:
                    found = future
                else:
                    future.add_done_callback(self._dropped)
            if found is None:
                self._places = iter(())
        return None if found is None else found.result()

    def stop(self) -> None:
        """Read no further."""
        with self._state:
            self._places = iter(())

    def _dropped(self, future: Future[Block]) -> None:
        if future.exception() is None:
            self.buffers.give_back(future.result().memory)

    def go_on(
        self,
        read: Callable[[Array, Starts], Block],
        nbytes: int,
        places: Iterator[Starts],
    ) -> None:
        """Read the blocks that begin at these places, on a thread, unless one does so."""
        with self._state:
            if self._is_reading or not self.buffers.has_spare:
                return
            self._places, self._is_reading = places, True
        run = partial(self._read_on, read, nbytes)
        threading.Thread(target=run, name="tracer-storage", daemon=True).start()

    def _read_on(self, read: Callable[[Array, Starts], Block], nbytes: int) -> None:
        while (begun := self._next(nbytes)) is not None:
            memory, place, future = begun
            try:
                future.set_result(read(memory, place))
            except BaseException as error:  # raised again where the block is needed
                self.stop()
                self.buffers.give_back(memory)
                future.set_exception(error)

    def _next(self, nbytes: int) -> tuple[Array, Starts, Future[Block]] | None:
        """Return the next block to read; None, and the thread ends, if there is none to read."""
        with self._state:
            place = next(self._places, None) if self.buffers.has_spare else None
            if place is None:
                self._is_reading = False
                return None
            future: Future[Block] = Future()
            self._ahead.append((place, future))
            return self.buffers.take(nbytes), place, future


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


def following_blocks(
    starts: Starts, last: Starts | None, shape: Starts, whole: Starts
) -> Iterator[Starts]:
    """Yield where blocks begin, in the steps that were made; one block after the first."""
    is_first = last is None
    while (following := following_block(starts, last, shape, whole)) is not None:
        yield following
        if is_first:
            return
        starts, last = following, starts


class Work:
    """Some work on a thread of its own, which ends with it.

    An interrupt may keep the locks of Python's own code, such as a Future's: these are of C. Who
    takes `_begun` lets go of `_running`, once.
    """

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._begun, self._running = threading.Lock(), threading.Lock()
        self._raised: BaseException | None = None
        self._running.acquire()

    def begin(self) -> None:
        """Begin, unless it was given up."""
        try:
            threading.Thread(target=self._run, name="tracer-storage", daemon=True).start()
        except RuntimeError:  # The system has no more threads.
            self.give_up()
            raise

    def _run(self) -> None:
        if not self._begun.acquire(blocking=False):
            return
        try:
            self._work()
        except BaseException as error:  # raised again where the work is needed
            self._raised = error
        finally:
            self._running.release()

    def wait(self) -> None:
        """Wait for its end, or until it is given up, and raise what it raised."""
        with self._running:
            pass
        if self._raised is not None:
            raise self._raised

    def give_up(self) -> None:
        """Wait for its end, if it has begun; else it never will."""
        if self._begun.acquire(blocking=False):
            self._running.release()
        with self._running:
            pass


__all__ = [
    "LEAST_AHEAD",
    "SPARE",
    "Array",
    "Block",
    "Buffers",
    "Progress",
    "Starts",
    "Work",
    "following_block",
    "following_blocks",
    "space",
]
