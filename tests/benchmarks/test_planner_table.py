"""The planner's table: what a run without a race shows, and which turns are refused."""

from __future__ import annotations

import pytest

from benchmarks import planner
from benchmarks.planner_table import HEADER, cells


def test_without_turns_the_watched_call_is_the_time() -> None:
    raced = planner.race("kernel", "small", turns=0, cap_bytes=1, peers=True)
    row = {"program": "kernel", "limit_bytes": 40, "memory_status": "ok", **raced}
    texts = dict(zip(HEADER, cells({**row, "first_seconds": 0.25}), strict=True))
    assert texts["seconds"] == "0.250"
    assert texts["jax / ours"] == texts["by hand / ours"] == planner.UNTIMED
    assert dict(zip(HEADER, cells(row), strict=True))["seconds"] == ""


def test_one_turn_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        planner.main(["--turns", "1"])
    assert "at least 2" in capsys.readouterr().err
