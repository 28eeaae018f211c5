"""Loops of debug.interruptible end at an interrupt; no others do, and the process goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer.errors import DTypeError

ENDLESS = """
import signal, time
import tracer, tracer.numpy as tnp

{wrap}
def endless(x):
    return tracer.while_loop(lambda x: x[0] < 2, lambda x: tnp.sin(x) * tnp.cos(x), x)

def small(x):
    return tracer.fori_loop(0, 3, lambda i, x: x + i, x)

x = tnp.ones({size})
# As in a terminal: what a shell starts in the background ignores interrupts.
handler = signal.default_int_handler
signal.signal(signal.SIGINT, handler)
print("begins", flush=True)
try:
    endless(x)
except KeyboardInterrupt:
    print("interrupted", flush=True)
assert signal.getsignal(signal.SIGINT) is handler
print(float(tracer.compile(tracer.debug.interruptible(small))(1.0)), flush=True)
"""
INSIDE = "@tracer.compile\n@tracer.debug.interruptible"


def interrupted(code: str, seconds: float = 60) -> str:
    """Run a program and interrupt it two seconds later; return what it wrote, "" if it goes on."""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begins\n"
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return ""
        assert not err, err
        return out


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 1_000_000])
@pytest.mark.parametrize("wrap", [INSIDE, "@tracer.debug.interruptible"])
def test_an_endless_loop_ends(wrap: str, size: int) -> None:
    assert interrupted(ENDLESS.format(wrap=wrap, size=size)) == "interrupted\n4.0\n"


@pytest.mark.process
@pytest.mark.slow
def test_others_go_on() -> None:
    """What the function is for: if this fails, interrupts reach running programs by themselves."""
    assert interrupted(ENDLESS.format(wrap="@tracer.compile", size=1), seconds=3) == ""


@pytest.mark.xla
def test_values_and_structure_stay() -> None:
    def f(x: Any, *, y: Any) -> Any:
        def step(c: Any, row: Any) -> Any:
            c = tracer.cond(c.sum() > 0, lambda c: c + row, lambda c: c - row, c)
            return c, {"c": c.sum()}

        carry, rows = tracer.scan(step, x, y)
        return tracer.while_loop(lambda c: c.sum() < 50, lambda c: 2 * c, carry), rows

    x, y = np.ones(3), np.arange(12.0).reshape(4, 3)
    expected = f(tnp.array(x), y=tnp.array(y))
    for way in (lambda f: f, tracer.compile):
        found = way(tracer.debug.interruptible(f))(x, y=y)
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_array_equal(found[1]["c"], expected[1]["c"])


@pytest.mark.xla
def test_errors_of_the_program_come_as_they_are() -> None:
    def fail(i: Any) -> None:
        raise LookupError(int(i))

    def f(x: Any) -> Any:
        return tracer.fori_loop(0, 5, lambda i, x: (tracer.debug.callback(fail, i), x)[1], x)

    compiled = tracer.compile(tracer.debug.interruptible(f))
    for _ in range(2):
        with pytest.raises(LookupError, match="0"):
            compiled(1.0)


@pytest.mark.xla
def test_other_threads_run_it_too() -> None:
    compiled = tracer.compile(
        tracer.debug.interruptible(lambda x: tracer.fori_loop(0, 100, lambda i, x: x + i, x))
    )
    found: list[float] = []
    threads = [threading.Thread(target=lambda: found.append(float(compiled(1)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [4951.0] * 4


def test_no_function() -> None:
    with pytest.raises(DTypeError, match="no function"):
        tracer.debug.interruptible(3.0)  # type: ignore[arg-type]
