"""Programs in parts that run side by side."""

from __future__ import annotations

import threading
import time
from typing import Any

from tests.interrupted.moments import DROPPED, interrupted_at
from tracer.lowering.run.lanes import LanesExecutable

_PATIENCE = 5.0
"""Seconds after which a call counts as one that waits forever."""


class Part:
    """A program that takes and returns a list."""

    input_types = output_types = notes = ()
    raw = device = None

    def __call__(self, *buffers: Any) -> list[Any]:
        """Return what was given, after other threads had their turn."""
        time.sleep(0)
        return list(buffers)


def side_by_side() -> list[Any]:
    """Call a program in three parts."""
    part: Any = Part()
    return LanesExecutable([part] * 3, part)("x")


@DROPPED
def test_an_interrupt_leaves_no_lock_and_no_thread_behind() -> None:
    found: list[list[Any]] = []
    assert side_by_side() == ["x"] * 3
    number = 1
    while interrupted_at(number, side_by_side):
        number += 1
        calling = threading.Thread(target=lambda: found.append(side_by_side()), daemon=True)
        calling.start()
        calling.join(_PATIENCE)
        assert found.pop() == ["x"] * 3
    assert number > 5
