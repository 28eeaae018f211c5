"""One line on a terminal while a call reads for long: how much of how much, and what is left."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tracer.terminal import PATIENCE_SECONDS, TerminalLine
from tracer.units import format_bytes

_SECONDS_BETWEEN = 0.2


class Meter:
    """Counts what one call reads, and shows it; the line is written by the threads that read.

    Parameters
    ----------
    name : str
        The function's.
    find_total : callable
        Returns the bytes that will be read, as far as that is known; asked when it is shown first.
    stream : text stream, optional
        Where the line goes, if that is a terminal or a notebook; standard error by default.
    clock : callable, optional
        Seconds.
    """

    def __init__(
        self,
        name: str,
        find_total: Callable[[], int],
        stream: Any = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.nbytes = 0
        self._name, self._find_total, self._clock = name, find_total, clock
        self._total: int | None = None
        self._start = clock()
        self._last = self._start + PATIENCE_SECONDS - _SECONDS_BETWEEN
        self._line = TerminalLine(sys.stderr if stream is None else stream)
        self._lock = threading.Lock()

    def count(self, nbytes: int) -> None:
        """Count what was read; show it, if the call takes long already."""
        with self._lock:
            self.nbytes += nbytes
            now = self._clock()
            if now - self._last < _SECONDS_BETWEEN or not self._line.is_seen():
                return
            self._last = now
            if self._total is None:
                self._total = self._find_total()
            self._line.show(f"tracer: {self._name}: {self._text(now - self._start)}")

    def _text(self, seconds: float) -> str:
        rate = self.nbytes / seconds
        total = self._total or 0
        done = f"{format_bytes(self.nbytes)} read"
        left = ""
        if total >= self.nbytes:  # Of loops whose steps are not known each was counted once.
            done = f"{format_bytes(self.nbytes)} of {format_bytes(total)} read"
            left = f", {_duration((total - self.nbytes) / rate)} left"
        return f"{done}, {format_bytes(int(rate))}/s{left}"

    def end(self) -> None:
        """Erase the line."""
        self._line.erase()


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


@contextmanager
def metered(meter: Meter, arrays: Sequence[Any]) -> Iterator[None]:
    """Count what is read of these arrays inside."""
    try:
        for array in arrays:
            array.meters[id(meter)] = meter
        yield
    finally:
        for array in arrays:
            array.meters.pop(id(meter), None)
            array.rest()
        meter.end()


__all__ = ["Meter", "metered"]
