"""Axes that go: arg-max, top-k, running sums and scatter over slices give what the whole op gives.

Every comparison is bit for bit: only running sums and products of floats are rounded differently,
and those run on small whole numbers here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import apply as apply_pass
from tests.optimizer.graphs import of, traced
from tracer import ops
from tracer.array.dispatch import apply
from tracer.ir import Graph, interpret, verify
from tracer.optimizer.loops.split import LoopRow, SplitSettings, driver, split_graph
from tracer.optimizer.passes import PassLog
from tracer.optimizer.pipeline import EXPAND

Array = np.ndarray[Any, Any]
CHUNKS = (1, 2, 3, 7, 16, 40)
SETTINGS = SplitSettings(16, 1, 1, trust_fusion=False)


@pytest.fixture(params=CHUNKS, ids="slices of {}".format)
def split(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Graph], tuple[Graph, list[LoopRow]]]:
    """Split a graph once, into slices of a given size."""

    def choose(subject: Any, region: Any, *_: Any) -> int:
        return max(1, min(request.param, region.length // 2))

    monkeypatch.setattr(driver, "choose_chunk", choose)
    return lambda graph: split_graph(graph, SETTINGS, PassLog())


def assert_merged(
    split: Callable[[Graph], tuple[Graph, list[LoopRow]]],
    name: str,
    function: Callable[..., Any],
    *arrays: Array,
) -> None:
    graph = traced(function, *of(*arrays))
    result, rows = split(graph)
    verify(result)
    assert name in rows[0].combiners
    for got, want in zip(interpret(result, arrays), interpret(graph, arrays), strict=True):
        np.testing.assert_array_equal(got, want)


def awkward(seed: int, length: int = 83) -> list[Array]:
    """Return lines of floats with ties, NaN and infinities in different places."""
    rng = np.random.default_rng(seed)
    ties = rng.integers(-2, 3, (2, length)).astype("float32")
    nan = ties.copy()
    nan[0, [length // 3, length - 1]] = np.nan
    infinite = ties.copy()
    infinite[0, ::2], infinite[1, 1::2] = np.inf, -np.inf
    lowest = np.full((2, length), -np.inf, "float32")
    late = lowest.copy()
    late[0, -1], late[1, length // 2] = -5, np.nan
    return [ties, nan, infinite, lowest, late, -lowest, np.zeros((2, length), "float32")]


def largest(x: Any, k: int) -> Any:
    return tuple(apply(ops.top_k, x, k=k))


@pytest.mark.slow
@pytest.mark.parametrize("case", range(7))
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_arg_extremes_are_those_of_the_whole(split: Any, name: str, case: int) -> None:
    find = getattr(tnp, name)
    assert_merged(split, name, lambda x: find(x + x, axis=0), awkward(case)[case].T.copy())


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_arg_extremes_in_every_kind_of_dtype(split: Any, name: str, dtype: str) -> None:
    x = np.random.default_rng(1).integers(0, 2, (50, 3)).astype(tracer.ir.as_dtype(dtype))
    index_dtype = np.dtype(np.int8)

    def find(x: Any) -> Any:
        return apply(getattr(ops, name), tnp.where(x, x, x), axis=0, index_dtype=index_dtype)

    assert_merged(split, name, find, x)


@pytest.mark.slow
@pytest.mark.parametrize("case", range(7))
@pytest.mark.parametrize("k", [1, 5, 30, 83])
def test_the_k_largest_are_those_of_the_whole(split: Any, k: int, case: int) -> None:
    for line in awkward(case)[case]:
        # One line: its axis is the only one that can be cut.
        assert_merged(split, "top_k", lambda x: largest(x + x, k), line[None])


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int64", "float16", "float64"])
def test_the_k_largest_in_every_kind_of_dtype(split: Any, dtype: str) -> None:
    x = np.random.default_rng(1).integers(0, 4, (1, 41, 1, 1)).astype(dtype)
    x[0, 3:9] = np.iinfo(dtype).min if x.dtype.kind in "iu" else -np.inf
    x = x.reshape(1, 1, 41)
    assert_merged(split, "top_k", lambda x: largest(x * 1, 6), x)


@pytest.mark.slow
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "minimum"])
def test_running_reductions_are_those_of_the_whole(split: Any, name: str, reverse: bool) -> None:
    op = getattr(ops, f"cumulative_{name}")
    function = lambda x: apply(op, x * x, axis=0, reverse=reverse)
    rng = np.random.default_rng(2)
    assert_merged(split, op.name, function, rng.choice([-1.0, 1, 2], (53, 2, 2), p=[0.4, 0.5, 0.1]))
    assert_merged(split, op.name, function, rng.integers(-3, 4, (53, 2, 2)).astype("int32"))


@pytest.mark.slow
@pytest.mark.parametrize("reverse", [False, True])
def test_running_extremes_keep_nan(split: Any, reverse: bool) -> None:
    for name in ("maximum", "minimum"):
        op = getattr(ops, f"cumulative_{name}")
        for x in awkward(3):
            function = lambda x, op=op: apply(op, x * 2, axis=0, reverse=reverse)
            assert_merged(split, op.name, function, x.T.copy())


@pytest.mark.slow
def test_a_running_sum_of_narrow_floats_carries_float32(split: Any) -> None:
    """A carry of 11 bits would stop to grow at 2048."""
    graph = traced(lambda x: tnp.cumsum(x * 1, axis=0), ((5000, 1), "float16"))
    result, _ = split(graph)
    ones = np.ones((5000, 1), "float16")
    counted = np.arange(1, 5001.0)[:, None].astype("float16")
    np.testing.assert_array_equal(interpret(result, [ones])[0], counted)


def test_running_sums_of_both_directions_take_a_loop_each(split: Any) -> None:
    def both(x: Any) -> Any:
        y = x * 3
        forward = apply(ops.cumulative_add, y, axis=0, reverse=False)
        return forward, apply(ops.cumulative_add, y, axis=0, reverse=True), tnp.argmax(y, 0)

    x = np.random.default_rng(3).integers(-9, 9, (61,)).astype("int32")
    graph = traced(both, *of(x))
    result, rows = split(graph)
    assert {frozenset(row.combiners) for row in rows[:2]} == {
        frozenset({"cumulative_add", "argmax"}),
        frozenset({"cumulative_add"}),
    }
    for got, want in zip(interpret(result, [x]), interpret(graph, [x]), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("combiner", ["add", "multiply", "maximum", "minimum", "replace"])
def test_updates_are_scattered_slice_by_slice(split: Any, combiner: str) -> None:
    rng = np.random.default_rng(4)
    x = rng.integers(-9, 9, (6, 3)).astype("int32")
    places = rng.integers(-1, 8, (70, 1)).astype("int32")
    updates = rng.integers(-3, 4, (70, 3)).astype("int32")

    def scatter(x: Any, places: Any, updates: Any) -> Any:
        return apply(
            ops.scatter,
            x,
            places,
            updates * updates,
            combiner=combiner,
            update_window_dims=(1,),
            inserted_window_dims=(0,),
            scatter_dims_to_operand_dims=(0,),
            index_vector_dim=1,
            unique_indices=False,
        )

    graph = traced(scatter, *of(x, places, updates))
    result, rows = split(graph)
    assert rows[0].combiners == ("scatter",)
    np.testing.assert_array_equal(
        interpret(result, [x, places, updates])[0], interpret(graph, [x, places, updates])[0]
    )


def test_a_sort_keeps_its_axis_whole(split: Any) -> None:
    x = np.random.default_rng(5).normal(size=(40,)).astype("float32")
    graph = traced(lambda x: tnp.sort(tnp.sin(x)), *of(x))
    result, rows = split(graph)
    assert result is graph
    assert not rows


@pytest.mark.parametrize("length", [0, 1])
def test_axes_of_no_or_one_element_are_left_alone(length: int) -> None:
    x = np.ones((5, length), "float32")
    graph = traced(lambda x: (largest(x * 2, length), tnp.cumsum(x * 2, axis=1)), *of(x))
    result, _ = split_graph(graph, SETTINGS, PassLog())
    for got, want in zip(interpret(result, [x]), interpret(graph, [x]), strict=True):
        np.testing.assert_array_equal(got, want)


def neighbours(query: Any, points: Any) -> Any:
    distances = ((query - points) ** 2).sum(-1)
    return largest(-distances, 5), tnp.argmin(distances)


def test_within_vmap_grad_and_scan(split: Any) -> None:
    rng = np.random.default_rng(6)
    queries = rng.integers(-3, 4, (2, 3)).astype("float64")
    points = rng.integers(-3, 4, (47, 3)).astype("float64")

    def all_queries(queries: Any, points: Any) -> Any:
        return tracer.vmap(neighbours, (0, None))(queries, points)

    def one_by_one(queries: Any, points: Any) -> Any:
        step = lambda carry, query: (carry + 1, neighbours(query, points))
        return tracer.control.scan(step, tnp.zeros(()), queries)

    def gradient(queries: Any, points: Any) -> Any:
        nearest = lambda points: neighbours(queries[0], points)[0][0].sum()
        running = lambda points: (tnp.cumsum(points * points, 0) * points[::-1]).sum()
        return tracer.grad(nearest)(points), tracer.grad(running)(points)

    for function in (all_queries, one_by_one, gradient):
        graph = apply_pass(EXPAND, traced(function, *of(queries, points)))[0]
        result, rows = split(graph)
        assert rows or function is one_by_one  # a body is cut where that helps
        for got, want in zip(
            interpret(result, [queries, points]), interpret(graph, [queries, points]), strict=True
        ):
            np.testing.assert_array_equal(got, want)


@pytest.mark.xla
def test_the_nearest_of_many_points_are_found_in_one_loop() -> None:
    """One query: only the axis of the points can be cut."""
    rng = np.random.default_rng(7)
    points = rng.integers(-20, 20, (20_000, 4)).astype("float32")
    query = points[:1]

    def nearest(query: Any, points: Any) -> Any:
        distances = tnp.sum((query[:, None] - points[None]) ** 2, -1)
        return tnp.argmax(-distances, 1), *largest(-distances, 10)

    plain, tight = tracer.compile(nearest), tracer.compile(nearest, memory_limit="360KB")
    plan = tight.plan(query, points)
    assert len(plan.loops) == 1
    assert set(plan.loops[0].combiners) == {"argmax", "top_k"}
    for got, want in zip(tight(query, points), plain(query, points), strict=True):
        np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
