"""Values that are computed again: which, at what price, the guards, and that XLA keeps it so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracer
import tracer.numpy as tnp
from benchmarks.peers.dynamic_rematerialisation import DynamicSearch
from tests.optimizer.graphs import legal, ops_of, text, traced
from tests.optimizer.random_programs import Program, programs
from tracer import lowering, ops
from tracer.autodiff import value_and_gradient
from tracer.ir import Graph, interpret, verify, verify_same_signature
from tracer.optimizer.model.liveness import Liveness, graph_flops
from tracer.optimizer.passes import PassLog, PassManager
from tracer.optimizer.pipeline import STANDARD_PASSES, PlannerOptions
from tracer.optimizer.planner import Planner
from tracer.optimizer.remat import REMATERIALISE_NAME, RecomputationSearch, Rematerialiser
from tracer.optimizer.remat.replay import replay
from tracer.target import DEFAULT_TARGET

N = 64
UNIT = N * N * 4
"""Bytes of one matrix."""
MATRIX = ((N, N), "float32")
NONE: frozenset[int] = frozenset()


def chain(layers: int) -> Graph:
    """Gradient of layers that read all of the one before: rows cannot be computed on their own."""

    def loss(x: Any, a: Any) -> Any:
        for _ in range(layers):
            x = tnp.tanh(a @ x @ a)
        return (x * x).sum()

    return optimised(traced(tracer.grad(loss), MATRIX, MATRIX))


def optimised(graph: Graph) -> Graph:
    return PassManager().run(graph, STANDARD_PASSES)


def again(graph: Graph, share: float, *, order: bool = True) -> tuple[Graph, PassLog]:
    """Compute values again until the peak is that share of what it was."""
    log = PassLog()
    limit = int(share * Liveness(graph).peak_bytes)
    return Rematerialiser(DEFAULT_TARGET, order).run(graph, limit, NONE, log), log


def units(graph: Graph) -> float:
    """Predicted temporaries and results, in matrices."""
    return (Liveness(graph).peak_bytes - 2 * UNIT) / UNIT


def equal(graph: Graph, other: Graph, arrays: list[Any]) -> None:
    verify(other)
    verify_same_signature(graph, other)
    for got, want in zip(interpret(other, arrays), interpret(graph, arrays), strict=True):
        np.testing.assert_array_equal(got, want)


def sums(x: Any) -> Any:
    """A value that is read at the beginning and at the end."""
    first = tnp.cumsum(x, axis=0)
    return (tnp.cumsum(tnp.cumsum(first, axis=0), axis=0).sum() * first).sum()


GOLDEN = """
graph(%0: float32[64,64]) {
  %1: float32[64,64] = cumulative_add(%0) {axis=0, reverse=False}
  %2: float32[64,64] = cumulative_add(%1) {axis=0, reverse=False}
  %3: float32[64,64] = cumulative_add(%2) {axis=0, reverse=False}
  %4: float32[] = reduce_add(%3) {axes=(0, 1)}
  %5: float32[64,64], %6: float32[] = optimization_barrier(%0, %4)
  %7: float32[64,64] = cumulative_add(%5) {axis=0, reverse=False}
  %8: float32[64,64] = broadcast_in_dim(%6) {shape=(64, 64), dimensions=()}
  %9: float32[64,64] = multiply(%8, %7)
  %10: float32[] = reduce_add(%9) {axes=(0, 1)}
  return %10
}
"""


def test_golden() -> None:
    graph = traced(sums, MATRIX)
    assert text(replay(Liveness(graph), {graph.nodes[0]: 1}).graph) == GOLDEN.strip()


def test_a_value_over_the_peak_is_computed_again_where_it_is_read() -> None:
    graph = traced(sums, MATRIX)
    made, log = again(graph, 0.85)
    assert Liveness(made).peak_bytes < Liveness(graph).peak_bytes
    assert ops_of(made).count("cumulative_add") == ops_of(graph).count("cumulative_add") + 1
    assert "computed again" in log.applied[0]
    assert "test_rematerialise.py" in log.applied[0]


def test_a_chain_is_computed_again_in_runs() -> None:
    graph = chain(16)
    made, _ = again(graph, 0.6)
    assert units(made) <= 0.6 * units(graph) + 1
    # Every layer once more at most: a product on each side of each.
    assert graph_flops(made) <= 1.4 * graph_flops(graph)
    equal(graph, made, [np.eye(N, dtype=np.float32)] * 2)


def test_a_lower_limit_costs_more_operations() -> None:
    graph = chain(12)
    flops = [graph_flops(again(graph, share)[0]) for share in (0.9, 0.75, 0.6)]
    assert graph_flops(graph) < flops[0] < flops[1] < flops[2]


def test_what_is_cheap_is_computed_again_first() -> None:
    def loss(x: Any, a: Any) -> Any:
        total = 0.0
        for _ in range(6):
            x = a @ x @ a
            y = tnp.cumsum(x, axis=0)
            total += (tnp.tanh(y) * y).sum()
        return total

    large = ((1024, 1024), "float32")
    graph = optimised(traced(tracer.grad(loss, argnums=(0, 1)), large, large))
    made, _ = again(graph, 0.9, order=False)
    assert ops_of(made).count("dot_general") == ops_of(graph).count("dot_general")
    assert len(ops_of(made)) > len(ops_of(graph))


@pytest.mark.parametrize("share", [0.8, 0.65])
def test_no_more_operations_than_dynamic_rematerialisation(share: float) -> None:
    graph = chain(16)
    limit = int(share * Liveness(graph).peak_bytes)
    ours, theirs = (
        kind(graph, NONE, DEFAULT_TARGET).run(limit)
        for kind in (RecomputationSearch, DynamicSearch)
    )
    assert ours.peak_bytes <= limit
    assert graph_flops(ours.graph) <= graph_flops(theirs.graph) or theirs.peak_bytes > limit


def test_no_more_operations_than_segments() -> None:
    """Chen et al. (2016): segments of the square root of the length, by hand."""

    def loss(x: Any, a: Any) -> Any:
        def segment(x: Any) -> Any:
            for _ in range(4):
                x = tnp.tanh(a @ x @ a)
            return x

        for _ in range(4):
            x = tracer.checkpoint(segment)(x)
        return (x * x).sum()

    by_hand = optimised(traced(tracer.grad(loss), MATRIX, MATRIX))
    plain = chain(16)
    limit = Liveness(by_hand).peak_bytes
    found = RecomputationSearch(plain, NONE, DEFAULT_TARGET).run(limit)
    assert found.peak_bytes <= limit
    assert graph_flops(found.graph) <= graph_flops(by_hand)


def maxima(x: Any, a: Any) -> Any:
    for i in range(10):
        x = tnp.tanh(a @ x @ a)
        if i == 5:
            x = a @ x - x.max(axis=0)
    return (x * x).sum()


def test_what_is_compared_with_its_maximum_is_computed_once() -> None:
    graph = optimised(traced(tracer.grad(maxima), MATRIX, MATRIX))
    search = RecomputationSearch(graph, NONE, DEFAULT_TARGET)
    compared = [node for node in graph.nodes if node.op is ops.compare]
    assert compared, "the gradient of a maximum compares with it"
    stored = [v.node for node in compared for v in node.operands if v.node in search.live.stored]
    matrix = max(stored, key=lambda node: node.types[0].size)
    assert replay(search.live, {matrix: search.program.time[matrix] + 1}).meets_itself
    found = search.run(1)
    assert found.drops, "other values are computed again"
    assert not replay(search.live, found.drops).meets_itself
    assert any("equality" in reason for reason in search.program.refused.values())


def test_results_loops_and_generated_values_are_left_alone() -> None:
    def program(x: Any) -> Any:
        looped = tracer.fori_loop(0, 3, lambda _, y: tnp.sin(y @ y), x)
        kept = tnp.cumsum(x, axis=0)
        y = tnp.cumsum(tnp.cumsum(kept, axis=1), axis=0)
        return (y @ looped).sum() + (looped @ y).sum(), kept

    graph = optimised(traced(program, MATRIX))
    reasons = RecomputationSearch(graph, NONE, DEFAULT_TARGET).program.refused.values()
    assert any("result of a while" in reason for reason in reasons)
    assert "it is a result of the program" in reasons


some = settings(max_examples=40)


@pytest.mark.parametrize("kind", ["integer", "float"])
def test_random_programs_give_the_same_bits(kind: str) -> None:
    @some
    @given(programs(kind), st.sampled_from([0.4, 0.7, 0.9]), st.booleans())
    def check(program: Program, share: float, order: bool) -> None:
        made, _ = again(program.graph, share, order=order)
        equal(program.graph, made, program.arrays)
        assert Liveness(made).peak_bytes <= 1.1 * Liveness(program.graph).peak_bytes

    check()


@some
@given(programs("smooth", maximum_steps=8), st.sampled_from([0.4, 0.7, 0.9]))
def test_random_gradients_give_the_same_bits(program: Program, share: float) -> None:
    graph = value_and_gradient(program.graph, range(len(program.graph.inputs)))
    made, _ = again(graph, share)
    equal(graph, made, program.arrays)


def dots(executable: lowering.Executable) -> int:
    return executable.hlo().count(" dot(") + executable.hlo().count("__ynn_fusion")


@pytest.mark.xla
def test_xla_keeps_what_is_computed_again() -> None:
    graph = chain(16)
    made, _ = again(graph, 0.6)
    options = lowering.memory_optimized_options()
    before, after = (lowering.compile_graph(legal(g), options=options) for g in (graph, made))
    more = ops_of(made).count("dot_general") - ops_of(graph).count("dot_general")
    assert more > 0
    assert dots(after) >= dots(before) + more
    count = [e.memory.peak_bytes - e.memory.argument_bytes for e in (before, after)]
    assert count[1] < 0.75 * count[0]


@pytest.mark.xla
def test_random_numbers_are_the_same_when_they_are_drawn_again() -> None:
    key = tracer.random.key(0)

    def loss(x: Any, a: Any) -> Any:
        for i in range(6):
            x = tnp.tanh(a @ x @ a)
            keep = tracer.random.bernoulli(tracer.random.fold_in(key, i), 0.9, x.shape)
            x = tnp.where(keep, x / 0.9, 0.0)
        return (x * x).sum()

    generator = np.random.default_rng(0)
    x = generator.standard_normal((192, 192), dtype=np.float32)
    a = (generator.standard_normal((192, 192)) / 14).astype(np.float32)
    slope = tracer.grad(loss)
    whole = tracer.compile(slope, split="never")
    limit = int(0.9 * whole.plan(x, a).compiled_bytes)
    limited = tracer.compile(slope, memory_limit=limit, split="never")
    rows = {row.name: row for row in limited.plan(x, a).passes}
    assert rows[REMATERIALISE_NAME].applied
    np.testing.assert_allclose(limited(x, a), whole(x, a), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_the_planner_uses_it_unless_it_is_switched_off() -> None:
    graph = chain(16)
    limit = int(0.6 * Liveness(graph).peak_bytes)
    on = [*Planner(graph, PlannerOptions(limit_bytes=limit)).candidates()]
    off = PlannerOptions(limit_bytes=limit, disabled=frozenset({REMATERIALISE_NAME}))
    names = {row.name for candidate in on for row in candidate.rows}
    assert REMATERIALISE_NAME in names
    others = [*Planner(graph, off).candidates()]
    assert REMATERIALISE_NAME not in {row.name for c in others for row in c.rows}
    smallest = [Planner(graph, o).smallest().peak_bytes for o in (PlannerOptions(), off)]
    assert smallest[0] < smallest[1]
