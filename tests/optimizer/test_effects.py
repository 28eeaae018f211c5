"""Rewrites that would run a callback more or less often, or in another order, are left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tracer
from tracer import ops
from tracer.array.trace import trace
from tracer.ir import Builder, Graph, Node, Value, interpret, rebuild, without_effects
from tracer.optimizer.passes import Pass, PassLog, PassManager
from tracer.optimizer.pipeline import STANDARD_PASSES

X = np.arange(3.0)


def traced() -> Graph:
    def function(x: Any) -> Any:
        tracer.debug.callback(print, "first", x, ordered=True)
        tracer.debug.callback(print, "second", 2 * x, ordered=True)
        return tracer.scan(
            lambda c, _: (tracer.debug.callback(print, c), (c + 1, c))[1], x, None, 2
        )

    return trace(function, [X]).graph


def twice(graph: Graph, log: PassLog) -> Graph:
    def rewrite(
        builder: Builder, node: Node, operands: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        if node.op is not ops.debug_callback:
            return None
        builder.copy(node, operands)
        return builder.copy(node, operands)

    return rebuild(graph, rewrite)


def never(graph: Graph, log: PassLog) -> Graph:
    return without_effects(graph)


def backwards(graph: Graph, log: PassLog) -> Graph:
    acting = [node for node in graph.nodes if node.op is ops.debug_callback]
    others = [node for node in graph.nodes if node.op is not ops.debug_callback]
    return Graph(graph.inputs, graph.outputs, [*others, *reversed(acting)])


def in_a_loop(graph: Graph, log: PassLog) -> Graph:
    """Move everything into a loop."""
    with Builder() as builder:
        inputs = [builder.input(type) for type in graph.input_types]
        body = builder.finish(builder.inline(graph, inputs))
    with Builder() as builder:
        inputs = [builder.input(type) for type in graph.input_types]
        counts = {"length": 1, "num_consts": len(inputs), "num_carry": 0, "reverse": False}
        found = ops.scan(*inputs, body=body, **counts)
        results = [
            ops.reshape(value, shape=type.shape)
            for value, type in zip(found, graph.output_types, strict=True)
        ]
        return builder.finish(results)


@pytest.mark.parametrize(
    ("rewrite", "bodies"),
    [
        *((rewrite, bodies) for rewrite in (twice, never, backwards) for bodies in (True, False)),
        # The results of a body have no axis of steps.
        (in_a_loop, False),
    ],
)
def test_are_refused_and_the_plan_says_so(
    rewrite: Callable[[Graph, PassLog], Graph], bodies: bool
) -> None:
    graph, manager = traced(), PassManager()
    found = manager.run(graph, [Pass("a pass", rewrite, bodies=bodies)])
    assert found is graph
    (row,) = manager.rows
    assert not row.applied
    (refusal,) = row.refusals
    assert "more or less often, or in another order" in refusal.reason
    assert refusal.source is not None


@pytest.mark.parametrize("ordered", [True, False])
def test_scans_are_not_joined_where_that_changes_the_order(ordered: bool) -> None:
    def show(name: str) -> Any:
        return lambda x: seen.append((name, float(x)))

    def function(xs: Any) -> Any:
        def first(carry: Any, x: Any) -> tuple[Any, Any]:
            tracer.debug.callback(show("first"), x, ordered=ordered)
            return carry, 2 * x

        def second(carry: Any, y: Any) -> tuple[Any, Any]:
            tracer.debug.callback(show("second"), y, ordered=ordered)
            return carry + y, None

        _, ys = tracer.scan(first, 0.0, xs)
        return tracer.scan(second, 0.0, ys)[0]

    seen: list[tuple[str, float]] = []
    graph = trace(function, [X]).graph
    (fuse,) = [item for item in STANDARD_PASSES if item.name == "fuse scans"]
    found = PassManager().run(graph, [fuse])
    assert (found is graph) == ordered
    interpret(found, [X])
    firsts, seconds = [("first", x) for x in X], [("second", 2 * x) for x in X]
    assert sorted(seen) == [*firsts, *seconds]
    assert (seen == [*firsts, *seconds]) == ordered


def test_others_are_applied() -> None:
    def negated_twice(graph: Graph, log: PassLog) -> Graph:
        log.applied.append("")
        return rebuild(
            graph,
            lambda _, node, operands: (
                [ops.negate(ops.negate(ops.multiply(*operands)))]
                if node.op is ops.multiply
                else None
            ),
        )

    manager = PassManager()
    assert manager.run(traced(), [Pass("a pass", negated_twice)]) is not traced()
    assert manager.rows[0].applied


def test_equal_loops_with_effects_are_not_merged() -> None:
    def function(x: Any) -> Any:
        def loop() -> Any:
            return tracer.fori_loop(0, 2, lambda i, c: (tracer.debug.callback(print, c), c)[1], x)

        return loop() + loop()

    graph = trace(function, [X]).graph
    found = PassManager().run(graph, STANDARD_PASSES)
    assert sum(node.has_effect for node in found.nodes) == 2
