"""The fusion benchmark: programs agree with the pass on and off, which `table` checks itself."""

from __future__ import annotations

import pytest

from benchmarks.explicit_fusion import EXPERIMENTS, run
from benchmarks.fusion import CONCATENATE, MERGER, table

pytestmark = pytest.mark.xla


@pytest.mark.process
def test_memory_that_the_passes_take_away() -> None:
    rows = table(n=600, count=8, rounds=1)
    bought = {
        row.program: row.temporary_bytes[0] - row.temporary_bytes[1]
        for row in rows
        if row.option in (MERGER, CONCATENATE)
    }
    assert bought["sums_both_ways"] > 600 * 600 * 3
    assert bought["moments_of_joined"] > 600 * 600 * 8


def test_an_experiment_runs() -> None:
    assert set(run("variadic extremes, rows")) == {"told", "ours", "merger off"}
    assert "mhlo.fusion, two results" in EXPERIMENTS
