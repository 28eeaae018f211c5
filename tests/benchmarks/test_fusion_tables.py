"""The fusion benchmark: programs agree with the pass on and off, which `table` checks itself."""

from __future__ import annotations

import pytest

from benchmarks import fusion
from benchmarks.explicit_fusion import EXPERIMENTS, run
from benchmarks.fusion import CONCATENATE, MERGER

pytestmark = pytest.mark.xla


def test_memory_that_the_passes_take_away(monkeypatch: pytest.MonkeyPatch) -> None:
    # Two processes for each of nine programs; the next test starts those of one.
    monkeypatch.setattr(fusion, "_measured", lambda *_: None)
    rows = fusion.table(n=600, count=8, rounds=1)
    bought = {
        row.program: row.temporary_bytes[0] - row.temporary_bytes[1]
        for row in rows
        if row.option in (MERGER, CONCATENATE)
    }
    assert bought["sums_both_ways"] > 600 * 600 * 3
    assert bought["moments_of_joined"] > 600 * 600 * 8


@pytest.mark.process
def test_a_fresh_process_takes_less_with_the_pass() -> None:
    n = 2_000
    names = [function.__name__ for _, function, _ in fusion.programs(8, 2)]
    index = names.index("sums_both_ways")
    off, on = (fusion._measured(index, n, 2, passes) for passes in (f"-{MERGER}", None))
    assert off is not None
    assert on is not None
    assert off - on > n * n * 3


def test_an_experiment_runs() -> None:
    assert set(run("variadic extremes, rows")) == {"told", "ours", "merger off"}
    assert "mhlo.fusion, two results" in EXPERIMENTS
