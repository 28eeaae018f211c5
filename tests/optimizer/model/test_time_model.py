"""What the time model takes for new pages: as many as are alive at a time."""

from __future__ import annotations

from typing import Any

import pytest

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
