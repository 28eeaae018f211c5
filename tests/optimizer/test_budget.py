"""`planning_seconds=`: the search ends early, the plan says so, and what is promised is kept."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer.errors import ArgumentError
from tracer.optimizer.budget import Budget, is_search_cut, may_go_on, spend, spending

X = tracer.ShapeDtype((1200, 3), "float32")


def kernel_product(x: Any) -> Any:
    return tnp.exp(-((x[:, None] - x) ** 2).sum(-1)) @ x


def test_a_budget_is_spent_inside_only() -> None:
    with spending(Budget(10)) as budget:
        spend(9)
        assert may_go_on()
        assert not is_search_cut()
        with spending(None):
            spend(5)
            assert may_go_on()
        spend(1)
        assert not may_go_on()
        assert budget.is_cut
        assert is_search_cut()
    spend(100)
    assert may_go_on()
    assert not is_search_cut()


@pytest.mark.xla
@pytest.mark.parametrize("limit", ["300kB", "1MB"])
def test_a_search_that_is_cut_keeps_the_limit_and_the_values(limit: str) -> None:
    x = np.random.default_rng(0).standard_normal(X.shape).astype(X.dtype)
    whole = tracer.compile(kernel_product, memory_limit=limit)
    cut = tracer.compile(kernel_product, memory_limit=limit, planning_seconds=0)
    assert not whole.plan(x).is_search_cut
    plan = cut.plan(x)
    assert plan.is_search_cut
    assert plan.limit_bytes is not None
    assert plan.compiled_bytes <= plan.limit_bytes
    assert "cut after planning_seconds" in str(plan)
    np.testing.assert_allclose(cut(x), whole(x), rtol=1e-3, atol=1e-3)


@pytest.mark.xla
def test_a_program_that_fits_as_written_is_not_cut() -> None:
    plan = tracer.compile(lambda x: x + 1, memory_limit="1MB", planning_seconds=0).plan(X)
    assert not plan.is_search_cut
    assert [row.what for row in plan.candidates] == ["whole"]
    assert plan.candidates[0].compiled_bytes == plan.compiled_bytes
    assert plan.to_dict()["candidates"][0]["what"] == "whole"


@pytest.mark.xla
@pytest.mark.slow
def test_a_busy_machine_makes_the_same_plan() -> None:
    def planned() -> tracer.Plan:
        compiled = tracer.compile(kernel_product, memory_limit="300kB", planning_seconds=0.02)
        return compiled.plan(X)

    quiet, stop = planned(), threading.Event()

    def work() -> None:
        while not stop.is_set():
            sum(range(1000))
            time.sleep(0)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        busy = planned()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert busy.loops == quiet.loops
    assert busy.candidates == quiet.candidates
    assert busy.is_search_cut == quiet.is_search_cut


@pytest.mark.xla
def test_a_refusal_says_that_the_search_was_cut() -> None:
    with pytest.raises(tracer.MemoryLimitError, match="found within planning_seconds") as caught:
        tracer.compile(kernel_product, memory_limit="30kB", planning_seconds=0).plan(X)
    assert "a longer search may find less" in caught.value.mend


@pytest.mark.parametrize("value", [-1, float("nan"), "1s", True])
def test_what_is_no_time_is_refused(value: Any) -> None:
    with pytest.raises(ArgumentError, match="planning_seconds is a number of seconds"):
        tracer.compile(kernel_product, planning_seconds=value)
