"""Square tiles instead of slices of few rows, and masks of long sequences in bodies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer.array.trace import trace
from tracer.ir import ShapeDtype
from tracer.optimizer.model.costs import run_cost
from tracer.optimizer.model.speed import estimate_seconds
from tracer.optimizer.pipeline import PlannerOptions
from tracer.optimizer.planner import Planner
from tracer.target import Prices, Target

N = 20_000
SMALL = Target(cache_bytes=2 << 20)
"""Its cache holds about twenty rows of `N` elements."""


def product(x: Any, y: Any, v: Any) -> Any:
    return tnp.exp(-((x[:, None] - y[None, :]) ** 2).sum(-1)) @ v


def loss(x: Any, y: Any, v: Any) -> Any:
    return (product(x, y, v) ** 2).sum()


def loops_of(function: Any, *types: ShapeDtype, limit: int, machine: Target) -> Any:
    options = PlannerOptions(limit_bytes=limit, machine=machine)
    return next(Planner(trace(function, types).graph, options).candidates()).loops


@pytest.mark.parametrize("function", [product, tracer.grad(loss, argnums=(0, 1, 2))])
def test_few_long_rows_are_cut_into_tiles(function: Any) -> None:
    points, vector = ShapeDtype((N, 3), "float32"), ShapeDtype((N,), "float32")
    outer, *inner = loops_of(function, points, points, vector, limit=10**8, machine=SMALL)
    assert outer.axis.startswith(f"axis of {N} of float32[{N},{N}]")
    assert inner
    for loop in inner:
        assert loop.axis.startswith(f"axis of {N} of")
        assert 64 <= loop.chunk <= 4_000
    assert 64 <= outer.chunk <= 4_000


def test_rows_that_are_many_are_not_cut_again() -> None:
    points, vector = ShapeDtype((N, 3), "float32"), ShapeDtype((N,), "float32")
    machine = Target(cache_bytes=32 << 20)
    (loop,) = loops_of(product, points, points, vector, limit=10**8, machine=machine)
    assert loop.chunk >= 32


def test_the_k_largest_are_not_merged_for_the_sake_of_tiles() -> None:
    """A tile would sort what was found before in each of its steps."""

    def nearest(queries: Any, points: Any) -> Any:
        length = tnp.sqrt((points**2).sum(1))
        return tnp.top_k(queries @ points.T / length, 10)

    queries, points = ShapeDtype((1_000, 10), "float32"), ShapeDtype((10**6, 10), "float32")
    loops = loops_of(nearest, queries, points, limit=128 * 10**6, machine=Target())
    assert loops[-1].axis.startswith("axis of 1000 of float32[1000,100000]")
    assert loops[-1].chunk < 32


def nearest_of(k: int, queries: int, points: int, features: int) -> Any:
    """Return the loops for neighbours under 300 MB."""

    def nearest(queries: Any, points: Any) -> Any:
        return tnp.top_k(queries @ points.T, k)

    types = (ShapeDtype((n, features), "float32") for n in (queries, points))
    limit = 300 * 10**6
    return loops_of(nearest, *types, limit=limit, machine=Target(cache_bytes=32 << 20))


def test_steps_of_one_core_are_not_divided_among_the_cores() -> None:
    program = trace(lambda x: tnp.top_k(x, 100), (ShapeDtype((1_000, 5_000), "float32"),)).graph
    steps = sum(run_cost(node).steps for node in program.nodes)
    for cores in (1, 8):
        machine = Target(cores=cores, prices=Prices(step_seconds=0.0))
        slow = estimate_seconds(program, replace(machine, prices=Prices(step_seconds=1e-9)))
        assert slow - estimate_seconds(program, machine) == pytest.approx(1e-9 * steps)
    assert steps > 10**7


def test_slices_are_long_where_merges_take_long() -> None:
    """2,000 of a million points fit the caches; to merge 500 times 100 takes 30 times as long."""
    assert not any(loop.trips > 130 for loop in nearest_of(100, 1_000, 10**6, 10))


def test_results_are_merged_less_often_in_tiles() -> None:
    """200 points of 10,000 queries fit the caches, and would be merged 300 times."""
    outer, inner = nearest_of(10, 10_000, 60_000, 784)
    assert outer.axis.startswith("axis of 60000 of")
    assert outer.trips <= 40
    assert inner.axis.startswith("axis of 10000 of")


def test_an_axis_is_chosen_by_what_its_tiles_will_take() -> None:
    """Along the other axis trips read all of the points, centred: 40 MB that stay stored."""

    def nearest(queries: Any, points: Any) -> Any:
        return tnp.top_k(-((queries[:, None] - points) ** 2).sum(-1), 10)

    types = (ShapeDtype((n, 100), "float32") for n in (10_000, 100_000))
    *_, outer, inner = loops_of(nearest, *types, limit=10**8, machine=Target())
    assert outer.axis.startswith("axis of 100000 of")
    assert outer.trips <= 10
    assert inner.axis.startswith("axis of 10000 of")


def test_what_libraries_would_pack_for_every_slice_is_cut() -> None:
    """80 slices of 200,000 x 100 numbers are packed anew for every 80 rows, and added to."""
    points, vector = ShapeDtype((200_000, 100), "float32"), ShapeDtype((200_000,), "float32")
    gradient = tracer.grad(lambda x, y, v, u: u @ product(x, y, v), argnums=(0, 1, 2))
    loops = loops_of(gradient, points, points, vector, vector, limit=10**9, machine=Target())
    (outer,) = [loop for loop in loops if "200000,200000]" in loop.axis]
    assert 1_000 <= outer.chunk <= 8_000
    assert loops[-1].axis.startswith("axis of 200000 of")
    assert 100 <= loops[-1].chunk <= 4_000


@pytest.mark.xla
@pytest.mark.parametrize(("rows", "columns", "left"), [(3_000, 8_000, 0), (3_001, 8_009, 1)])
def test_tiles_give_the_same(rows: int, columns: int, left: int, rng: np.random.Generator) -> None:
    """With remainders on both axes too; sums over tiles differ by rounding."""
    x, y = rng.standard_normal((rows, 3)), rng.standard_normal((columns, 3))
    v = rng.standard_normal(columns)
    program = tracer.compile(product, memory_limit=1_700_000)
    outer, inner, *_ = program.plan(x, y, v).loops
    assert outer.axis.startswith(f"axis of {rows} of")
    assert inner.axis.startswith(f"axis of {columns} of")
    assert (outer.remainder != 0) == (inner.remainder != 0) == (left > 0)
    whole = tracer.compile(product, split="never")(x, y, v)
    np.testing.assert_allclose(program(x, y, v), whole, rtol=1e-11, atol=1e-11)


def test_the_mask_of_a_long_sequence_is_made_in_bodies() -> None:
    """Its places are a constant of 128 KiB, which is small beside a mask of 268 MB."""
    heads, length = 4, 16_384

    def causal(q: Any, k: Any, v: Any) -> Any:
        places = tnp.arange(length)
        scores = q @ tnp.swapaxes(k, -1, -2)
        scores = tnp.where(places[:, None] >= places, scores, -tnp.inf)
        return (tracer.nn.softmax(scores, axis=-1) @ v).sum()

    operand = ShapeDtype((heads, length, 64), "float32")
    gradient = tracer.grad(causal, argnums=(0, 1, 2))
    limit = 6 * operand.nbytes + length * length // 8
    loops = loops_of(gradient, operand, operand, operand, limit=limit, machine=Target())
    assert loops[0].axis.startswith(f"axis of {heads} of")


@pytest.mark.xla
def test_bodies_within_bodies_of_the_user_are_no_tiles() -> None:
    """A branch in a scan in a loop is cut as the program itself is (Sinkhorn of ott does so)."""

    def total(x: Any, y: Any) -> Any:
        return tnp.exp(-((x[:, None] - y) ** 2)) @ y

    def step(y: Any, i: Any) -> tuple[Any, Any]:
        again = tracer.cond(i > 1, lambda y: total(y, y) / 1500, lambda y: y, y)
        return again, again.sum()

    def function(x: Any) -> Any:
        def body(state: Any) -> Any:
            return state[0] + 1, tracer.scan(step, state[1], tnp.arange(4))[0]

        return tracer.while_loop(lambda state: state[0] < 3, body, (0, x))[1]

    x = np.random.default_rng(0).standard_normal(1500).astype(np.float32)
    limited = tracer.compile(function, memory_limit="1MB")
    assert limited.plan(x).loops
    np.testing.assert_allclose(limited(x), tracer.compile(function)(x), rtol=1e-4, atol=1e-6)
