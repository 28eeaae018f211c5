"""The smallest limit: what is promised without a limit is found again under it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import tracer
import tracer.numpy as tnp
from tracer.compilation.candidate_compiler import CompiledCandidate
from tracer.compilation.candidates import CandidateSearch
from tracer.compilation.task import Task
from tracer.ir import ShapeDtype
from tracer.optimizer.budget import spending

POINTS, WEIGHTS = ShapeDtype((23, 5), "float64"), ShapeDtype((6, 5, 5), "float64")


def branches_in_scans_in_a_map(x: Any, w: Any) -> Any:
    def row(start: Any) -> Any:
        def step(carry: Any, new: Any) -> Any:
            carry = tracer.cond(
                carry.sum() > new.sum(),
                lambda a: tnp.sin(a * w[0, 0]) + new,
                lambda a: a * 0.9 - new * start,
                carry,
            )
            return carry, (carry * start).max()

        last, largest = tracer.scan(step, start, x[:7])
        return (last**2).sum() + largest.sum()

    return tracer.map(row, x).sum() ** 2


def task(monkeypatch: pytest.MonkeyPatch, planning_seconds: float) -> Task:
    """Return what is planned for the gradient."""
    asked, compiled = [], CandidateSearch.compile

    def recorded(self: CandidateSearch) -> CompiledCandidate:
        asked.append(self.task)
        return compiled(self)

    monkeypatch.setattr(CandidateSearch, "compile", recorded)
    function = tracer.grad(branches_in_scans_in_a_map, argnums=(0, 1))
    tracer.compile(function, planning_seconds=planning_seconds).plan(POINTS, WEIGHTS)
    return asked[0]


@pytest.mark.xla
def test_a_search_that_is_cut_does_not_depend_on_what_was_known_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = task(monkeypatch, planning_seconds=1.2)
    least = CandidateSearch(asked).least_bytes()
    search = CandidateSearch(replace(asked, limit=least + 500))
    with spending(None):
        search.first()
        search._smallest_predicted  # noqa: B018 - remembered
    # Under a limit, too, before it is refused.
    assert search._last().nbytes == least
    assert search.least_bytes() == least
