"""Planning lets the garbage collector run rarely if asked to, and leaves it as it was."""

from __future__ import annotations

import gc

import pytest

import tracer
from tracer.compilation.collection import rare_collection
from tracer.lowering.cpu import host_allocator


@rare_collection()
def failing() -> None:
    raise ZeroDivisionError


def test_thresholds_come_back_also_after_errors_and_when_nested() -> None:
    before = gc.get_threshold()
    with rare_collection():
        assert gc.get_threshold()[0] > before[0]
        with pytest.raises(ZeroDivisionError):
            failing()
        assert gc.get_threshold()[0] > before[0]
    assert gc.get_threshold() == before


@pytest.mark.xla
@pytest.mark.parametrize("is_tuned", [False, True])
def test_a_plan_changes_them_only_for_who_asked_and_only_meanwhile(
    is_tuned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_allocator._TUNED, "is_on", is_tuned)
    before = gc.get_threshold()
    seen = []

    def program(x: tracer.Array) -> tracer.Array:
        seen.append(gc.get_threshold())
        return x + 1

    tracer.compile(program).plan(tracer.ShapeDtype((3,), "float32"))
    assert (seen[0][0] > before[0]) == is_tuned
    assert gc.get_threshold() == before
