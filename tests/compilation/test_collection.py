"""Planning lets the garbage collector run rarely if asked to, and leaves it as it was."""

from __future__ import annotations

import gc

import pytest

import tracer
from tests.interrupted.moments import DROPPED, at_every_call
from tracer.compilation import collection
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


class _Collector:
    """Stands in for `gc`: Python functions, so that an interrupt may come before and after each."""

    def __init__(self) -> None:
        self.thresholds = (700, 10, 10)

    def get_threshold(self) -> tuple[int, ...]:
        found = self.thresholds
        _moment()
        return found

    def set_threshold(self, *thresholds: int) -> None:
        self.thresholds = thresholds
        _moment()


def _moment() -> None:
    """Is called."""


@DROPPED
def test_after_an_interrupt_the_next_use_gives_the_thresholds_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    collector = _Collector()
    monkeypatch.setattr(collection, "gc", collector)

    def use() -> None:
        with rare_collection():
            assert collector.thresholds[0] > 700

    def after() -> None:
        gc.collect()
        assert not collection._active
        use()
        assert collector.thresholds == (700, 10, 10)

    assert at_every_call(use, after) > 8
