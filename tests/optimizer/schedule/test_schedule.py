"""Orders with a lower peak: the search, the pass, the barriers, and XLA's own count."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import apply, evaluated, of, ops_of, traced
from tests.optimizer.random_programs import Program, programs
from tracer import lowering, ops
from tracer.autodiff import value_and_gradient
from tracer.ir import Builder, Graph, Node, ShapeDtype, Value, verify
from tracer.ops import helpers
from tracer.optimizer.model.liveness import Liveness
from tracer.optimizer.passes import Pass, PassLog
from tracer.optimizer.rewrite.simplify import COMMON_SUBEXPRESSIONS
from tracer.optimizer.schedule import search
from tracer.optimizer.schedule.control_dependences import force_order
from tracer.optimizer.schedule.schedule import SCHEDULE, schedule
from tracer.optimizer.schedule.search import (
    beam_order,
    candidate_orders,
    exact_order,
    heuristic_orders,
)
from tracer.optimizer.schedule.tasks import TaskGraph

N, COUNT = 64, 16
UNIT = N * N * 4
"""Bytes of one matrix: the cases below count in these."""
MATRIX, STACK = ((N, N), "float32"), ((COUNT, N, N), "float32")
FORCE = Pass("force order", force_order, bodies=False)


def sums_of_products(a: Any, b: Any) -> Any:
    """Many large values, each reduced to a number: openxla issue 35719."""
    return sum(tnp.sin(a @ b[i]).sum() for i in range(COUNT))


def products_then_sums(a: Any, b: Any) -> Any:
    products = [tnp.sin(a @ b[i]) for i in range(COUNT)]
    return sum(product.sum() for product in products)


def sums_of_running_sums(a: Any, b: Any) -> Any:
    return sum((tnp.cumsum(a * b[i], axis=0) ** 2).sum() for i in range(COUNT))


def temporaries(graph: Graph) -> float:
    """Predicted, in matrices."""
    arguments = sum(type.nbytes for type in graph.input_types)
    return (Liveness(graph).peak_bytes - arguments) / UNIT


def counted(graph: Graph) -> float:
    """XLA's count of temporaries and results in matrices, of its better scheduler."""
    options = ({}, lowering.memory_optimized_options())
    stats = [lowering.compile_graph(graph, options=each).memory for each in options]
    return min(s.peak_bytes - s.argument_bytes for s in stats) / UNIT


def topological_orders(tasks: TaskGraph) -> Iterator[list[int]]:
    for order in itertools.permutations(range(len(tasks))):
        place = {i: position for position, i in enumerate(order)}
        if all(place[n] < place[i] for i in order for n in tasks.tasks[i].needs):
            yield list(order)


def ancestors(node: Node) -> set[Node]:
    found: set[Node] = set()
    stack = [node]
    while stack:
        for value in stack.pop().operands:
            if value.node not in found:
                found.add(value.node)
                stack.append(value.node)
    return found


@st.composite
def small_graphs(draw: Any, maximum: int = 7) -> Graph:
    """Draw graphs of stored vectors of several sizes, with any sharing between them."""
    integer = lambda low, high: draw(st.integers(low, high))
    with Builder() as builder:
        pool: list[Value] = [builder.input(ShapeDtype((4,), "float32"))]
        unread: dict[Value, None] = {}
        for _ in range(integer(1, maximum)):
            read = {pool[integer(0, len(pool) - 1)] for _ in range(integer(1, 3))}
            joined = ops.concatenate(*sorted(read, key=pool.index), dimension=0)
            size = integer(1, 9)
            x = helpers.slice_axis(joined, 0, 0, min(size, joined.shape[0]))
            x = ops.pad(
                x, helpers.full(0, x.type.with_shape(())), low=(0,), high=(size,), interior=(0,)
            )
            pool.append(ops.cumulative_add(x, axis=0, reverse=bool(integer(0, 1))))
            for value in read:
                unread.pop(value, None)
            unread[pool[-1]] = None
        total = helpers.full(0, ShapeDtype((), "float32"))
        for value in unread:
            total = ops.add(total, ops.reduce_add(value, axes=(0,)))
        return builder.finish([total])


@pytest.mark.slow
@settings(max_examples=60)
@given(small_graphs(5))
def test_the_exact_search_finds_what_trying_all_orders_finds(graph: Graph) -> None:
    tasks = TaskGraph(Liveness(graph))
    assume(len(tasks) <= 8)
    orders = list(topological_orders(tasks))
    found = exact_order(tasks)
    assert found in orders
    assert tasks.peak(found) == min(map(tasks.peak, orders))
    assert tasks.peak(candidate_orders(tasks)[0]) == tasks.peak(found)
    # The search's price is that of the peak model, but for a temporary in the result's memory.
    live = Liveness(tasks.reordered(found))
    least = min(Liveness(tasks.reordered(order)).peak_bytes for order in orders)
    assert live.peak_bytes <= least + graph.output_types[0].nbytes


@pytest.mark.slow
@settings(max_examples=60)
@given(small_graphs(24))
def test_every_order_that_is_proposed_is_topological(graph: Graph) -> None:
    tasks = TaskGraph(Liveness(graph))
    orders = heuristic_orders(tasks)
    least = min(map(tasks.peak, orders))
    found = beam_order(tasks, least)
    if found is not None:
        assert tasks.peak(found) < least
        orders.append(found)
    for order in orders:
        assert sorted(order) == list(range(len(tasks)))
        place = {i: position for position, i in enumerate(order)}
        assert all(place[n] < place[i] for i in order for n in tasks.tasks[i].needs)
        verify(tasks.reordered(order))


@settings(max_examples=80)
@given(programs("integer"))
def test_an_order_keeps_values_and_never_raises_the_peak(program: Program) -> None:
    expected = evaluated(program.graph, *program.arrays)
    before = Liveness(program.graph).peak_bytes
    for item in (SCHEDULE, FORCE):
        result, log = apply(item, program.graph)
        for got, want in zip(evaluated(result, *program.arrays), expected, strict=True):
            np.testing.assert_array_equal(got, want)
        if item is SCHEDULE:
            after = Liveness(result).peak_bytes
            assert after < before if log.applied else (result is program.graph)


@settings(max_examples=40)
@given(programs("integer"))
def test_orders_with_donated_inputs_never_raise_the_peak(program: Program) -> None:
    donated = frozenset(range(len(program.graph.inputs)))
    result = schedule(program.graph, PassLog(), donated)
    verify(result)
    before, after = (Liveness(graph, donated).peak_bytes for graph in (program.graph, result))
    assert after < before or result is program.graph
    verify(force_order(program.graph, PassLog(), donated))


@settings(max_examples=15)
@given(programs("smooth", maximum_steps=6))
def test_forced_gradients_run_and_are_the_same(program: Program) -> None:
    graph = value_and_gradient(program.graph, range(len(program.graph.inputs)))
    forced, _ = apply(FORCE, graph)
    for got, want in zip(
        evaluated(forced, *program.arrays), evaluated(graph, *program.arrays), strict=True
    ):
        np.testing.assert_array_equal(got, want)


def test_sums_are_computed_before_the_next_product() -> None:
    graph = traced(products_then_sums, MATRIX, STACK)
    result, log = apply(SCHEDULE, graph)
    assert temporaries(graph) > COUNT
    assert temporaries(result) < 5
    assert log.applied
    assert apply(SCHEDULE, result)[0] is result


@pytest.mark.slow
def test_bodies_are_ordered_too() -> None:
    def program(a: Any, b: Any) -> Any:
        return tracer.fori_loop(0, 3, lambda _, total: total + products_then_sums(a, b), 0.0)

    graph = traced(program, MATRIX, STACK)
    for item in (SCHEDULE, FORCE):
        result, log = apply(item, graph)
        assert temporaries(graph) > COUNT
        assert temporaries(result) < 6
        assert any(applied.startswith("body") for applied in log.applied)
    assert "optimization_barrier" in ops_of(result)


@pytest.mark.xla
@pytest.mark.parametrize(
    ("function", "ratio"),
    [
        (tracer.grad(sums_of_products), 3),
        (tracer.grad(sums_of_running_sums), 4),
        (tracer.value_and_grad(sums_of_products), 5),
    ],
)
def test_xla_takes_several_times_less_in_our_order(
    function: Callable[..., Any], ratio: float
) -> None:
    """Both of XLA's schedulers keep all the terms of the gradient to the end."""
    graph, _ = apply(COMMON_SUBEXPRESSIONS, traced(function, MATRIX, STACK))
    forced, log = apply(FORCE, graph)
    assert counted(graph) > ratio * counted(forced)
    assert counted(forced) <= temporaries(forced) + 1
    assert any("partial sums" in applied for applied in log.applied)


@pytest.mark.xla
def test_the_default_scheduler_takes_several_times_less_in_our_order() -> None:
    graph = traced(products_then_sums, MATRIX, STACK)
    forced, _ = apply(FORCE, graph)
    plain, ours = (lowering.compile_graph(g).memory.temporary_bytes for g in (graph, forced))
    assert plain > 3 * ours


def test_barriers_are_not_merged_away() -> None:
    forced, log = apply(FORCE, traced(products_then_sums, MATRIX, STACK))
    merged, _ = apply(COMMON_SUBEXPRESSIONS, forced)
    barriers = ops_of(forced).count("optimization_barrier")
    assert barriers == COUNT - 1
    assert ops_of(merged).count("optimization_barrier") == barriers
    assert f"{barriers} barriers keep the order" in log.applied


def test_there_is_no_barrier_where_the_data_flow_says_the_order() -> None:
    graph = traced(lambda x: tnp.sort(tnp.sort(tnp.sort(x, axis=0), axis=1) @ x).sum(), MATRIX)
    assert apply(FORCE, graph)[0] is graph


def test_small_values_get_no_barrier() -> None:
    """Next to a large value that is alive all the time, small ones come when XLA likes."""

    def program(a: Any, b: Any, large: Any) -> Any:
        return products_then_sums(a, b) + tnp.sort(tnp.sort(large, axis=0) @ large).sum()

    small = [((4, 4), "float32"), ((COUNT, 4, 4), "float32")]
    graph = traced(program, *small, ((256, 256), "float32"))
    assert "optimization_barrier" not in ops_of(apply(FORCE, graph)[0])


def test_a_sum_of_two_terms_is_not_stored() -> None:
    """Storing frees nothing there: the sum is written over one of its terms."""
    graph = traced(lambda x: (tnp.cumsum(x, 0) + tnp.cumsum(x, 1)).sum(), MATRIX)
    assert not any("partial" in applied for applied in apply(FORCE, graph)[1].applied)


@pytest.mark.xla
def test_a_limit_that_neither_scheduler_keeps_is_kept() -> None:
    generator = np.random.default_rng(0)
    arrays = [generator.normal(size=shape).astype(dtype) / 8 for shape, dtype in (MATRIX, STACK)]
    gradient = tracer.grad(sums_of_products)
    limit = sum(array.nbytes for array in arrays) + 8 * UNIT
    plain = tracer.compile(gradient)
    kept = tracer.compile(gradient, memory_limit=limit, split="never")
    plan = kept.plan(*arrays)
    assert plain.plan(*arrays).compiled_bytes > limit + 8 * UNIT
    assert plan.compiled_bytes <= limit
    last = [row.name for row in plan.passes if row.name != "store shared values"][-2:]
    assert last == ["schedule", "keep in place"]
    np.testing.assert_allclose(kept(*arrays), plain(*arrays), rtol=1e-4, atol=1e-5)


@pytest.mark.xla
def test_forced_programs_run_with_the_same_results() -> None:
    generator = np.random.default_rng(1)
    arrays = [generator.normal(size=shape).astype(dtype) / 8 for shape, dtype in (MATRIX, STACK)]
    graph = traced(tracer.grad(sums_of_running_sums), *of(*arrays))
    forced, _ = apply(FORCE, graph)
    device = lowering.default_device()
    buffers = [lowering.to_device(array, device) for array in arrays]
    got, want = (lowering.to_host(lowering.compile_graph(g)(*buffers)[0]) for g in (forced, graph))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_a_value_is_read_by_all_before_it_is_written_over() -> None:
    def program(x: Any, y: Any) -> Any:
        kernel = tnp.exp(x @ y)
        return (tnp.tanh(kernel) @ y[:, :4]).sum(), (kernel * kernel).sum(axis=0)

    graph = traced(program, MATRIX, MATRIX)
    forced, _ = apply(FORCE, graph)
    (square_sum,) = (n for n in forced.nodes if n.op is ops.reduce_add and n.params["axes"] == (0,))
    (tanh,) = (node for node in forced.nodes if node.op is ops.tanh)
    assert square_sum in ancestors(tanh)


@pytest.mark.xla
def test_the_pass_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACER_DISABLE_RULES", "schedule")
    limit = (COUNT + 1 + 8) * UNIT
    generator = np.random.default_rng(0)
    arrays = [generator.normal(size=shape).astype(dtype) for shape, dtype in (MATRIX, STACK)]
    never = tracer.compile(tracer.grad(sums_of_products), memory_limit=limit, split="never")
    with pytest.raises(tracer.MemoryLimitError):
        never(*arrays)


def test_all_readers_of_a_value_come_before_the_next_large_one() -> None:
    """The value's sum frees nothing, as the gradient reads it too, but XLA must not put it off."""
    graph, _ = apply(
        COMMON_SUBEXPRESSIONS, traced(tracer.value_and_grad(sums_of_products), MATRIX, STACK)
    )
    forced, _ = apply(FORCE, graph)
    sums = [node for node in forced.nodes if node.op is ops.reduce_add]
    barriers = [node for node in forced.nodes if node.op is ops.optimization_barrier]
    waited_for = {value.node for barrier in barriers for value in barrier.operands}
    assert len(waited_for.intersection(sums)) >= COUNT - 1


@pytest.mark.xla
def test_without_a_limit_xla_keeps_its_order() -> None:
    generator = np.random.default_rng(0)
    arrays = [generator.normal(size=shape).astype(dtype) for shape, dtype in (MATRIX, STACK)]
    plan = tracer.compile(products_then_sums).plan(*arrays)
    assert "schedule" not in [row.name for row in plan.passes]


def test_orders_of_equal_problems_are_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[TaskGraph] = []

    def found(tasks: TaskGraph) -> list[list[int]]:
        searched.append(tasks)
        return [[*range(len(tasks))]]

    monkeypatch.setattr(search, "_KNOWN", {})
    monkeypatch.setattr(search, "_found_orders", found)

    def tasks_of(rows: int) -> TaskGraph:
        return TaskGraph(Liveness(traced(lambda x: tnp.exp(x) @ x.T, ((rows, 8), "float32"))))

    for rows in (8, 8, 9):
        candidate_orders(tasks_of(rows))
    assert len(searched) == 2
    monkeypatch.setattr(search, "_MOST_KNOWN", 1)
    for rows in (10, 11):
        candidate_orders(tasks_of(rows))
        assert len(search._KNOWN) == 1, "what is kept is bounded"


@pytest.mark.parametrize(("size", "searches"), [(4, 1), (40_000, 2)])
def test_the_order_of_a_body_that_needs_next_to_nothing_is_not_searched(
    size: int, searches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def program(x: Any, y: Any) -> Any:
        def step(_: Any, y: Any) -> Any:
            return tnp.sort(tnp.exp(y)) + tnp.sort(tnp.sin(y))

        return tnp.exp(x) @ tnp.sin(x), tracer.fori_loop(0, 9, step, y)

    graph = traced(program, ((300, 300), "float32"), ((size,), "float32"))
    sizes: list[int] = []
    monkeypatch.setattr(
        "tracer.optimizer.schedule.schedule.candidate_orders",
        lambda tasks: sizes.append(len(tasks)) or [[*range(len(tasks))]],
    )
    schedule(graph, PassLog())
    assert len(sizes) == searches
