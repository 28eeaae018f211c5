"""What an interrupted call may have left: nothing."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path

from tracer.array.recording import current_recording
from tracer.compilation import collection
from tracer.lowering.cpu import library_threads
from tracer.lowering.run.budget import ASKED

_PATIENCE = 10.0
"""Seconds in which threads end that have been told to."""
_UNFINISHED = ("tracer-partial", "tracer-lock", ".unfinished")


class State:
    """The threads, descriptors and thresholds of the process before an interrupt.

    Parameters
    ----------
    folder : Path
        Where the program's files are.
    may_go_on : bool
        Whether what was written stays until the same call goes on with it.
    """

    def __init__(self, folder: Path, *, may_go_on: bool) -> None:
        self.folder, self._may_go_on = folder, may_go_on
        self._threads = set(threading.enumerate())
        self._opened = _opened()
        self._thresholds = gc.get_threshold()

    def left(self) -> list[str]:
        """Say what is there that was not, or is not there that was."""
        gc.collect()
        found = [f"thread {thread.name} {_place(thread)}" for thread in self._more_threads()]
        found += [f"open {name}" for name in _opened() - self._opened]
        if current_recording() is not None:
            found.append("an open recording")
        budget = ASKED.budget
        if budget is not None and (budget._running or budget._waiting):
            found.append("a ticket of the budget")
        if library_threads._running or collection._active:
            found.append("a program that counts as running")
        if gc.get_threshold() != self._thresholds:
            found.append(f"thresholds {gc.get_threshold()}")
        names = [] if self._may_go_on else self.files()
        return found + [f"file {name}" for name in names if any(w in name for w in _UNFINISHED)]

    def files(self) -> list[str]:
        """Return the names of the program's files."""
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))

    def _more_threads(self) -> set[threading.Thread]:
        until = time.monotonic() + _PATIENCE
        while (more := self._alive()) and time.monotonic() < until:
            time.sleep(0.002)
        return more

    def _alive(self) -> set[threading.Thread]:
        """Return new threads that run; `threading` lists those whose start was interrupted, too."""
        return {t for t in threading.enumerate() if t not in self._threads and t.is_alive()}


def _place(thread: threading.Thread) -> str:
    """Say where a thread is."""
    frame = sys._current_frames().get(thread.ident or 0)
    places = [] if frame is None else traceback.extract_stack(frame)[-6:]
    return " ".join(f"{os.path.basename(step.filename)}:{step.lineno}" for step in places)


def _opened() -> set[str]:
    """Return what the process has open, but for pipes and such, whose names say nothing."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found.add(os.readlink(f"/proc/self/fd/{number}"))
    return found
