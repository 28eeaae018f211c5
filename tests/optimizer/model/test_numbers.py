"""What was worked out for a program is found again for an equal one, on the same target only."""

from __future__ import annotations

from dataclasses import replace

from tests.optimizer.graphs import traced
from tracer.ir import Graph
from tracer.optimizer.model import numbers
from tracer.optimizer.model.numbers import Numbers
from tracer.target import current_target, planned_for

VECTOR = ((5,), "float32")


def twice(graph: Graph, calls: list[Graph]) -> Numbers[int]:
    def find(given: Graph, *others: object) -> int:
        calls.append(given)
        return len(calls)

    known = Numbers(find)
    assert known(graph, 1) == known(graph, 1) == 1
    return known


def test_equal_programs_are_looked_at_once() -> None:
    calls: list[Graph] = []
    known = twice(traced(lambda x: x + x, VECTOR), calls)
    assert known(traced(lambda x: x + x, VECTOR), 1) == 1
    assert known(traced(lambda x: x * x, VECTOR), 1) == 2
    assert known(traced(lambda x: x + x, VECTOR), 2) == 3


def test_another_target_is_another_question() -> None:
    calls: list[Graph] = []
    graph = traced(lambda x: x + x, VECTOR)
    known = twice(graph, calls)
    target = current_target()
    with planned_for(replace(target, cache_bytes=2 * target.cache_bytes)):
        assert known(graph, 1) == 2


def test_what_is_known_is_bounded(monkeypatch) -> None:
    monkeypatch.setattr(numbers, "_MOST", 2)
    calls: list[Graph] = []
    graph = traced(lambda x: x + x, VECTOR)
    known = twice(graph, calls)
    for other in range(2, 6):
        known(graph, other)
        assert len(known._known) <= 2
    assert known(graph, 1) == 6
