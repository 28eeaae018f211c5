"""The pass manager: broken passes are caught, rows say what happened."""

from __future__ import annotations

import json

import pytest

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import ops_of, traced
from tracer import ops
from tracer.errors import VerifyError
from tracer.ir import Builder, Graph, Node, ShapeDtype
from tracer.ir.graph import rebuild
from tracer.optimizer.loops.split import SplitSettings, split_graph
from tracer.optimizer.model.liveness import graph_flops, node_count, peak_bytes
from tracer.optimizer.passes import Pass, PassLog, PassManager
from tracer.optimizer.pipeline import STANDARD_PASSES, PlannerOptions
from tracer.optimizer.planner import Planner
from tracer.optimizer.rewrite.simplify import COMMON_SUBEXPRESSIONS

VECTOR = ((3,), "float32")


@pytest.fixture
def graph() -> Graph:
    return traced(lambda x: tnp.sin(x) + x, VECTOR)


def with_wrong_type(graph: Graph, log: PassLog) -> Graph:
    wrong = Node(ops.sine, (graph.inputs[0],), {}, (ShapeDtype((4,), "float32"),), None)
    return Graph(graph.inputs, [wrong.results[0]])


def with_another_output(graph: Graph, log: PassLog) -> Graph:
    return Graph(graph.inputs, [*graph.outputs, graph.inputs[0]])


def with_another_input(graph: Graph, log: PassLog) -> Graph:
    with Builder() as builder:
        x = builder.input(ShapeDtype((5,), "float32"))
        return builder.finish([ops.reduce_add(x, axes=(0,))])


def with_a_foreign_value(graph: Graph, log: PassLog) -> Graph:
    foreign = traced(lambda x: tnp.cos(x), VECTOR)
    return Graph(graph.inputs, foreign.outputs)


def out_of_order(graph: Graph, log: PassLog) -> Graph:
    return Graph(graph.inputs, graph.outputs, reversed(graph.nodes))


BROKEN = {
    with_wrong_type: "infers",
    with_another_output: "outputs changed",
    with_another_input: "inputs changed",
    with_a_foreign_value: "not defined",
    out_of_order: "not defined before its use",
}


@pytest.mark.parametrize("run", BROKEN, ids=lambda run: run.__name__)
def test_a_broken_pass_is_caught(graph: Graph, run) -> None:
    manager = PassManager()
    with pytest.raises(VerifyError, match=BROKEN[run]):
        manager.run(graph, [Pass("broken", run)])
    assert manager.rows == []


def test_a_pass_that_breaks_a_body_is_caught() -> None:
    def shorten(graph: Graph, log: PassLog) -> Graph:
        if any(node.bodies for node in graph.nodes):
            return graph
        return Graph(graph.inputs, graph.outputs[:-1])

    looped = traced(lambda x: tracer.fori_loop(0, 3, lambda i, c: tnp.sin(c), x), VECTOR)
    with pytest.raises(VerifyError):
        PassManager().run(looped, [Pass("broken", shorten)])


def test_rows_hold_before_and_after(graph: Graph) -> None:
    def doubled(graph: Graph, log: PassLog) -> Graph:
        log.applied.append("sine")
        log.refuse("cosine", "there is none")
        with_more = lambda builder, node, operands: (
            [ops.sine(ops.add(operands[0], operands[0]))] if node.op is ops.sine else None
        )
        return rebuild(graph, with_more)

    manager = PassManager()
    after = manager.run(graph, [Pass("nothing", lambda graph, log: graph), Pass("more", doubled)])
    nothing, more = manager.rows
    assert (nothing.nodes_before, nothing.nodes_after) == (2, 2)
    assert nothing.applied == nothing.refusals == ()
    assert (more.name, more.nodes_before, more.nodes_after) == ("more", 2, 3)
    assert (more.flops_before, more.flops_after) == (graph_flops(graph), graph_flops(after))
    assert more.peak_bytes_before == peak_bytes(graph)
    assert more.applied == ("sine",)
    assert str(more.refusals[0]) == "cosine: there is none"
    assert more.seconds >= 0


def test_passes_reach_into_bodies() -> None:
    def body(i, c):
        return tnp.sin(c) * tnp.sin(c)

    looped = traced(lambda x: tracer.fori_loop(0, 3, body, x), VECTOR)
    after = PassManager().run(looped, STANDARD_PASSES)
    assert ops_of(looped).count("sine") == 2
    assert ops_of(after).count("sine") == 1
    assert node_count(after) < node_count(looped) + 5


def test_refusals_of_match_have_a_reason_and_a_line() -> None:
    manager = PassManager()
    manager.run(
        traced(lambda x: tnp.exp(x[:, None] - x[None]).sum(1), ((130,), "float32")), STANDARD_PASSES
    )
    (refusal,) = [refusal for row in manager.rows for refusal in row.refusals]
    assert "no polynomial" in refusal.reason
    assert refusal.source is not None
    assert refusal.source.file == __file__


def test_refusals_of_split_name_the_use_that_forbids_it() -> None:
    def factored(x):
        return tnp.linalg.cholesky(tnp.exp(x[:, None] * x[None, :])).sum()

    log = PassLog()
    before = traced(factored, ((64,), "float32"))
    _after, rows = split_graph(before, SplitSettings(1000, 1000, 1000), log)
    reasons = [str(refusal) for refusal in log.refusals]
    assert any("cholesky needs the axis whole" in reason for reason in reasons)
    assert any("in factored" in reason for reason in reasons)
    assert [row.combiners for row in rows] in ([], [("write",)], [("add",)])


def test_expensive_values_that_fit_are_left_alone() -> None:
    before = traced(lambda x: (x @ x).sum(), ((8, 8), "float32"))
    after, rows = split_graph(before, SplitSettings(8 * 8 * 4, 1, 1), PassLog())
    assert after is before
    assert rows == []


def test_rows_of_the_planner_are_plain() -> None:
    planner = Planner(traced(lambda x: (x @ x).sum(), ((8, 8), "float32")), PlannerOptions())
    assert [row.name for row in planner.rows] == [item.name for item in STANDARD_PASSES]
    assert json.dumps([row.applied for row in planner.rows])


@pytest.mark.xla
def test_passes_are_switched_off_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    import tracer
    import tracer.numpy as tnp

    a, v = tnp.ones((300, 300)), tnp.ones(300)

    def applied() -> set[str]:
        plan = tracer.compile(lambda a, v: a @ a @ v).plan(a, v)
        return {row.name for row in plan.passes if row.applied}

    assert "reorder chains" in applied()
    monkeypatch.setenv("TRACER_DISABLE_RULES", "reorder-chains, match-contractions")
    assert "reorder chains" not in applied()


def test_barriers_of_one_value_stay_apart() -> None:
    """What is behind one is computed again on purpose."""
    with Builder() as builder:
        x = builder.input(ShapeDtype(*VECTOR))
        behind = [ops.exponential(*ops.optimization_barrier(x)) for _ in range(2)]
        graph = builder.finish([ops.add(*behind)])
    assert COMMON_SUBEXPRESSIONS.run(graph, PassLog()) is graph
