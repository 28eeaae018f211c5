"""The search over cuts: programs of less memory than one cut after the other leads to."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import evaluated
from tracer.array.trace import trace
from tracer.optimizer.budget import Budget, spending
from tracer.optimizer.pipeline import PlannerOptions
from tracer.optimizer.planner import Planner

ROWS, COLUMNS = 240, 96


def normalised(x: Any, y: Any) -> Any:
    """A matrix whose rows and columns are both reduced: one axis is cheap, the other small."""
    matrix = x[:, None] * y
    matrix = matrix / (1 + (matrix**2).sum(1, keepdims=True))
    matrix = matrix - matrix.max(1, keepdims=True)
    return x @ matrix, matrix @ y


def repeated(x: Any, y: Any) -> Any:
    matrix = (x[:, None] * y)[None].transpose(0, 2, 1)
    return tnp.sort((matrix * matrix).reshape(COLUMNS, ROWS), 0)[0], (matrix * x).sum((0, 2))


def gradient(x: Any, y: Any) -> Any:
    return tracer.grad(lambda x, y: sum(part.sum() for part in normalised(x, y)), (0, 1))(x, y)


def inputs(rows: int = ROWS, columns: int = COLUMNS) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.standard_normal(size) for size in (rows, columns)]


def planner(function: Any, **options: Any) -> Planner:
    return Planner(trace(function, inputs()).graph, PlannerOptions(**options))


def test_a_smaller_program_is_found() -> None:
    search = planner(normalised)
    found = search.with_least_cuts()
    assert found[0].peak_bytes < 0.9 * search.smallest().peak_bytes
    assert [item.peak_bytes for item in found] == sorted(item.peak_bytes for item in found)
    loops = found[0].loops
    assert {(row.chunk, row.trips) for row in loops} == {(1, ROWS)}


@pytest.mark.parametrize("function", [normalised, repeated, gradient])
def test_values_are_those_of_the_program(function: Any) -> None:
    search = planner(function)
    arguments = inputs()
    wanted = evaluated(search.graph, *arguments)
    found = search.with_least_cuts()
    assert found
    for candidate in found:
        for one, other in zip(evaluated(candidate.graph, *arguments), wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_without_a_budget_nothing_is_searched() -> None:
    with spending(Budget(0)):
        assert planner(normalised).with_least_cuts() == []


def test_a_search_that_is_cut_is_not_kept() -> None:
    search = planner(normalised)
    with spending(Budget(100)):
        few = search.with_least_cuts()
    assert len(search.with_least_cuts()) > len(few)


def test_programs_of_many_nodes_are_left_alone() -> None:
    def long(x: Any, y: Any) -> Any:
        matrix = x[:, None] * y
        for _ in range(200):
            matrix = tnp.sin(matrix)
        return matrix.sum()

    assert planner(long).with_least_cuts() == []


def test_programs_that_may_not_be_split_are_left_alone() -> None:
    assert planner(normalised, split=False).with_least_cuts() == []
    assert planner(normalised, disabled=frozenset({"split"})).with_least_cuts() == []


@pytest.mark.xla
def test_the_smallest_limit_is_smaller_and_met() -> None:
    arguments = inputs(1200, 960)

    def gram(x: Any, y: Any) -> Any:
        matrix = x[:, None] * y
        matrix = matrix / (1 + (matrix**2).sum(1, keepdims=True))
        matrix = matrix - matrix.max(1, keepdims=True)
        return (matrix @ matrix.T) @ x

    with mock.patch.object(Planner, "with_least_cuts", return_value=[]):
        before = tracer.compile(gram).plan(*arguments).minimum_bytes
    least = tracer.compile(gram).plan(*arguments).minimum_bytes
    assert least < 0.85 * before
    limited = tracer.compile(gram, memory_limit=least)
    assert limited.plan(*arguments).compiled_bytes <= least
    wanted = gram(*arguments)
    np.testing.assert_allclose(limited(*arguments), wanted, rtol=1e-9, atol=1e-9)
