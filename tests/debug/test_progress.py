"""Loops of tracer.progress count their steps, and compute what they do without."""

from __future__ import annotations

import io
import re
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer.errors import ArgumentError, DTypeError

X = np.random.default_rng(0).random((10, 3))
Told = list[tuple[str, int, int | None]]


def program(x: Any) -> Any:
    """Run a scan with a loop inside, then a while loop in a branch."""

    def step(carry: Any, row: Any) -> Any:
        carry = tracer.fori_loop(0, 3, lambda i, c: c * 0.9 + row * i, carry)
        return carry, carry.sum()

    def halved(carry: Any) -> Any:
        return tracer.while_loop(lambda c: c.sum() > 1e-3, lambda c: c * 0.5, carry)

    carry, sums = tracer.scan(step, x[0], x)
    return tracer.cond(x[0, 0] > -1, halved, lambda c: c, carry), sums


def steps_of(told: Told) -> list[tuple[int, int | None]]:
    return [(done, total) for _, done, total in told]


@pytest.mark.xla
@pytest.mark.parametrize("every", [1, 4, 100])
@pytest.mark.parametrize("way", [lambda f: f, tracer.compile])
def test_steps_are_counted_and_values_stay(way: Any, every: int) -> None:
    told: Told = []
    found = way(tracer.progress(program, every=every, report=lambda *step: told.append(step)))
    wanted = program(tnp.array(X))
    for _ in range(2):
        told.clear()
        for x, y in zip(found(X), wanted, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-14)
        halvings = told[-1][1]
        assert halvings > 3
        assert steps_of(told) == [
            *((done, 10) for done in range(0, 10, every)), (10, 10),
            *((done, None) for done in range(0, halvings, every)), (halvings, halvings),
        ]  # fmt: skip
        assert len({loop for loop, *_ in told}) == 2
        assert all(re.fullmatch(r"loop at test_progress\.py:\d+", loop) for loop, *_ in told)


def loss(x: Any) -> Any:
    return (tracer.scan(lambda c, row: (tnp.sin(c) * row, None), x[0], x)[0] ** 2).sum()


@pytest.mark.xla
@pytest.mark.parametrize("is_outside", [True, False])
def test_gradients_have_a_loop_for_the_way_back(is_outside: bool) -> None:
    told: Told = []

    def report(*step: Any) -> None:
        told.append(step)

    if is_outside:
        gradient = tracer.progress(tracer.grad(loss), report=report)
    else:
        gradient = tracer.grad(tracer.progress(loss, report=report))
    wanted = tracer.compile(tracer.grad(loss))(X)
    np.testing.assert_allclose(tracer.compile(gradient)(X), wanted, rtol=1e-14)
    once = [*((done, 10) for done in range(10)), (10, 10)]
    assert steps_of(told) == (once * 2 if is_outside else once)


@pytest.mark.xla
def test_a_batch_takes_its_steps_together() -> None:
    told: Told = []
    counted = tracer.progress(loss, report=lambda *step: told.append(step))
    batch = np.stack([X, X + 1])
    np.testing.assert_allclose(tracer.vmap(counted)(batch), [loss(tnp.array(x)) for x in batch])
    assert [done for done, _ in steps_of(told)] == list(range(11))


@pytest.mark.xla
def test_loops_of_no_steps_and_functions_without_loops() -> None:
    told: Told = []

    def report(*step: Any) -> None:
        told.append(step)

    assert tracer.progress(lambda x: x + 1, report=report)(2) == 3
    assert not told
    tracer.compile(tracer.progress(program, report=report))(np.ones((1, 3)))
    assert steps_of(told)[:2] == [(0, 1), (1, 1)]
    told.clear()
    none = tracer.progress(
        lambda x: tracer.while_loop(lambda x: x > 1, lambda x: x / 2, x), report=report
    )
    assert float(tracer.compile(none)(1.0)) == 1.0
    assert steps_of(told) == [(0, 0)]


@pytest.mark.xla
def test_it_is_compiled_once() -> None:
    compiled = tracer.compile(tracer.progress(loss, report=lambda *_: None))
    for _ in range(3):
        compiled(X)
    assert len(compiled._programs) == 1


@pytest.mark.xla
def test_what_a_report_raises_is_raised() -> None:
    def report(loop: str, done: int, total: int | None) -> None:
        if done == 3:
            raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        tracer.compile(tracer.progress(loss, report=report))(X)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class Clock:
    """Seconds that pass with each look."""

    def __init__(self, seconds: float) -> None:
        self.now, self.seconds = 0.0, seconds

    def perf_counter(self) -> float:
        self.now += self.seconds
        return self.now


ROOM = "tracer.debug.progress"


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    stream = Terminal()
    # pytest sets the stream of the process again between fixture and test.
    monkeypatch.setattr(sys.modules[ROOM], "sys", SimpleNamespace(stderr=stream))
    monkeypatch.setattr(sys.modules[ROOM], "time", Clock(1.5))
    return stream


@pytest.mark.xla
def test_a_line_is_shown_and_stays(shown: Terminal) -> None:
    tracer.compile(tracer.progress(program))(X)
    first, second, rest = shown.getvalue().split("\n")
    place = r"loop at test_progress\.py:\d+: "
    lines = [line.rstrip() for line in first.split("\r")]
    assert re.fullmatch(place + "0 of 10 steps, 0 s", lines[1])
    assert re.fullmatch(place + "2 of 10 steps, 3 s, 12 s left", lines[3])
    assert re.fullmatch(place + r"10 steps, 15\.0 s", lines[-1])
    assert re.fullmatch(place + "2 steps, 3 s", second.split("\r")[3].rstrip())
    assert not rest


@pytest.mark.xla
def test_nothing_is_shown_in_files(capfd: pytest.CaptureFixture[str]) -> None:
    tracer.compile(tracer.progress(program))(X)
    assert capfd.readouterr() == ("", "")


def test_wrong_arguments() -> None:
    with pytest.raises(DTypeError, match="fun"):
        tracer.progress(None)  # type: ignore[arg-type]
    with pytest.raises(DTypeError, match="report"):
        tracer.progress(loss, report="loud")  # type: ignore[arg-type]
    for every in (0, 1.5, "10"):
        with pytest.raises(ArgumentError, match="every"):
            tracer.progress(loss, every=every)  # type: ignore[arg-type]
