"""A few interrupts of each of the quick programs; `python -m tests.interrupted` makes many more."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest

import tracer
from tests.interrupted import state
from tests.interrupted.moments import DROPPED
from tests.interrupted.worker import begun
from tracer.lowering.run.budget import ASKED

_QUICK = "traced", "called", "budget_kept", "looped", "calling", "trained"


@pytest.mark.xla
@DROPPED
@pytest.mark.parametrize("name", _QUICK)
def test_an_interrupt_leaves_nothing(name: str) -> None:
    with begun(name) as attack:
        said = [attack.attempt(random.Random(f"{name} {number}")) for number in range(8)]
    assert [wrong for _, wrong in said if wrong] == []
    assert any(outcome == "interrupted" for outcome, _ in said)


@pytest.mark.xla
def test_what_is_left_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "_PATIENCE", 0.0)
    before = state.State(tmp_path, may_go_on=False)
    assert before.left() == []
    end = threading.Event()
    thread = threading.Thread(target=end.wait, name="more")
    tracer.memory_budget("1GB")
    assert ASKED.budget is not None
    ASKED.budget._running[object()] = 1
    path = tmp_path / "out.npy.tracer-lock"
    thread.start()
    try:
        with path.open("w"):
            left = before.left()
    finally:
        tracer.memory_budget(None)
        end.set()
        thread.join()
    named = f"file {path.name}"
    assert left.pop(0).startswith(f"thread {thread.name} threading.py:")
    assert left == [f"open {path}", "a ticket of the budget", named]
