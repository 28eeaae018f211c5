"""A result of a running program on its way to storage: written beside the computation."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np

from tracer.ir import ShapeDtype, storage
from tracer.ir.storage import PAGE
from tracer.storage.ahead import Work, space
from tracer.storage.checkpoints import Run
from tracer.storage.sources import Array, block_at
from tracer.storage.targets import Result


class Sink:
    """Takes the blocks of a result; one is written while the next is computed.

    Errors of a write are raised by the next one, or at the end.
    """

    def __init__(
        self,
        path: Path,
        type: ShapeDtype,
        run: Run | None = None,
        among: list[Sink] | None = None,
    ) -> None:
        """`among`: a list that it is in before its file is made."""
        self.shape, self.dtype = type.shape, type.dtype
        self.number = storage.register(self)
        self.result = Result(path, type.shape, type.dtype, run)
        self._lock = threading.Lock()
        self._pending: Work | None = None
        self._spare = self._last = np.empty((0,), np.uint8)
        if among is not None:
            among.append(self)
        self.result.begin()

    def read(
        self, starts: tuple[int, ...], shape: tuple[int, ...], reader: storage.Reader
    ) -> Array:
        """Refuse: a result is written only."""
        raise NotImplementedError

    def rows(self, places: Array) -> Array:
        """Refuse: a result is written only."""
        raise NotImplementedError

    def write(self, starts: tuple[int, ...], block: Array) -> None:
        """Write a copy of a block, after the one before it. Two buffers take turns."""
        with self._lock:
            memory = self._spare
            if memory.nbytes != block.nbytes + PAGE:
                memory = space((block.nbytes + PAGE,), np.dtype(np.uint8))
            own = block_at(memory, self.result.offset_in_page(starts), block.shape, block.dtype)
            own[...] = block
            self._wait()
            self._spare, self._last = self._last, memory
            # Known before it is begun: after an interrupt `give_up` waits for it.
            self._pending = Work(lambda: self.result.put(starts, own))
            self._pending.begin()

    def _wait(self) -> None:
        if self._pending is not None:
            self._pending.wait()
            self._pending = None  # Not before: `give_up` waits for it where this was interrupted.

    def flush(self) -> None:
        """Bring what was written so far to the disk."""
        with self._lock:
            self._wait()
        self.result.flush()

    def finish(self) -> None:
        """Bring everything to the disk, and give it its name."""
        self._wait()
        self.result.finish()

    def give_up(self) -> None:
        """Remove what was written."""
        if self._pending is not None:
            self._pending.give_up()  # It writes no more.
        self.result.give_up()


__all__ = ["Sink"]
