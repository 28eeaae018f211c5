"""Each pass on random programs that are aimed at its pattern: what it writes computes the same.

With repeated operands, views and axes of one element; every saving is taken, however small, and
each test demands that the pass had something to do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as run_settings
from hypothesis import strategies as st

from tests.optimizer import pattern_programs
from tests.optimizer.algebra_programs import algebra
from tests.optimizer.random_programs import Program, settings
from tracer.ir import interpret, verify_same_signature
from tracer.optimizer.alias.in_place import in_place_pass
from tracer.optimizer.fuse import concatenations, horizontal
from tracer.optimizer.loops.fuse_scans import FUSE_SCANS
from tracer.optimizer.loops.scalar_replacement import scalar_replacement_pass
from tracer.optimizer.loops.small_calls import small_calls_pass
from tracer.optimizer.loops.split import split_graph
from tracer.optimizer.loops.unrolling import unrolling_pass
from tracer.optimizer.passes import Pass, PassLog, PassManager
from tracer.optimizer.pipeline import PlannerOptions
from tracer.optimizer.planner import Planner
from tracer.optimizer.rewrite.chains import SOLVES
from tracer.optimizer.rewrite.chains import solves as solves_module
from tracer.optimizer.rewrite.expand import EXPAND
from tracer.optimizer.rewrite.match import (
    CONTRACTIONS,
    INNER_PRODUCTS,
    UNROLL,
)
from tracer.optimizer.rewrite.simplify import COMMON_SUBEXPRESSIONS, CONSTANT_FOLDING
from tracer.optimizer.rewrite.sink import sink_pass
from tracer.optimizer.rewrite.transposes import TRANSPOSES
from tracer.target import DEFAULT_TARGET, Prices, Sizes, Target, planned_for

Strategy = st.SearchStrategy[Program]


@pytest.fixture(autouse=True, scope="module")
def _everything_pays():
    """Hypothesis allows no function-scoped fixture here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solves_module, "is_worthwhile", lambda *_: True)
        patch.setattr(horizontal, "_may_pay", lambda *_: True)
        patch.setattr(horizontal, "_is_enough", lambda *_: True)
        patch.setattr(horizontal, "_WORTHWHILE", 1e9)
        with planned_for(Target(sizes=Sizes(near_elements=0, match_elements=1, part_bytes=0))):
            yield


def assert_same(program: Program, after: Any) -> None:
    verify_same_signature(program.graph, after)
    with np.errstate(all="ignore"):
        pairs = zip(
            interpret(after, program.arrays), interpret(program.graph, program.arrays), strict=True
        )
        for got, want in pairs:
            exact = want.dtype.kind in "iub"
            scale = 0 if exact else 1e-9 * np.abs(want[np.isfinite(want)]).max(initial=1)
            np.testing.assert_allclose(got, want, rtol=0 if exact else 1e-8, atol=scale)


FREE = Target(prices=Prices(part_seconds=0))
"""A device on which packing costs nothing."""
LOOPS = (FUSE_SCANS, EXPAND, sink_pass(0), unrolling_pass(DEFAULT_TARGET), COMMON_SUBEXPRESSIONS)
LOOPS += (CONSTANT_FOLDING, scalar_replacement_pass(), in_place_pass(frozenset()))
CASES: dict[str, tuple[Callable[[], Strategy], Sequence[Pass]]] = {
    "kernels": (pattern_programs.kernels, [INNER_PRODUCTS, UNROLL, CONTRACTIONS]),
    "turned": (pattern_programs.turned, [TRANSPOSES]),
    "turned integers": (lambda: pattern_programs.turned("int32"), [TRANSPOSES]),
    "joined": (pattern_programs.joined, [concatenations.REDUCE_THROUGH_CONCATENATE]),
    "joined integers": (
        lambda: pattern_programs.joined("int32"),
        [concatenations.REDUCE_THROUGH_CONCATENATE],
    ),
    "lanes": (
        pattern_programs.lanes,
        [EXPAND, COMMON_SUBEXPRESSIONS, horizontal.horizontal_pass(FREE)],
    ),
    "solves": (pattern_programs.solves, [SOLVES]),
    "loops": (pattern_programs.loops, LOOPS),
    "small calls": (pattern_programs.loops, [EXPAND, small_calls_pass(DEFAULT_TARGET)]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_what_a_pass_writes_computes_the_same(name: str) -> None:
    strategy, passes = CASES[name]
    acted = dict.fromkeys((item.name for item in passes), 0)

    @run_settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(strategy())
    def check(program: Program) -> None:
        graph = program.graph
        for item in passes:
            after = PassManager().run(graph, [item])
            acted[item.name] += after is not graph
            if after is not graph:
                assert_same(program, after)
            graph = after

    check()
    assert {name for name, count in acted.items() if not count} == set()


KEEP_WHAT_IS_NOT_FINITE = ("turned", "joined", "lanes", "loops")
"""Those that only add in another order. Products and what is made of them (`chains`, `contraction`)
may give NaN where one order gives a number, as their files say."""


@pytest.mark.slow
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -0.0])
@pytest.mark.parametrize("name", KEEP_WHAT_IS_NOT_FINITE)
def test_infinity_and_nan_stay_where_they_are(name: str, value: float) -> None:
    strategy, passes = CASES[name]

    @run_settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(strategy(), st.integers(0, 20), settings())
    def check(program: Program, place: int, chosen: Any) -> None:
        for array in program.arrays:
            if array.size:
                array.reshape(-1)[place % array.size] = value
        graph = PassManager().run(program.graph, list(passes))
        assert_same(program, graph)
        assert_same(program, split_graph(program.graph, chosen, PassLog())[0])

    check()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["algebra", "kernels", "turned", "solves", "lanes"])
def test_slices_compute_the_same(name: str) -> None:
    strategy = algebra("float64") if name == "algebra" else CASES[name][0]()

    @run_settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(strategy, settings())
    def check(program: Program, chosen: Any) -> None:
        assert_same(program, split_graph(program.graph, chosen, PassLog())[0])

    check()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["algebra", "loops"])
def test_the_smallest_program_computes_the_same(name: str) -> None:
    """Donated arguments that are results too, results that are given twice."""
    strategy = algebra("float64") if name == "algebra" else pattern_programs.loops()

    @run_settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(strategy, st.booleans())
    def check(program: Program, is_donated: bool) -> None:
        donated = frozenset(range(len(program.graph.inputs)) if is_donated else ())
        baseline = Planner(program.graph, PlannerOptions(donated=donated)).baseline_peak_bytes
        limit = max(1, baseline // 2)
        planner = Planner(program.graph, PlannerOptions(limit_bytes=limit, donated=donated))
        assert_same(program, planner.smallest().graph)
        for candidate in planner.candidates():
            assert_same(program, candidate.graph)

    check()
