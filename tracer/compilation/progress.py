"""One line on a terminal while a compile takes long, and what the compile's time went into.

The line is written by the thread that compiles, between the steps of the planner: there is no
other thread, and nothing is written while XLA compiles. So before XLA begins, the line comes early.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tracer.optimizer.progress import told
from tracer.terminal import PATIENCE_SECONDS, TerminalLine
from tracer.units import format_bytes

_PATIENCE_BEFORE_XLA = 1.0
_SECONDS_BETWEEN = 0.1


class Progress:
    """What one compile is doing.

    Parameters
    ----------
    name : str
        The function's.
    limit : int, str or None
        Its limit in bytes.
    stream : text stream, optional
        Where the line goes, if that is a terminal or a notebook; standard error by default.
    clock : callable, optional
        Seconds.

    Attributes
    ----------
    compile_seconds : float
        What XLA took.
    compiled : int
        How many programs were handed to XLA; some may have been compiled before.
    """

    def __init__(
        self,
        name: str,
        limit: int | str | None,
        stream: Any = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.compile_seconds = 0.0
        self.compiled = 0
        self._clock = clock
        self._start = clock()
        self._last = self._start - _SECONDS_BETWEEN
        self._line = TerminalLine(sys.stderr if stream is None else stream)
        shown = format_bytes(limit) if isinstance(limit, int) else limit
        self._head = f"tracer: {name}" + (f", limit {shown}" if shown else "")
        self._best: int | None = None

    @property
    def seconds(self) -> float:
        """Since the compile began."""
        return self._clock() - self._start

    def step(self, what: str) -> None:
        """Show what the planner does next, if the compile takes long already."""
        self._show(what, PATIENCE_SECONDS)

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """Take the time of XLA inside."""
        self.compiled += 1
        self._show(f"XLA compiles program {self.compiled}", _PATIENCE_BEFORE_XLA, is_urgent=True)
        start = self._clock()
        try:
            yield
        finally:
            self.compile_seconds += self._clock() - start

    def found(self, nbytes: int) -> None:
        """Note what a compiled program takes."""
        self._best = nbytes if self._best is None else min(self._best, nbytes)

    def end(self) -> None:
        """Erase the line."""
        self._line.erase()

    def _show(self, what: str, patience: float, *, is_urgent: bool = False) -> None:
        now = self._clock()
        is_soon = now - self._last < _SECONDS_BETWEEN and not is_urgent
        if now - self._start <= patience or is_soon or not self._line.is_seen():
            return
        self._last = now
        best = "" if self._best is None else f", best so far {format_bytes(self._best)}"
        self._line.show(f"{self._head}: {what}{best} ({now - self._start:.0f} s)")


_CURRENT: ContextVar[Progress | None] = ContextVar("progress of a compile", default=None)


@contextmanager
def watched(progress: Progress) -> Iterator[Progress]:
    """Show, in this thread and context, what is done inside; the line is gone afterwards."""
    token = _CURRENT.set(progress)
    try:
        with told(progress.step):
            yield progress
    finally:
        _CURRENT.reset(token)
        progress.end()


@contextmanager
def compiling() -> Iterator[None]:
    """Take the time of XLA inside, if the compile is watched."""
    progress = _CURRENT.get()
    if progress is None:
        yield
        return
    with progress.compiling():
        yield


def found(nbytes: int) -> None:
    """Note what a compiled program takes, if the compile is watched."""
    progress = _CURRENT.get()
    if progress is not None:
        progress.found(nbytes)


__all__ = ["Progress", "compiling", "found", "watched"]
