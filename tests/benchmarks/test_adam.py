"""The Adam benchmark: both programs are right, and the pass is what makes the kernels few."""

from __future__ import annotations

import pytest

from benchmarks.adam import compiled, error_of, kernels_of

pytestmark = pytest.mark.xla


@pytest.mark.parametrize("steps", [1, 20])
def test_values_are_those_of_numpy(steps: int) -> None:
    run, _ = compiled("ours", 12, steps)
    assert error_of(run(), 12, steps) < 1e-5


def test_the_pass_takes_the_kernels_of_a_trip_away() -> None:
    _, text = compiled("ours", 12, 500)
    _, without = compiled("ours, pass off", 12, 500)
    assert kernels_of(text) < 12
    assert kernels_of(without) > 36
