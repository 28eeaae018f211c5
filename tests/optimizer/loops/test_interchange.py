"""Programs in lanes: blocks of an axis outside, the loop over steps inside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import ops_of
from tracer.array.trace import trace
from tracer.errors import ExecutionError
from tracer.ir import Graph, interpret, verify
from tracer.lowering.run.lanes import LanesExecutable
from tracer.optimizer.loops.interchange import interchanged
from tracer.optimizer.passes import PassLog, PassManager
from tracer.optimizer.pipeline import standard_passes
from tracer.target import DEFAULT_TARGET, Prices

Array = np.ndarray[Any, Any]
SLOW = replace(DEFAULT_TARGET, prices=Prices(vector_rate=1e5))
"""A machine on which everything takes long enough."""
STATE = np.linspace(-1.0, 1.0, 64 * 3, dtype=np.float32).reshape(64, 3)
FORCE = np.linspace(0.0, 1.0, 4 * 64, dtype=np.float32).reshape(4, 64)


def prepared(function: Callable[..., Any], *arrays: Array) -> Graph:
    return PassManager().run(trace(function, arrays).graph, standard_passes())


def in_lanes(function: Callable[..., Any], *arrays: Array) -> tuple[int, PassLog]:
    """Cut a program in lanes, check that they give the same, and return how many there are."""
    graph, log = prepared(function, *arrays), PassLog()
    lanes = interchanged(graph, SLOW, log)
    if lanes is None:
        return 0, log
    found = []
    for lane in lanes.graphs:
        verify(lane)
        found += interpret(lane, arrays)
    verify(lanes.join)
    wanted = interpret(graph, arrays)
    for one, other in zip(interpret(lanes.join, found), wanted, strict=True):
        np.testing.assert_array_equal(one, other)
    return len(lanes.graphs), log


def pushed(state: Any, force: Any, steps: int = 5) -> Any:
    def body(i: Any, s: Any) -> Any:
        x, v = s[:, 0], s[:, 1]
        return tnp.stack([x + v, v - tnp.sin(x) + force[i % 4], s[:, 2] * x], axis=1)

    return tracer.fori_loop(0, steps, body, state)


def test_a_lane_for_each_core() -> None:
    count, log = in_lanes(pushed, STATE, FORCE)
    assert count == 2
    assert "2 lanes of 32, 32 along axis 0 of the result" in log.applied[0]


def test_the_last_lane_takes_the_rest() -> None:
    state, force = STATE[:50], np.ascontiguousarray(FORCE[:, :50])
    assert "2 lanes of 16, 34" in in_lanes(pushed, state, force)[1].applied[0]


def test_loops_inside_run_over_the_block() -> None:
    graph = prepared(pushed, STATE, FORCE)
    lanes = interchanged(graph, SLOW, PassLog())
    assert lanes is not None
    (loop,) = [node for node in lanes.graphs[0].nodes if node.name == "while"]
    assert {type.shape for type in loop.types if type.ndim} == {(32,), (4, 32)}
    assert ops_of(lanes.join) == ["concatenate"]


def test_several_outputs_and_stacked_results() -> None:
    def run(state: Any, force: Any) -> Any:
        def step(s: Any, f: Any) -> Any:
            new = s * 0.5 + f[:, None]
            return new, new[:, 0]

        last, stacked = tracer.scan(step, state, force)
        return last, stacked, (last * 2).sum(axis=1)

    assert in_lanes(run, STATE, FORCE)[0] == 2


def test_loops_in_loops() -> None:
    def run(state: Any, force: Any) -> Any:
        def outer(i: Any, s: Any) -> Any:
            return tracer.fori_loop(0, 3, lambda j, t: tnp.sin(t) + force[j][:, None], s)

        return tracer.fori_loop(0, 3, outer, state)

    assert in_lanes(run, STATE, FORCE)[0] == 2


def test_a_batched_loop() -> None:
    def one(x: Any) -> Any:
        return tracer.fori_loop(0, 9, lambda i, v: tnp.cos(v) * x, x)

    assert in_lanes(tracer.vmap(one), STATE)[0] == 2


# Guards.


def why_not(function: Callable[..., Any], *arrays: Array) -> str:
    count, log = in_lanes(function, *arrays)
    assert count == 0
    return " / ".join(map(str, log.refusals))


def test_environments_that_meet_stay_together() -> None:
    def run(state: Any) -> Any:
        return tracer.fori_loop(0, 5, lambda i, s: s - s.mean(axis=0), state)

    assert "parallel" in why_not(run, STATE)


def test_a_sum_over_all_at_the_end_stays() -> None:
    assert "parallel" in why_not(lambda s, f: pushed(s, f).sum(), STATE, FORCE)


def test_what_is_shared_and_long_is_not_computed_twice() -> None:
    def run(state: Any) -> Any:
        shared = tracer.fori_loop(0, 500, lambda i, v: tnp.sin(v), state[0])
        return tracer.fori_loop(0, 2, lambda i, s: s + shared, state)

    assert "parallel" in why_not(run, STATE)


def test_a_condition_on_all_environments_stays() -> None:
    def run(state: Any) -> Any:
        again = tracer.fori_loop(0, 3, lambda i, s: tnp.sin(s), state)
        return tracer.while_loop(lambda s: tnp.abs(s).max() > 0.5, lambda s: s * 0.5, again)

    assert "parallel" in why_not(run, STATE)


def test_neighbours_that_look_at_each_other_stay() -> None:
    def run(state: Any) -> Any:
        return tracer.fori_loop(0, 5, lambda i, s: s + tnp.roll(s, 1, axis=0), state)

    assert in_lanes(run, STATE)[0] == 0


def test_products_stay_as_libraries_have_threads() -> None:
    def run(state: Any) -> Any:
        return tracer.fori_loop(0, 5, lambda i, s: s @ s.T @ s, state)

    assert "calls a library" in why_not(run, STATE)


def test_short_programs_and_single_cores_stay() -> None:
    graph, log = prepared(pushed, STATE, FORCE), PassLog()
    assert interchanged(graph, DEFAULT_TARGET, log) is None
    assert interchanged(graph, replace(SLOW, cores=1), log) is None
    reasons = [refusal.reason for refusal in log.refusals]
    assert "to start other threads takes as long" in reasons[0]
    assert reasons[1] == "there is one core"


def test_large_arguments_are_not_copied_into_lanes() -> None:
    graph, log = prepared(pushed, STATE, FORCE), PassLog()
    small_cache = replace(SLOW, cache_bytes=1 << 10)
    assert interchanged(graph, small_cache, log, peak=2000) is None
    assert "more" in log.refusals[0].reason
    assert interchanged(graph, SLOW, log, peak=2000) is not None


def test_few_environments_stay() -> None:
    state, force = STATE[:20], np.ascontiguousarray(FORCE[:, :20])
    assert "parallel" in why_not(pushed, state, force)


def test_programs_without_loops_are_not_looked_at() -> None:
    log = PassLog()
    assert interchanged(prepared(lambda x: tnp.sin(x), STATE), SLOW, log) is None
    assert not log.refusals


# Random programs.

CELLS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda s, f: s + s[:, ::-1],
    "multiply": lambda s, f: s * np.float32(0.5),
    "sine": lambda s, f: tnp.sin(s),
    "pick": lambda s, f: tnp.stack([s[:, 1], s[:, 0], s[:, 2]], axis=1),
    "reduce": lambda s, f: s - s.max(axis=1, keepdims=True),
    "force": lambda s, f: s + f[:, None],
}


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.sampled_from([*CELLS]), min_size=1, max_size=4),
    st.booleans(),
    st.sampled_from([64, 51]),
)
def test_random_programs_give_the_same(cells: list[str], stacked: bool, size: int) -> None:
    state, force = STATE[:size], np.ascontiguousarray(FORCE[:, :size])

    def step(s: Any, f: Any) -> Any:
        for kind in cells:
            s = CELLS[kind](s, f)
        return s

    def run(state: Any, force: Any) -> Any:
        if stacked:
            return tracer.scan(lambda s, f: (step(s, f), s), state, force)
        return tracer.fori_loop(0, 3, lambda i, s: step(s, force[i]), state)

    assert in_lanes(run, state, force)[0] == 2


# Through the compiler.

LONG = 40_000
MANY = np.tile(STATE, (2, 1))
FORCES = np.tile(FORCE, (1, 2))


def long(state: Any, force: Any) -> Any:
    return pushed(state, force, LONG)


needs_cores = pytest.mark.skipif(
    tracer.lowering.target_of().cores < 2,
    reason="there is one core",
)


@pytest.mark.xla
@needs_cores
def test_compiled_lanes_give_what_one_program_gives() -> None:
    run = tracer.compile(long)
    plain = tracer.compile(long, passes="-loop-interchange")
    np.testing.assert_array_equal(run(MANY, FORCES), plain(MANY, FORCES))
    plan = run.plan(MANY, FORCES)
    rows = {row.name: row for row in plan.passes}
    assert "lanes" in rows["loop interchange"].applied[0]
    assert rows["loop interchange"].peak_bytes_after <= plan.peak_bytes
    # Each lane, and what puts them together.
    assert run.hlo(MANY, FORCES).count("ENTRY ") > plain.hlo(MANY, FORCES).count("ENTRY ")


@pytest.mark.xla
@needs_cores
def test_the_memory_of_all_lanes_counts_for_the_limit() -> None:
    run = tracer.compile(long)
    free = run.plan(MANY, FORCES).compiled_bytes
    one = tracer.compile(long, passes="-loop-interchange").plan(MANY, FORCES).compiled_bytes
    assert free > one
    tight = tracer.compile(long, memory_limit=(free + one) // 2)
    plan = tight.plan(MANY, FORCES)
    assert plan.compiled_bytes <= (free + one) // 2
    rows = {row.name: row for row in plan.passes}
    assert not rows["loop interchange"].applied
    assert rows["loop interchange"].peak_bytes_after <= (free + one) // 2
    assert "more than the limit" in rows["loop interchange"].refusals[-1].reason
    np.testing.assert_array_equal(tight(MANY, FORCES), run(MANY, FORCES))


@pytest.mark.xla
@needs_cores
def test_donated_state_stays_one_program() -> None:
    run = tracer.compile(long, donate_argnums=0)
    names = [row.name for row in run.plan(tnp.asarray(MANY), FORCES).passes]
    assert "loop interchange" not in names


def test_an_error_in_a_lane_is_raised_when_all_have_ended() -> None:
    ended = []

    class Lane:
        input_types = output_types = notes = ()

        def __init__(self, fails: bool) -> None:
            self.fails = fails

        def __call__(self, *_: Any) -> list[Any]:
            ended.append(self.fails)
            if self.fails:
                raise ExecutionError("it failed", mend="none")
            return []

    class Join(Lane):
        raw = device = None

    lanes: Any = [Lane(True), Lane(False)]
    join: Any = Join(False)
    with pytest.raises(ExecutionError, match="it failed"):
        LanesExecutable(lanes, join)()
    assert sorted(ended) == [False, True]
