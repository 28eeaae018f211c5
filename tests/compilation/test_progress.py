"""The line that a long compile shows: with a stream and a clock that are made up."""

from __future__ import annotations

import io
import sys
import threading
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer.compilation import function
from tracer.compilation.progress import Progress, compiling, found, watched
from tracer.optimizer.progress import tell


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def seen(self) -> str:
        """What is on the line now."""
        return self.getvalue().rpartition("\r")[2].rstrip()


class Clock:
    def __init__(self, step: float = 0.0) -> None:
        self.now, self.step = 100.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def progress(stream: Any, clock: Clock, limit: Any = 8_000_000) -> Progress:
    return Progress("fit", limit, stream, clock)


def test_nothing_is_shown_before_two_seconds() -> None:
    terminal, clock = Terminal(), Clock()
    with watched(progress(terminal, clock)):
        clock.now += 2.0
        tell("split")
    assert terminal.getvalue() == ""


def test_the_line_says_what_is_done_and_the_best_so_far_and_is_erased() -> None:
    terminal, clock = Terminal(), Clock()
    with watched(progress(terminal, clock)):
        clock.now += 3.0
        tell("split")
        assert terminal.seen() == "tracer: fit, limit 8 MB: split (3 s)"
        found(9_000_000)
        found(10_000_000)
        clock.now += 3.0
        tell("fuse")
        assert terminal.seen() == "tracer: fit, limit 8 MB: fuse, best so far 9 MB (6 s)"
    written = terminal.getvalue()
    assert written.endswith("\r")
    assert terminal.seen() == ""
    assert written.split("\r")[-2] == " " * len(
        "tracer: fit, limit 8 MB: fuse, best so far 9 MB (6 s)"
    )


def test_a_shorter_line_leaves_nothing_of_a_longer_one() -> None:
    terminal, clock = Terminal(), Clock()
    with watched(progress(terminal, clock, None)):
        clock.now += 3
        tell("a pass with a long name")
        clock.now += 3
        tell("cse")
        first, second = terminal.getvalue().split("\r")[1:]
        assert len(first) == len(second)
        assert second.rstrip() == "tracer: fit: cse (6 s)"


def test_steps_that_follow_each_other_soon_are_not_all_shown() -> None:
    terminal, clock = Terminal(), Clock(step=0.001)
    with watched(progress(terminal, clock)):
        clock.now += 3
        for _ in range(100):
            tell("cse")
    assert terminal.getvalue().count("cse") < 10


def test_before_xla_begins_the_line_comes_early_and_its_time_is_taken() -> None:
    terminal, clock = Terminal(), Clock()
    with watched(progress(terminal, clock)) as shown:
        clock.now += 1.5
        tell("cse")
        assert terminal.seen() == ""
        with compiling():
            assert terminal.seen() == "tracer: fit, limit 8 MB: XLA compiles program 1 (2 s)"
            clock.now += 5
        assert (shown.compiled, shown.compile_seconds, shown.seconds) == (1, 5.0, 6.5)


@pytest.mark.parametrize("stream", [io.StringIO(), None, "closed"])
def test_elsewhere_it_is_silent(stream: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    if stream == "closed":
        stream = Terminal()
        stream.close()
    if stream is None:
        monkeypatch.setattr(sys, "stderr", None)
    with watched(progress(stream, clock)):
        clock.now += 9
        tell("cse")
    if isinstance(stream, io.StringIO) and not stream.closed:
        assert stream.getvalue() == ""


def test_a_notebook_sees_the_line() -> None:
    kind = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})
    stream, clock = kind(), Clock()
    with watched(progress(stream, clock)):
        clock.now += 3
        tell("cse")
        assert "cse (3 s)" in stream.getvalue()
    assert stream.getvalue().endswith(" \r")


def test_the_line_goes_when_the_compile_fails() -> None:
    terminal, clock = Terminal(), Clock()

    def fail() -> None:
        with watched(progress(terminal, clock)):
            clock.now += 3
            tell("cse")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert terminal.seen() == ""
    tell("nobody hears it")
    with compiling():
        found(1)


@pytest.mark.xla
def test_a_compile_shows_its_line_and_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, clock = Terminal(), Clock(step=1.0)
    monkeypatch.setattr(
        function, "Progress", lambda name, limit: Progress(name, limit, terminal, clock)
    )
    x = np.ones(300, np.float32)
    tnp.asarray(x).block_until_ready()
    before = threading.active_count()
    tracer.compile(lambda x: tnp.exp(x[:, None] - x).sum(1), memory_limit="100kB")(x)
    assert threading.active_count() == before
    assert "tracer: <lambda>, limit 100 kB: XLA compiles program 1" in terminal.getvalue()
    assert terminal.seen() == ""
