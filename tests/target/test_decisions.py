"""What passes and ops decide by the record of the device: other numbers, other decisions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import tracer.numpy as tnp
from tracer import nn, ops
from tracer.array.trace import trace
from tracer.ir import Graph, ShapeDtype
from tracer.ir.library_calls import SelectionCall
from tracer.optimizer.final_passes import legalized
from tracer.optimizer.model.costs import counted_scratch, node_cost, packing_bytes
from tracer.optimizer.pipeline import Context, PlannerOptions
from tracer.optimizer.planner import Planner
from tracer.target import DEFAULT_TARGET, Packing, Prices, Sizes, Target, planned_for
from tracer.target.accelerators import ACCELERATORS
from tracer.target.reductions import Lanes, Reductions
from tracer.target.selection import Selection

ROW = ShapeDtype((10, 160), "float32")
NO_ROUNDS = replace(DEFAULT_TARGET, selection=Selection(most_rounds=0, gain=1000))


def graph_of(function: Callable[..., Any], *types: ShapeDtype) -> Graph:
    return trace(function, types).graph


def op_names(graph: Graph) -> set[str]:
    return {node.name for node in graph.nodes}


def largest(x: Any) -> Any:
    return tnp.top_k(x, 10)


def test_rounds_are_written_and_counted_where_the_target_has_them() -> None:
    graph = graph_of(largest, ROW)
    (node,) = (node for node in graph.nodes if node.op is ops.top_k)
    found = []
    for target in (DEFAULT_TARGET, NO_ROUNDS):
        with planned_for(target):
            legal, _ = legalized(graph, Context(PlannerOptions(machine=target)))
            found.append(("top_k" in op_names(legal), node_cost(node).flops))
    rounds, kernel = found
    assert rounds == (False, 10 * 10 * 160 * 10)
    assert kernel == (True, SelectionCall(10, 160, 10, 4).comparisons)


def test_what_stages_of_a_reduction_leave_is_the_target_s() -> None:
    graph = graph_of(lambda x: x.sum(), ShapeDtype((1000, 4800), "float32"))
    (node,) = (node for node in graph.nodes if node.op is ops.reduce_add)
    longer = replace(Reductions(), last=replace(Reductions().last, best=512))
    for rules, elements in ((Reductions(), 18_750), (None, 0), (longer, 9375)):
        with planned_for(replace(DEFAULT_TARGET, reductions=rules)):
            assert counted_scratch(node) == 4 * elements


def test_what_lanes_of_short_rows_leave_is_the_target_s() -> None:
    graph = graph_of(lambda x: (x.max(1), tnp.exp(x).sum(1)), ShapeDtype((5000, 64), "float32"))
    cheap, costly = (node for node in graph.nodes if node.name.startswith("reduce"))
    short = replace(Reductions(), lanes=Lanes(longest=63))
    folded = replace(Reductions(), lanes=Lanes(stored_bytes=0))
    for rules, elements in ((Reductions(), 40_000), (None, 0), (short, 0), (folded, 0)):
        with planned_for(replace(DEFAULT_TARGET, reductions=rules)):
            assert counted_scratch(cheap) == 4 * elements
            assert counted_scratch(costly) == 0


def test_a_convolution_s_packing_is_the_target_s() -> None:
    x, kernel = ShapeDtype((8, 64, 64, 3), "float32"), ShapeDtype((3, 3, 3, 16), "float32")
    graph = graph_of(nn.conv, x, kernel)
    (node,) = (node for node in graph.nodes if node.name == "convolution")
    with planned_for(Target(packing=Packing(convolution_bytes=1 << 10))):
        assert packing_bytes(node) == 1 << 10
    with planned_for(Target()):
        assert packing_bytes(node) == 3 << 20


@pytest.mark.parametrize(("terms", "wanted"), [(8, False), (2, True)])
def test_few_features_are_written_out_as_the_target_says(terms: int, wanted: bool) -> None:
    points = ShapeDtype((200, 3), "float32")
    target = replace(DEFAULT_TARGET, sizes=Sizes(direct_terms=terms))

    def distances(x: Any, y: Any) -> Any:
        return ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)

    with planned_for(target):
        planner = Planner(graph_of(distances, points, points), PlannerOptions(machine=target))
    assert ("dot_general" in op_names(planner.graph)) is wanted


def test_the_ratio_of_speeds_is_a_power_of_two() -> None:
    assert Prices().product_ratio == 8
    assert Prices(product_rate=1e9, vector_rate=1e10).product_ratio == 1
    assert ACCELERATORS["gpu"]["h100"].prices.product_ratio == 2
