"""Interrupts at moments that can be found again."""

from __future__ import annotations

import random
import signal
import sys
from collections import Counter
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, NamedTuple

import pytest

DROPPED = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""Python drops an interrupt that comes in a finalizer."""


class Moment(NamedTuple):
    """The call, of so many, of a function of Python's."""

    code: CodeType
    number: int

    def __str__(self) -> str:
        """Say which function it is."""
        name, line = self.code.co_filename, self.code.co_firstlineno
        return f"call {self.number} of {self.code.co_qualname} ({name}:{line})"


def watched(look: Callable[[CodeType], None], function: Callable[[], Any]) -> Any:
    """Call a function, and another one where each function of Python's is called meanwhile.

    Python looks for signals there, too: before the first line of `__exit__`, for one, so what is
    open then is not closed by its `finally`.
    """

    def see(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            look(frame.f_code)

    before = sys.gettrace()
    sys.settrace(see)
    try:
        return function()
    finally:
        sys.settrace(before)


def calls(function: Callable[[], Any]) -> Counter[CodeType]:
    """Count the calls of each function of Python's while a function runs."""
    found: Counter[CodeType] = Counter()

    def look(code: CodeType) -> None:
        found[code] += 1

    watched(look, function)
    return found


def chosen(seen: Counter[CodeType], rng: random.Random) -> Moment:
    """Choose a moment; in functions that are called once, as often as in others."""
    code = rng.choice(list(seen))
    return Moment(code, rng.randint(1, seen[code]))


def interrupted_at_moment(moment: Moment, function: Callable[[], Any]) -> Any:
    """Call a function, and interrupt it at a moment."""
    left = moment.number

    def look(code: CodeType) -> None:
        nonlocal left
        if code is moment.code:
            left -= 1
            if not left:
                sys.settrace(None)
                raise KeyboardInterrupt

    return watched(look, function)


def interrupted_after(seconds: float, function: Callable[[], Any]) -> Any:
    """Call a function, and interrupt it with a signal."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        return function()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def interrupted_at(number: int, function: Callable[[], Any]) -> bool:
    """Call a function, and interrupt it where so many were called; tell whether it was.

    Also where Python dropped the interrupt, in a finalizer. It may show one more call after that.
    """
    seen, is_interrupted = 0, False

    def look(_: CodeType) -> None:
        nonlocal seen, is_interrupted
        seen += 1
        if seen == number:
            is_interrupted = True
            sys.settrace(None)
            raise KeyboardInterrupt

    try:
        watched(look, function)
    except KeyboardInterrupt:
        assert is_interrupted
    except RuntimeError as error:
        # Raised by `threading`, where it releases what an interrupt has kept it from taking.
        if not isinstance(error.__context__, KeyboardInterrupt):
            raise
    return is_interrupted


def at_every_call(
    function: Callable[[], Any], after: Callable[[], Any] = lambda: None, step: int = 1
) -> int:
    """Interrupt a function at each call; then call another one. Returns how often."""
    if not calls(lambda: None):  # Seen once in thousands of runs, for no reason that was found.
        pytest.skip("Python calls no trace function in this thread any more")
    number = 1
    while interrupted_at(number, function):
        after()
        number += step
    return number // step
