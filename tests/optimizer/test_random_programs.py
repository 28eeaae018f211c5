"""Random programs: split or rewritten, they compute what they computed before.

Integer programs must agree exactly. Float programs run in float64 on values of size about 1 with
some ten roundings in a row, most of them squashed by tanh: 1e-9 is thousands of roundings more than
reordered sums can cost, and far below what any wrong element would show.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as run_settings

from tests.optimizer.random_programs import Program, programs, settings
from tracer.autodiff import value_and_gradient
from tracer.ir import Graph, interpret, verify, verify_same_signature
from tracer.optimizer.loops.split import SplitSettings, split_graph
from tracer.optimizer.passes import PassLog, PassManager
from tracer.optimizer.pipeline import STANDARD_PASSES, PlannerOptions
from tracer.optimizer.planner import Planner
from tracer.optimizer.rewrite.chains import cost
from tracer.target import Sizes, Target, planned_for

FLOAT_TOLERANCE = 1e-9
many = run_settings(max_examples=200)
some = run_settings(max_examples=100)


@pytest.fixture(autouse=True, scope="module")
def _matches_of_any_size():
    """Hypothesis allows no function-scoped fixture here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cost, "MINIMUM_FLOPS", 1)
        with planned_for(Target(sizes=Sizes(match_elements=1))):
            yield


def assert_same(program: Program, before: Graph, after: Graph, tolerance: float) -> None:
    verify(after)
    verify_same_signature(before, after)
    expected = interpret(before, program.arrays)
    for got, want in zip(interpret(after, program.arrays), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def assert_split_is_same(
    program: Program, graph: Graph, chosen: SplitSettings, tolerance: float
) -> None:
    result, rows = split_graph(graph, chosen, PassLog())
    assert_same(program, graph, result, tolerance)
    assert bool(rows) == (result is not graph)
    for row in rows:
        assert row.trips >= 2
        assert abs(row.remainder) < row.chunk
        assert row.extra_flops >= 0


@pytest.mark.slow
@many
@given(programs("integer"), settings())
def test_split_integers_exactly(program: Program, chosen: SplitSettings) -> None:
    assert_split_is_same(program, program.graph, chosen, 0)


@pytest.mark.slow
@many
@given(programs("float"), settings())
def test_split_floats(program: Program, chosen: SplitSettings) -> None:
    assert_split_is_same(program, program.graph, chosen, FLOAT_TOLERANCE)


@pytest.mark.slow
@some
@given(programs("smooth", maximum_steps=8), settings())
def test_split_gradients(program: Program, chosen: SplitSettings) -> None:
    graph = value_and_gradient(program.graph, range(len(program.graph.inputs)))
    assert_split_is_same(program, graph, chosen, FLOAT_TOLERANCE)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "tolerance"), [("integer", 0), ("float", FLOAT_TOLERANCE)])
def test_every_standard_pass(kind: str, tolerance: float) -> None:
    @some
    @given(programs(kind))
    def check(program: Program) -> None:
        graph = program.graph
        for item in STANDARD_PASSES:
            after = PassManager().run(graph, [item])
            exact = item.exact and kind == "integer"
            assert_same(program, graph, after, 0 if exact else FLOAT_TOLERANCE)
            graph = after

    check()


@pytest.mark.slow
@some
@given(programs("smooth", maximum_steps=8))
def test_every_standard_pass_on_gradients(program: Program) -> None:
    graph = value_and_gradient(program.graph, range(len(program.graph.inputs)))
    for item in STANDARD_PASSES:
        after = PassManager().run(graph, [item])
        assert_same(program, graph, after, FLOAT_TOLERANCE)
        graph = after


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "tolerance"), [("integer", 0), ("float", FLOAT_TOLERANCE)])
def test_every_candidate_of_the_planner(kind: str, tolerance: float) -> None:
    @some
    @given(programs(kind, maximum_steps=8), settings())
    def check(program: Program, chosen: SplitSettings) -> None:
        unlimited = Planner(program.graph, PlannerOptions())
        limit = max(1, int(0.7 * unlimited.baseline_peak_bytes))
        planner = Planner(
            program.graph,
            PlannerOptions(limit_bytes=limit, machine=Target(cache_bytes=chosen.working_set_bytes)),
        )
        for candidate in planner.candidates():
            assert candidate.peak_bytes <= limit
            assert_same(program, program.graph, candidate.graph, tolerance)
        smallest = planner.smallest()
        assert smallest.peak_bytes <= unlimited.smallest().peak_bytes
        assert_same(program, program.graph, smallest.graph, tolerance)
        by_user = Planner(
            program.graph,
            PlannerOptions(threshold_bytes=chosen.threshold_bytes, split_bytes=chosen.split_bytes),
        )
        for candidate in by_user.candidates():
            assert_same(program, program.graph, candidate.graph, tolerance)

    check()
