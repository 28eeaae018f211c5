"""Random programs with callbacks: whatever a plan does, each sees each of its values once."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as run_settings
from hypothesis import strategies as st

import tracer
import tracer.numpy as tnp
from tests.optimizer.random_programs import Program, programs
from tests.optimizer.watched_programs import Watched
from tracer.array.convert import as_array
from tracer.array.dispatch import apply_graph
from tracer.array.trace import trace
from tracer.autodiff import value_and_gradient
from tracer.ir import Graph, verify
from tracer.optimizer.final_passes import FinalPasses, legalized
from tracer.optimizer.pass_entry import Context
from tracer.optimizer.passes import PassManager
from tracer.optimizer.pipeline import STANDARD_PASSES, PlannerOptions
from tracer.optimizer.planner import Planner

TOLERANCE = 1e-9
SHARES = st.sampled_from([0.05, 0.2, 0.6])


def watched(graph: Graph, seed: int, share: float) -> Watched:
    return Watched(graph, random.Random(seed), share, ordered=seed % 2 == 0)


def assert_all_see_the_same(program: Watched, arrays: list[Any], forms: list[Graph]) -> None:
    expected = program.interpreted(program.graph, arrays)
    for form in forms:
        verify(form)
        program.check(program.interpreted(form, arrays), expected, TOLERANCE)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["integer", "float"])
def test_every_standard_pass(kind: str) -> None:
    @run_settings(max_examples=60)
    @given(programs(kind), st.integers(0, 99), SHARES)
    def check(program: Program, seed: int, share: float) -> None:
        shown = watched(program.graph, seed, share)
        forms, graph = [], shown.graph
        for item in STANDARD_PASSES:
            graph = PassManager().run(graph, [item])
            forms.append(graph)
        unique = {form.fingerprint: form for form in forms}
        assert_all_see_the_same(shown, program.arrays, list(unique.values()))

    check()


@pytest.mark.slow
@run_settings(max_examples=40)
@given(programs("smooth", maximum_steps=8), st.integers(0, 99), SHARES)
def test_gradients_see_the_values_of_the_forward_pass(
    program: Program, seed: int, share: float
) -> None:
    shown = watched(program.graph, seed, share)
    gradient = value_and_gradient(shown.graph, range(len(program.graph.inputs)))
    planned = PassManager().run(gradient, STANDARD_PASSES)
    assert_all_see_the_same(shown, program.arrays, [gradient, planned])


def forms_of(graph: Graph, share: float) -> list[Graph]:
    """Return what the planner would compile under a limit, in its last forms."""
    unlimited = Planner(graph, PlannerOptions())
    options = PlannerOptions(limit_bytes=max(1, int(share * unlimited.baseline_peak_bytes)))
    planner, final = Planner(graph, options), FinalPasses(options)
    found = []
    for candidate in (*planner.candidates(), planner.smallest()):
        found.append(candidate.graph)
        ordered = final.ordered(candidate)
        for one in filter(None, (candidate, ordered)):
            kept = final.kept_in_place(final.in_small_calls(one))
            found += [kept.graph, legalized(kept.graph, Context(options))[0]]
    return list({form.fingerprint: form for form in found}.values())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["integer", "float"])
def test_every_candidate_under_limits(kind: str) -> None:
    @run_settings(max_examples=25)
    @given(programs(kind, maximum_steps=8), st.integers(0, 99), SHARES, st.floats(0.3, 0.95))
    def check(program: Program, seed: int, shown: float, limit: float) -> None:
        program_ = watched(program.graph, seed, shown)
        assert_all_see_the_same(program_, program.arrays, forms_of(program_.graph, limit))

    check()


def nested(x: Any, y: Any) -> Any:
    """Loops in loops, branches, sums of large products, a stack."""

    def inner(i: Any, c: Any) -> Any:
        return tnp.tanh(c + i * 0.1)

    def step(carry: Any, row: Any) -> tuple[Any, Any]:
        distances = ((carry[:, None, :] - y[None]) ** 2).sum(-1)
        carry = tracer.fori_loop(0, 3, inner, carry + row)
        best = tracer.cond(row.sum() > 0, lambda d: d.min(1), lambda d: d.max(1), distances)
        return carry, best

    carry, bests = tracer.scan(step, x, x[:5])
    total = tracer.while_loop(lambda s: s.sum() < 40, lambda s: s + tnp.abs(s) + 1, carry)
    return tnp.exp(-((total[:, None] - y[None]) ** 2).sum(-1)).sum() + bests.sum()


def chains(x: Any, y: Any) -> Any:
    """Large values that are read late, so that they are computed again under a limit."""
    parts = [tnp.sin(x @ y.T * (k + 1)) for k in range(4)]
    total = sum(part.sum() for part in parts)
    for part in reversed(parts):
        total = total + (part * total).mean()
    return total


ARRAYS = [
    np.random.default_rng(0).standard_normal((40, 6)),
    np.random.default_rng(1).standard_normal((50, 6)),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "differentiated"), [(nested, False), (chains, False), (chains, True)]
)
def test_programs_with_loops_under_limits(function: Any, differentiated: bool) -> None:
    traced = trace(function, ARRAYS).graph
    for seed in range(4):
        program = watched(traced, seed, (0.02, 0.1, 0.3, 1.0)[seed])
        graph = program.graph
        if differentiated:
            graph = value_and_gradient(graph, [0, 1])
        forms = [graph, *(form for share in (0.4, 0.8) for form in forms_of(graph, share))]
        assert_all_see_the_same(program, ARRAYS, forms)


@pytest.mark.xla
@pytest.mark.slow
@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("function", [nested, chains])
def test_compiled_programs_see_what_the_interpreter_sees(function: Any, ordered: bool) -> None:
    traced = trace(function, ARRAYS).graph
    program = Watched(traced, random.Random(3), 0.1, ordered=ordered)
    expected = program.interpreted(program.graph, ARRAYS)

    def run(*arrays: Any) -> Any:
        return apply_graph(program.graph, [as_array(array) for array in arrays])[0]

    whole = tracer.compile(run)
    plan = whole.plan(*ARRAYS)
    limits = {plan.minimum_bytes, (plan.minimum_bytes + plan.compiled_bytes) // 2}
    for compiled in (whole, *(tracer.compile(run, memory_limit=limit) for limit in limits)):
        found = program.seen(lambda compiled=compiled: compiled(*ARRAYS))
        program.check(found, expected, TOLERANCE)
        if ordered:
            continue
        # Not promised, and so it is here: XLA is given the order of the plan.
        assert sorted(number for number, _ in found) == sorted(number for number, _ in expected)
