"""The line that a call shows while it reads for long, with a made-up stream and clock."""

from __future__ import annotations

import gc
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

import tracer
from tests.compilation.test_progress import Clock, Terminal
from tests.interrupted.moments import DROPPED, at_every_call
from tests.storage.files import points, stored
from tracer.storage import Meter, metered


def test_it_says_how_much_of_how_much_how_fast_and_what_is_left() -> None:
    terminal, clock = Terminal(), Clock()
    meter = Meter("fit", lambda: 80_000_000_000, terminal, clock)
    clock.now += 1.9
    meter.count(1_000_000_000)
    assert terminal.getvalue() == ""
    clock.now += 8.1
    meter.count(3_000_000_000)
    wanted = "tracer: fit: 4 GB of 80 GB read, 400 MB/s, 3 min 10 s left"
    assert terminal.seen() == wanted
    clock.now += 0.1
    meter.count(1)
    assert terminal.seen() == wanted  # It is not written anew so soon.
    meter.end()
    assert terminal.seen() == ""


def test_what_is_read_more_often_than_was_known_has_no_end() -> None:
    terminal, clock = Terminal(), Clock()
    meter = Meter("fit", lambda: 1_000_000_000, terminal, clock)
    clock.now += 10
    meter.count(3_000_000_000)
    assert terminal.seen() == "tracer: fit: 3 GB read, 300 MB/s"


def test_hours_are_hours() -> None:
    terminal, clock = Terminal(), Clock()
    meter = Meter("fit", lambda: 4_000_000_000_000, terminal, clock)
    clock.now += 100
    meter.count(40_000_000_000)
    assert terminal.seen().endswith("2 h 45 min left")


@pytest.mark.xla
def test_a_call_is_metered_and_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("tracer.storage.meter.sys.stderr", terminal)
    monkeypatch.setattr("tracer.storage.meter.PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr("tracer.storage.meter._SECONDS_BETWEEN", 0.0)
    x = stored(tmp_path, points(6000))
    mean = tracer.compile(lambda x: x.mean(0), memory_limit="30kB")
    np.testing.assert_allclose(mean(x), points(6000).mean(0), atol=1e-6)
    assert "of 120 kB read" in terminal.getvalue()
    assert terminal.seen() == ""
    assert not x.meters


def _read_and_fail(x: tracer.StoredArray, meter: Meter) -> None:
    with metered(meter, [x]):
        x[:10]
        raise KeyError


def test_an_error_ends_it_too(tmp_path: Path) -> None:
    x, meter = stored(tmp_path, points()), Meter("fit", lambda: 0)
    with pytest.raises(KeyError):
        _read_and_fail(x, meter)
    assert meter.nbytes == 200
    assert not x.meters


def test_calls_of_other_threads_begin_while_one_is_counted(tmp_path: Path) -> None:
    x, other = stored(tmp_path, points()), Meter("other", lambda: 0)
    with ExitStack() as calls:

        class Meanwhile(Meter):
            def count(self, nbytes: int) -> None:
                calls.enter_context(metered(other, [x]))

        with metered(Meanwhile("fit", lambda: 0), [x]):
            x[:10]
        assert x[:10].nbytes == other.nbytes
    assert not x.meters


@DROPPED
def test_after_an_interrupt_no_meter_counts(tmp_path: Path) -> None:
    arrays = [stored(tmp_path, points()), tracer.open(tmp_path / "x.npy")]

    def read() -> None:
        with metered(Meter("fit", lambda: 0), arrays):
            for x in arrays:
                x[:10]

    def after() -> None:
        gc.collect()
        assert not any(x.meters for x in arrays)

    assert at_every_call(read, after) > 20
