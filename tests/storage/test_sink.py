"""A result on its way to storage, interrupted at every call."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import tracer
from tests.interrupted.moments import DROPPED, interrupted_at
from tracer.storage import Sink

TYPE = tracer.ShapeDtype((4,), "float64")
BLOCK = np.arange(2.0)


class Watched:
    """A sink whose writes take a while, and are counted."""

    def __init__(self, path: Path) -> None:
        self.sink = Sink(path, TYPE)
        self.begun = self.ended = 0
        self._put = self.sink.result.put
        self.sink.result.put = self._slowly  # type: ignore[method-assign]

    def _slowly(self, starts: tuple[int, ...], block: Any) -> None:
        self.begun += 1
        time.sleep(0.001)
        self._put(starts, block)
        self.ended += 1

    def write(self) -> None:
        self.sink.write((0,), BLOCK)
        self.sink.write((2,), BLOCK)
        self.sink.finish()


@DROPPED
def test_what_is_given_up_writes_no_more_and_leaves_nothing(tmp_path: Path) -> None:
    path, number, is_interrupted = tmp_path / "out.npy", 1, True
    while is_interrupted:
        watched = Watched(path)
        is_interrupted = interrupted_at(number, watched.write)
        watched.sink.give_up()
        assert watched.begun == watched.ended, number
        left = [found.name for found in tmp_path.iterdir()]
        assert left in ([], ["out.npy"]), number
        path.unlink(missing_ok=True)
        number += 1
    assert number > 20


@DROPPED
def test_what_was_not_begun_leaves_nothing(tmp_path: Path) -> None:
    number, is_interrupted = 1, True
    while is_interrupted:
        made: list[Sink] = []
        is_interrupted = interrupted_at(number, partial(_make, made, tmp_path / "out.npy"))
        for sink in made:
            sink.give_up()
        assert [*tmp_path.iterdir()] == [], number
        number += 1
    assert number > 20


def _make(made: list[Sink], path: Path) -> None:
    made.append(Sink(path, TYPE))
