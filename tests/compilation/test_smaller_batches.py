"""A last, smaller batch is planned as the larger ones were."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer.compilation.candidate_compiler import CandidateCompiler
from tracer.compilation.task import Choice
from tracer.optimizer.planner import Planner

pytestmark = pytest.mark.xla
LIMIT = "6MB"


def loss(weights: Any, x: Any, y: Any) -> Any:
    for weight in weights:
        x = tnp.tanh(x @ weight)
    return ((x - y) ** 2).mean()


def batch(size: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((128, 128), dtype=np.float32) / 12 for _ in range(8)]
    return weights, *rng.standard_normal((2, size, 128), dtype=np.float32)


def step(**options: Any) -> Any:
    return tracer.compile(tracer.grad(loss), memory_limit=LIMIT, **options)


def searches(function: Any, *args: Any) -> int:
    """How often candidates are searched for, to plan for these arguments."""
    with mock.patch.object(
        CandidateCompiler, "compile", autospec=True, side_effect=CandidateCompiler.compile
    ) as searched:
        function.plan(*args)
    return int(searched.call_count)


def test_it_is_not_searched_for_and_computes_the_same() -> None:
    function = step()
    assert searches(function, *batch(4000)) > 0
    assert searches(function, *batch(3100)) == 0
    plan = function.plan(*batch(3100))
    assert plan.compiled_bytes <= plan.limit_bytes
    assert "planned as for float32[4000,128]" in plan.notes
    alone = tracer.compile(tracer.grad(loss))(*batch(3100))
    for mine, theirs in zip(function(*batch(3100)), alone, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-4, atol=1e-7)
    assert function.check(*batch(3100)).ok


def test_larger_batches_and_other_types_are_planned_anew() -> None:
    function = step()
    function.plan(*batch(3100))
    assert searches(function, *batch(3500)) > 0
    weights, x, y = batch(2000)
    assert searches(function, weights, x, y.astype(np.float64)) > 0


def test_what_fits_whole_is_not_made_in_slices() -> None:
    function = step()
    assert function.plan(*batch(4000)).loops
    plan = function.plan(*batch(100))
    assert not plan.loops
    assert not any("planned as" in note for note in plan.notes)


def test_a_way_that_breaks_the_limit_is_given_up() -> None:
    function = step()
    function.plan(*batch(4000))
    with mock.patch.object(Planner, "made_in", return_value=None):
        assert searches(function, *batch(3100)) > 0
    assert function.plan(*batch(3100)).compiled_bytes <= 6_000_000


def test_each_axis_must_be_no_longer() -> None:
    types = [tracer.ShapeDtype((4, 6), "float32"), tracer.ShapeDtype((6,), "int32")]
    choice = Choice(tuple(types), mock.Mock(), mock.Mock())

    def is_known(*shapes: tuple[tuple[int, ...], str]) -> bool:
        return choice.is_for_larger(tuple(tracer.ShapeDtype(*shape) for shape in shapes))

    assert is_known(((4, 6), "float32"), ((5,), "int32"))
    assert not is_known(((4, 7), "float32"), ((5,), "int32"))
    assert not is_known(((4, 6), "float64"), ((5,), "int32"))
    assert not is_known(((4, 6, 1), "float32"), ((5,), "int32"))
    assert not is_known(((4, 6), "float32"))
