"""What the time model takes for new pages: as many as are alive at a time."""

from __future__ import annotations

from typing import Any

import pytest

import tracer
import tracer.numpy as tnp
from tracer.array.trace import trace
from tracer.ir import Graph, ShapeDtype
from tracer.optimizer.model.speed import estimate_seconds, trip_seconds
from tracer.target import Target

ROWS, COLUMNS = 1 << 16, 128
NBYTES = 4 * ROWS * COLUMNS
MACHINE = Target(cache_bytes=NBYTES)
FRESH_SECONDS = NBYTES * (1 / MACHINE.prices.fresh_rate - 1 / MACHINE.prices.memory_rate)
"""What one value takes longer where its pages are new."""


def layers(count: int, *, kept: bool = False) -> Graph:
    """Return a deep network, two of whose values are alive at a time, or all."""

    def network(x: Any, w: Any) -> Any:
        values = [x]
        for _ in range(count):
            values.append(tnp.tanh(values[-1] @ w))
        return values if kept else values[-1].sum(0)

    types = [ShapeDtype((ROWS, COLUMNS), "float32"), ShapeDtype((COLUMNS, COLUMNS), "float32")]
    return trace(network, types).graph


def seconds_for_one_more(*, kept: bool) -> float:
    few, more = (estimate_seconds(layers(count, kept=kept), MACHINE) for count in (10, 11))
    return more - few


def in_a_loop(count: int) -> float:
    """Return what the network takes where all its buffers are used again in every trip."""
    return trip_seconds(layers(count), MACHINE)


def test_the_later_layers_write_over_what_the_earlier_ones_stored() -> None:
    expected = in_a_loop(11) - in_a_loop(10)
    assert seconds_for_one_more(kept=False) == pytest.approx(expected, rel=1e-6)


def test_the_first_values_are_new_pages() -> None:
    beyond = estimate_seconds(layers(10), MACHINE) - in_a_loop(10)
    assert 0.9 * FRESH_SECONDS < beyond < 3.1 * FRESH_SECONDS


def test_values_that_stay_alive_are_all_new_pages() -> None:
    more = seconds_for_one_more(kept=True) - seconds_for_one_more(kept=False)
    assert 0.9 * FRESH_SECONDS < more < 1.1 * FRESH_SECONDS


@pytest.mark.parametrize("kind", ["while", "scan"])
def test_a_loop_takes_as_long_as_all_its_trips(kind: str) -> None:
    """A scan counted as one step, so that what its body takes decided nothing."""

    def program(x: Any, weights: Any, *, trips: int) -> Any:
        step = lambda c: tnp.tanh(c @ weights)
        if kind == "scan":
            return tracer.scan(lambda c, _: (step(c), None), x, None, length=trips)[0]
        return tracer.while_loop(lambda c: c[0] < trips, lambda c: (c[0] + 1, step(c[1])), (0, x))

    def seconds(trips: int) -> float:
        graph = trace(lambda *args: program(*args, trips=trips), types).graph
        return estimate_seconds(graph, MACHINE)

    types = [ShapeDtype((ROWS, COLUMNS), "float32"), ShapeDtype((COLUMNS, COLUMNS), "float32")]
    assert seconds(1000) > 400 * seconds(2)
