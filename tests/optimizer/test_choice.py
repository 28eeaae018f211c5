"""Which program the planner prefers: axes that store nothing, slices where they are faster."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import pytest

import tracer
import tracer.numpy as tnp
from tracer.array.trace import trace
from tracer.ir import Graph, ShapeDtype
from tracer.optimizer import planner
from tracer.optimizer.candidates import Candidate, PlanningCache
from tracer.optimizer.loops.split import SplitSettings, as_pass
from tracer.optimizer.model.costs import graph_flops
from tracer.optimizer.model.liveness import peak_bytes
from tracer.optimizer.model.speed import estimate_seconds
from tracer.optimizer.pipeline import PlannerOptions
from tracer.optimizer.planner import Planner
from tracer.target import Target

N, FEATURES = 1000, 64
MATRIX_BYTES = 4 * N * N


def neighbours() -> Graph:
    def function(queries: Any, points: Any) -> Any:
        distances = tnp.sqrt(((queries[:, None, :] - points[None, :, :]) ** 2).sum(-1))
        return tnp.top_k(-distances, 10)

    points = ShapeDtype((N, FEATURES), "float32")
    return trace(function, [points, points]).graph


def test_the_smallest_program_stores_no_matrix() -> None:
    # Cutting along the points would store the distances for top_k; cutting the queries does not.
    planner = Planner(neighbours(), PlannerOptions(limit_bytes=2_000_000))
    assert planner.smallest().peak_bytes < MATRIX_BYTES / 2


def test_a_program_that_fits_is_split_when_it_outgrows_the_cache() -> None:
    graph = neighbours()
    roomy = 100 * MATRIX_BYTES
    small = Planner(
        graph, PlannerOptions(limit_bytes=roomy, machine=Target(cache_bytes=MATRIX_BYTES // 2))
    )
    large = Planner(
        graph, PlannerOptions(limit_bytes=roomy, machine=Target(cache_bytes=4 * MATRIX_BYTES))
    )
    assert next(small.candidates()).loops
    assert not next(large.candidates()).loops
    assert not next(Planner(graph, PlannerOptions()).candidates()).loops


def test_planners_for_other_limits_share_split_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = neighbours()
    known = PlanningCache()
    first = Planner(graph, PlannerOptions(limit_bytes=1), known).smallest().loops

    def fail(*_: object) -> None:
        raise AssertionError("split again")

    monkeypatch.setattr(as_pass, "split_graph", fail)
    second = Planner(graph, PlannerOptions(limit_bytes=2), known).smallest().loops
    assert second == first


@pytest.mark.slow
def test_a_deep_network_takes_slices_of_its_batch_that_are_as_large_as_the_limit_allows() -> None:
    """Hundreds of values are alive at its peak, none of which is large beside the limit."""
    layers, rows = 100, 4_096

    def loss(weights: Any, x: Any) -> Any:
        for weight in weights:
            x = tnp.tanh(x @ weight) * 0.5
        return (x * x).mean()

    weights = [ShapeDtype((32 + i % 7, 32 + (i + 1) % 7), "float32") for i in range(layers)]
    graph = trace(tracer.grad(loss), (weights, ShapeDtype((rows, 32), "float32"))).graph
    machine = Target()
    limit = peak_bytes(graph) // 2
    found = next(Planner(graph, PlannerOptions(limit_bytes=limit, machine=machine)).candidates())
    (loop,) = found.loops
    assert loop.chunk >= rows // 4  # The largest that divides them.
    assert found.peak_bytes <= limit
    # Slices for the cache took 1.4 times as long, those of the tightest settings 2.4 times.
    whole = estimate_seconds(graph, machine)
    assert estimate_seconds(found.graph, machine) < 1.25 * whole


def test_slices_that_are_as_fast_and_much_smaller_come_before_the_whole() -> None:
    """Four of these matrices are alive at once in the whole program: 34 GB."""
    length = 16_384

    def loss(q: Any, k: Any, v: Any) -> Any:
        return (tracer.nn.dot_product_attention(q, k, v) ** 2).sum()

    operand = ShapeDtype((1, length, 8, 64), "float32")
    graph = trace(tracer.grad(loss, argnums=(0, 1, 2)), (operand, operand, operand)).graph
    whole = estimate_seconds(graph, Target())
    found = next(Planner(graph, PlannerOptions(machine=Target())).candidates())
    assert estimate_seconds(found.graph, Target()) < whole
    assert 8 * found.peak_bytes < peak_bytes(graph)


@pytest.mark.parametrize("ratio", [0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 100.0])
def test_the_less_memory_slices_take_the_more_time_they_may(ratio: float) -> None:
    found = planner._time_for_less_memory(ratio)
    assert found == pytest.approx(min(1, max(0.85, 0.85 + 0.075 * math.log2(ratio))))


def test_a_layer_whose_slices_take_little_less_time_and_half_the_memory_is_cut() -> None:
    """8 x 256 x 512, 8 heads, with its gradient: measured 0.97 of the time."""

    def loss(x: Any, weights: Any) -> Any:
        q, k, v = ((x @ w).reshape(8, 256, 8, 64) for w in weights[:3])
        found = tracer.nn.dot_product_attention(q, k, v).reshape(x.shape)
        return ((x + found @ weights[3]) ** 2).sum()

    operands = ShapeDtype((8, 256, 512), "float32"), [ShapeDtype((512, 512), "float32")] * 4
    graph = trace(tracer.grad(loss, argnums=(0, 1)), operands).graph
    machine = Target(cache_bytes=1 << 25)
    first, whole = Planner(graph, PlannerOptions(machine=machine)).candidates()
    assert first.loops
    ratio = whole.peak_bytes / first.peak_bytes
    share = estimate_seconds(first.graph, machine) / estimate_seconds(whole.graph, machine)
    assert ratio > 1.4
    assert 0.85 < share < planner._time_for_less_memory(ratio)


def trajectories(x: Any) -> Any:
    """Return the means of a walk of each point, in which no other has a part."""

    def step(state: Any, _: None) -> Any:
        state = state + 0.1 * tnp.sin(state)
        return state, state

    return tracer.scan(step, x, None, length=50)[1].mean(0)


@pytest.mark.parametrize("points", [100, 400_000])
def test_loops_over_steps_run_in_slices_without_a_limit_where_that_is_faster(points: int) -> None:
    gradient = tracer.grad(lambda x: (trajectories(x) ** 2).sum())
    graph = trace(gradient, [ShapeDtype((points,), "float32")]).graph
    machine = Target(cache_bytes=1 << 25)
    first, *others = Planner(graph, PlannerOptions(machine=machine)).candidates()
    assert bool(first.loops) == (points > 100)
    if first.loops:
        (whole,) = others
        assert not whole.loops
        assert 4 * first.peak_bytes < whole.peak_bytes
        assert estimate_seconds(first.graph, machine) <= estimate_seconds(whole.graph, machine)
        assert first.loops[0].extra_flops < 0.01 * graph_flops(graph)


def test_a_slice_of_what_no_cache_holds_is_read_from_memory() -> None:
    def seconds(rows: int) -> float:
        def part(x: Any, i: Any) -> Any:
            return tracer.lax.dynamic_slice(x, (i, 0), (64, 1024)) + 1

        types = [ShapeDtype((rows, 1024), "float32"), ShapeDtype((), "int32")]
        return estimate_seconds(trace(part, types).graph, Target())

    read = 64 * 1024 * 4
    prices = Target().prices
    expected = read / prices.memory_rate - read / prices.cache_rate
    # But for the bytes of where it begins.
    assert seconds(100_000) - seconds(1000) == pytest.approx(expected, rel=1e-3)


def test_loops_over_steps_stay_whole_without_a_limit_where_that_was_not_measured() -> None:
    graph = trace(trajectories, [ShapeDtype((400_000,), "float32")]).graph
    kernels = replace(Target().kernels, steps_in_slices=False)
    machine = Target(cache_bytes=1 << 25, kernels=kernels)
    (found,) = Planner(graph, PlannerOptions(machine=machine)).candidates()
    assert not found.loops


def kernels_by_turns(x: Any, v: Any) -> Any:
    """As written both matrices are alive at once; in our order one at a time."""
    difference = x[:, None] - x
    first, second = tnp.exp(-difference * difference), tnp.tanh(difference)
    return (first @ v) * (second @ v).sum() + (second @ v) * (first @ v).sum()


@pytest.mark.parametrize("cache_bytes", [MATRIX_BYTES // 2, 100 * MATRIX_BYTES])
def test_slices_that_are_faster_come_before_the_whole_in_our_order(cache_bytes: int) -> None:
    points = ShapeDtype((N,), "float32")
    options = PlannerOptions(
        limit_bytes=3 * MATRIX_BYTES // 2, machine=Target(cache_bytes=cache_bytes)
    )
    planner = Planner(trace(kernels_by_turns, [points, points]).graph, options)
    first, second = itertools.islice(planner.candidates(), 2)
    if cache_bytes < MATRIX_BYTES:
        assert first.loops
        assert second.is_ordered
    else:
        assert first.is_ordered
        assert not first.loops


def attention_gradients() -> Graph:
    """Each trip adds to the gradients of all keys and values, whatever its slice of queries."""

    def loss(queries: Any, keys: Any, values: Any) -> Any:
        return ((tracer.nn.softmax(queries @ keys.T / 8, axis=-1) @ values) ** 2).sum()

    rows = ShapeDtype((4_096, 32), "float32")
    return trace(tracer.grad(loss, argnums=(0, 1, 2)), [rows] * 3).graph


def first_of(graph: Graph, machine: Target, limit: int | None = None) -> Candidate:
    return next(Planner(graph, PlannerOptions(limit_bytes=limit, machine=machine)).candidates())


def test_slices_larger_than_the_caches_are_taken_where_the_sums_of_each_trip_are_large() -> None:
    graph, machine = attention_gradients(), Target(cache_bytes=2 << 20)
    found = first_of(graph, machine)
    # Such a processor's caches hold slices of 24 rows: 0.15 s by the model, 0.10 in those of 120.
    assert max(loop.chunk for loop in found.loops) > 4 * machine.sizes.product_rows
    # A limit that leaves room for them is no reason for small ones, nor for a whole matrix.
    for limit in (2 * found.peak_bytes, 20 * found.peak_bytes, 1 << 40):
        assert first_of(graph, machine, limit).graph.fingerprint == found.graph.fingerprint
    tight = found.peak_bytes - 1
    assert first_of(graph, machine, tight).peak_bytes <= tight


def test_larger_slices_are_tried_only_where_those_for_the_caches_are_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph, tried = attention_gradients(), []
    split = Planner._split

    def recorded(self: Planner, settings: SplitSettings) -> Candidate:
        tried.append(settings.budget_bytes)
        return split(self, settings)

    monkeypatch.setattr(Planner, "_split", recorded)
    large = Target(cache_bytes=48 << 20)
    assert first_of(graph, large).loops
    assert tried == [4 * large.trip_bytes]
    # Where no cache decides, larger slices are no faster.
    tried.clear()
    filled = Target(cache_bytes=2 << 20, largest_trip=1 << 19)
    first_of(graph, filled)
    assert tried == [4 * filled.trip_bytes]


def test_nothing_is_split_where_that_is_switched_off() -> None:
    points, machine = ShapeDtype((N,), "float32"), Target(cache_bytes=MATRIX_BYTES // 2)
    options = PlannerOptions(limit_bytes=3 * MATRIX_BYTES // 2, machine=machine, split=False)
    planner = Planner(trace(kernels_by_turns, [points, points]).graph, options)
    found = [*planner.candidates()]
    assert found
    assert not any(candidate.loops for candidate in found)
