"""The peak in XLA's own orders: against XLA's count, and orders that are orders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import legal, traced
from tests.optimizer.random_programs import Program, programs
from tracer import lowering
from tracer.ir import Graph, Node
from tracer.optimizer.loops.split import LoopRow, SplitSettings
from tracer.optimizer.model.liveness import Liveness, largest_packings, peak_bytes
from tracer.optimizer.model.xla_order import (
    breadth_first,
    bytes_in_any_order,
    compiled_peak_bytes,
    depth_first,
)
from tracer.optimizer.passes import PassManager
from tracer.optimizer.pipeline import STANDARD_PASSES as ALL
from tracer.optimizer.pipeline import Context, Stage, passes_in
from tracer.optimizer.rewrite.expand import EXPAND

SQUARE = ((512, 512), "float32")
UNIT = 512 * 512 * 4
ORDERS: list[Callable[[Liveness], list[Node]]] = [depth_first, breadth_first]


def beside_a_loop(x: Any, y: Any) -> Any:
    """A loop, then work that needs nothing of it and is read on both sides of the loop."""

    def step(_: Any, row: Any) -> Any:
        return tnp.tanh((y * row) @ x).sum(0)

    row = tracer.fori_loop(0, 4, step, tnp.ones_like(x[0]))
    beside = tnp.tanh(x @ y)
    return row + tnp.abs(beside @ x).max(0), row * tnp.abs(beside @ y).max(0)


def one_after_the_other(x: Any, y: Any) -> Any:
    """Four matrices, of which each becomes a number before the next is made."""
    total = tnp.zeros((), x.dtype)
    for a, b in ((x, y), (y, x), (x, x), (y, y)):
        total = total + tnp.abs(a @ b).max()
    return total


def counted_units(graph: Graph, *, for_memory: bool) -> float:
    options = lowering.memory_optimized_options() if for_memory else {}
    memory = lowering.compile_graph(legal(graph), options=options).memory
    return (memory.peak_bytes - memory.scratch_bytes) / UNIT


def predicted_units(graph: Graph, *, for_memory: bool) -> float:
    packings = sum(largest_packings(graph))
    return (compiled_peak_bytes(graph, for_memory=for_memory) - packings) / UNIT


@pytest.mark.xla
@pytest.mark.parametrize(
    ("program", "for_memory"),
    [(beside_a_loop, True), (one_after_the_other, False)],
    ids=["remainder, depth first", "producers, breadth first"],
)
def test_what_runs_early_is_counted(program: Callable[..., Any], for_memory: bool) -> None:
    graph = PassManager().run(traced(program, SQUARE, SQUARE), (EXPAND,))
    counted = counted_units(graph, for_memory=for_memory)
    own = (peak_bytes(graph) - sum(largest_packings(graph))) / UNIT
    assert own < 0.9 * counted, "XLA keeps the program's order here: nothing is tested"
    predicted = predicted_units(graph, for_memory=for_memory)
    assert predicted == pytest.approx(counted, rel=0.05)


@given(programs("integer"))
def test_orders_are_orders_of_what_is_stored(program: Program) -> None:
    live = Liveness(program.graph)
    for order in ORDERS:
        found = order(live)
        assert sorted(map(live.position.__getitem__, found)) == sorted(
            live.position[node] for node in live.stored
        )
        place = {node: i for i, node in enumerate(found)}
        for node in found:
            read = [value.node for value in live.buffers_read(node)]
            assert all(place[each] < place[node] for each in read if each in place)


@given(programs("integer"))
def test_orders_take_arguments_and_results_at_least_and_at_most_all_that_is_stored(
    program: Program,
) -> None:
    types = (*program.graph.input_types, *program.graph.output_types)
    for for_memory in (True, False):
        found = compiled_peak_bytes(program.graph, for_memory=for_memory)
        assert sum(type.nbytes for type in types) <= found <= bytes_in_any_order(program.graph)


@pytest.mark.xla
@pytest.mark.parametrize("for_memory", [False, True])
@pytest.mark.parametrize("program", [beside_a_loop, one_after_the_other])
def test_xla_counts_at_most_all_that_is_stored(
    program: Callable[..., Any], for_memory: bool
) -> None:
    graph = PassManager().run(traced(program, SQUARE, SQUARE), (EXPAND,))
    most = (bytes_in_any_order(graph) - sum(largest_packings(graph))) / UNIT
    assert counted_units(graph, for_memory=for_memory) <= 1.01 * most


def test_a_chain_has_one_order() -> None:
    graph = traced(lambda x: tnp.sort(tnp.sort(x, axis=0), axis=1), SQUARE)
    live = Liveness(graph)
    assert depth_first(live) == breadth_first(live) == live.schedule
    for for_memory in (True, False):
        assert compiled_peak_bytes(graph, for_memory=for_memory) == peak_bytes(graph)


def contrastive(x: Any, y: Any) -> Any:
    """The loss that finds for each row of `x` its own row of `y`."""
    scores = x @ y.T
    return (tracer.scipy.special.logsumexp(scores, axis=1) - (x * y).sum(1)).mean()


@pytest.mark.xla
def test_a_remainder_waits_for_its_loop() -> None:
    rows = ((1_021, 64), "float32")
    graph = PassManager().run(traced(tracer.grad(contrastive, argnums=(0, 1)), rows, rows), ALL)
    loops: list[LoopRow] = []
    settings = SplitSettings(1 << 18, 1 << 19, 1 << 22, trust_fusion=False)
    graph = PassManager().run(
        graph, passes_in(Stage.LOOPS, Context(settings=settings, loops=loops))
    )
    (row,) = loops
    assert row.remainder > row.chunk // 4, "a small one takes little: nothing is tested"
    # Computed first, its (remainder, 1021) would stay while the loop runs: 1.08.
    assert lowering.compile_graph(legal(graph)).memory.peak_bytes <= 1.02 * peak_bytes(graph)
