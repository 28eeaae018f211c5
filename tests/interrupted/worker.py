"""`python -m tests.interrupted.worker PROGRAM SEED FIRST SECONDS`: interrupts a program.

One JSON array a line: what came of an attempt, and what was wrong. A process in which something is
wrong ends, so that the next attempts do not find it too.
"""

from __future__ import annotations

import faulthandler
import gc
import itertools
import json
import os
import random
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType
from typing import Any

from tests.interrupted.moments import calls, chosen, interrupted_after, interrupted_at_moment
from tests.interrupted.programs import PROGRAMS, closed, values
from tests.interrupted.state import State

SILENCE = 60.0
"""Seconds after which a process that says nothing prints what it does, and ends."""
_BY_SIGNAL = 0.5
"""Of the attempts; the others are by a moment, which is the same again with the same seed."""


class Attack:
    """One program, interrupted again and again."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.again = PROGRAMS[name](folder)
        self.again()
        self.right = values(self.again())
        start = time.perf_counter()
        self.again()
        self._seconds = time.perf_counter() - start
        self._seen: Counter[CodeType] = calls(self.again)
        self.state = State(folder, may_go_on=name == "checkpointed")
        self._files = self.state.files()

    def attempt(self, rng: random.Random, by_signal: float = 0.0) -> tuple[str, str]:
        """Interrupt it once. Returns what came of that, and what was wrong."""
        if rng.random() < by_signal:
            seconds = rng.uniform(0, self._seconds)
            return self._outcome(f"after {seconds:.6f} s", interrupted_after, seconds)
        moment = chosen(self._seen, rng)
        return self._outcome(str(moment), interrupted_at_moment, moment)

    def _outcome(self, when: str, interrupt: Callable[..., Any], moment: Any) -> tuple[str, str]:
        outcome = "ended before"
        try:
            if values(interrupt(moment, self.again)) != self.right:
                return "wrong", f"{when}: other values in the call that was interrupted"
        except KeyboardInterrupt:
            outcome = "interrupted"
        except Exception:
            return "wrong", f"{when}: {traceback.format_exc()}"
        wrong = self.state.left() or self._after()
        return ("wrong", f"{when}: {', '.join(wrong)}") if wrong else (outcome, "")

    def _after(self) -> list[str]:
        """Do the same again, and say what is wrong."""
        try:
            found = values(self.again())
        except Exception:
            return [f"afterwards {traceback.format_exc()}"]
        wrong = [] if found == self.right else ["other values afterwards"]
        if self.state.files() != self._files:
            wrong.append(f"files {self.state.files()}")
        return wrong + self.state.left()


@contextmanager
def begun(name: str) -> Iterator[Attack]:
    """Make a program in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder, closed():
        yield Attack(name, Path(folder))


def main() -> None:
    """Interrupt a program until the time is over."""
    name, seed, first, seconds = sys.argv[1], *map(float, sys.argv[2:])
    warnings.simplefilter("error")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # What is printed meanwhile is no answer.
    sys.unraisablehook = lambda _: None  # Python drops an interrupt that comes in a finalizer.
    faulthandler.dump_traceback_later(SILENCE, exit=True)
    until = time.monotonic() + seconds
    with begun(name) as attack:
        gc.freeze()  # So that collections take no time.
        for number in itertools.count(int(first)):
            if time.monotonic() >= until:
                break
            faulthandler.dump_traceback_later(SILENCE, exit=True)
            said = attack.attempt(random.Random(f"{name} {int(seed)} {number}"), _BY_SIGNAL)
            answers.write(json.dumps(said) + "\n")
            answers.flush()
            if said[0] == "wrong":
                break
    faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main()
