"""What the time model takes for new pages: as many as are alive at a time."""

from __future__ import annotations

from typing import Any

import pytest

import tracer.numpy as tnp
from tracer.array.trace import trace
from tracer.ir import ShapeDtype
from tracer.optimizer.model.speed import estimate_seconds, trip_seconds
from tracer.target import Target

ROWS, COLUMNS = 1 << 16, 128
NBYTES = 4 * ROWS * COLUMNS
MACHINE = Target(cache_bytes=NBYTES)


def layers(count: int) -> Any:
    """Return the graph of a deep network, two of whose values are alive at a time."""

    def network(x: Any, w: Any) -> Any:
        for _ in range(count):
            x = tnp.tanh(x @ w)
        return x.sum(0)

    types = [ShapeDtype((ROWS, COLUMNS), "float32"), ShapeDtype((COLUMNS, COLUMNS), "float32")]
    return trace(network, types).graph


def seconds(count: int) -> float:
    return estimate_seconds(layers(count), MACHINE)


def test_the_later_layers_write_over_what_the_earlier_ones_stored() -> None:
    trip = trip_seconds(layers(11), MACHINE) - trip_seconds(layers(10), MACHINE)
    assert seconds(11) - seconds(10) == pytest.approx(trip, rel=1e-6)


def test_the_first_values_are_new_pages() -> None:
    prices = MACHINE.prices
    fresh = NBYTES * (1 / prices.fresh_rate - 1 / prices.memory_rate)
    beyond = seconds(10) - trip_seconds(layers(10), MACHINE)
    assert 0.9 * fresh < beyond < 3.1 * fresh


def test_values_that_stay_alive_are_all_new_pages() -> None:
    """The values of each layer, kept to the end."""

    def network(x: Any, w: Any, count: int) -> Any:
        kept = []
        for _ in range(count):
            x = tnp.tanh(x @ w)
            kept.append(x)
        return kept

    def found(count: int) -> float:
        types = [ShapeDtype((ROWS, COLUMNS), "float32"), ShapeDtype((COLUMNS, COLUMNS), "float32")]
        return estimate_seconds(trace(lambda x, w: network(x, w, count), types).graph, MACHINE)

    assert found(11) - found(10) > 1.05 * (seconds(11) - seconds(10))
