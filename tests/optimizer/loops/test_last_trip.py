"""Where trips only write results the last one begins early: no remainder, the same values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import evaluated, traced
from tracer.ir import Graph
from tracer.optimizer.loops.split import LoopRow, SplitSettings, driver, split_graph
from tracer.optimizer.loops.split.chunk import balanced, dividing
from tracer.optimizer.passes import PassLog
from tracer.target import DEFAULT_TARGET


def split(
    function: Any, chunk: int, monkeypatch: pytest.MonkeyPatch, *types: Any
) -> tuple[Graph, Graph, list[LoopRow]]:

    def chosen(subject: Any, region: Any, *rest: Any) -> int:
        return min(chunk, region.length)

    monkeypatch.setattr(driver, "choose_chunk", chosen)
    before = traced(function, *types)
    after, rows = split_graph(before, SplitSettings(2_000, 1 << 14, 1 << 20), PassLog())
    return before, after, rows


def written(x: Any, y: Any) -> Any:
    return (x[:, None] * y % 7) @ y


def summed(x: Any, y: Any) -> Any:
    weights = x[:, None] * y % 7
    return weights @ y, weights.T @ x


def numbers(count: int, seed: int) -> np.ndarray:
    """Integers: equal whatever the order of a sum."""
    return np.random.default_rng(seed).integers(1, 50, count, np.int32)


@pytest.mark.parametrize(
    ("length", "chunk", "wanted"),
    [
        (100, 25, (4, 25, 0)),
        (99, 25, (4, 25, -1)),
        # Four of 24 would do, and 4 x 24 is nearer to 95 than 4 x 25 is.
        (95, 25, (4, 24, -1)),
        (200, 66, (4, 50, 0)),
        (201, 66, (4, 51, -3)),
        # Slices of 81 would do, but do not begin at whole vectors.
        (484, 96, (5, 96, 4)),
        (522, 96, (6, 88, -6)),
        # Six of 88 would compute 28 again.
        (500, 96, (7, 72, -4)),
        # There are no smaller slices of whole vectors.
        (61, 8, (7, 8, 5)),
        # Much would be computed again: 4 of 7.
        (7, 3, (2, 3, 1)),
        (10, 3, (3, 3, 1)),
    ],
)
def test_trips(
    length: int, chunk: int, wanted: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    types = ((length,), "int32"), ((400,), "int32")
    before, after, rows = split(written, chunk, monkeypatch, *types)
    row = rows[0]  # What follows is of a remainder that is large itself.
    assert row.combiners == ("write",) * len(row.combiners)
    assert (row.trips, row.chunk, row.remainder) == wanted
    assert row.trips * row.chunk + row.remainder == length
    x, y = numbers(length, 0), numbers(400, 1)
    for got, want in zip(evaluated(after, x, y), evaluated(before, x, y), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("length", "rows", "fixed", "wanted"),
    [
        (256, 120, 0, 64),
        (256, 120, 1, 64),
        # Twice as many trips, and a trip takes as long whatever its rows.
        (256, 120, 1000, 120),
        (100, 25, 1000, 25),
        # Divisors are 1, 7 and 13.
        (91, 40, 0, 40),
        (2, 1, 0, 1),
        (3, 2, 0, 2),
    ],
)
def test_slices_that_divide_the_axis_are_taken_where_trips_are_as_fast(
    length: int, rows: int, fixed: float, wanted: int
) -> None:
    assert dividing(length, rows, lambda size: fixed + size) == wanted


def test_what_is_summed_is_summed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    types = ((99,), "int32"), ((400,), "int32")
    before, after, rows = split(summed, 25, monkeypatch, *types)
    assert (rows[0].trips, rows[0].chunk, rows[0].remainder) == (3, 25, 24)
    assert "add" in rows[0].combiners
    x, y = numbers(99, 0), numbers(400, 1)
    for got, want in zip(evaluated(after, x, y), evaluated(before, x, y), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.xla
def test_masks_and_places_follow_the_early_trip() -> None:
    """What is made in the body, such as places and causal masks, begins early as well."""

    def causal(x: Any) -> Any:
        place = tnp.arange(x.shape[0])
        return tnp.where(place[:, None] >= place, x[:, None] * x % 7, 0) @ x

    x = numbers(1_471, 2)  # A prime: nothing divides it.
    compiled = tracer.compile(causal, memory_limit="300kB")
    plan = compiled.plan(x)
    assert any(row.remainder < 0 for row in plan.loops)
    assert "the last begins" in str(plan)
    np.testing.assert_array_equal(compiled(x), tracer.compile(causal, split="never")(x))


@pytest.mark.parametrize(
    ("length", "rows", "most", "wanted"),
    [
        (16_384, 120, 200, 128),  # Just above, and no slice begins early.
        (16_384, 120, 127, 120),  # What a budget or the user allows is not exceeded.
        (16_384, 113, 200, 113 - 113 % 8),  # An eighth above at most.
        (16_384, 140, 200, 128),
        (1_000, 120, 200, 125),
        (7, 3, 3, 3),
        (1, 1, 1, 1),
    ],
)
def test_slices_divide_the_axis_where_such_a_size_is_near(
    length: int, rows: int, most: int, wanted: int
) -> None:
    assert balanced(length, rows, DEFAULT_TARGET, most) == wanted
