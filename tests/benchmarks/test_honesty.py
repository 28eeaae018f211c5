"""The benchmark of limits: its programs, its rows, and a run that goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import honesty
from benchmarks.honesty import Row
from benchmarks.honesty_programs import LIMITS, PROGRAMS, SMALLEST, prepared
from tracer.array.trace import trace
from tracer.ir import ShapeDtype

RAN: Row = {
    "program": "p", "limit": "1/2", "status": "ok", "reason": "", "limit_bytes": 1_000_000,
    "planned_bytes": 900_000, "counted_bytes": 950_000, "first_bytes": 1_100_000,
    "all_bytes": 2_000_000,
}  # fmt: skip
REFUSED: Row = {
    "program": "p", "limit": "1/4", "status": "refused", "reason": "smallest 2 MB",
    "limit_bytes": 1,
}  # fmt: skip


def test_two_hundred_different_programs() -> None:
    assert len(PROGRAMS) == 200
    traced = [
        trace(program.function, tuple(ShapeDtype(shape, program.dtype) for shape in program.shapes))
        for program in PROGRAMS.values()
    ]
    assert len({found.graph.fingerprint for found in traced}) == 200


def test_rows_say_what_is_kept() -> None:
    assert honesty.cells(RAN)[-2] == "count"
    assert honesty.cells(REFUSED)[-2:] == ("refused", "smallest 2 MB")
    lines = honesty.summary([RAN, REFUSED, RAN | {"first_bytes": 1_400_000}])
    assert lines[0] == "3 runs of 1 programs: 2 ran, 1 refused"
    assert "XLA's count within the limit: 2 of 2" in lines
    assert "the first call within the limit: 0 of 2" in lines
    assert lines[-1].endswith("the instrument: 1 of 2")


def test_a_count_over_the_limit_is_broken() -> None:
    assert honesty.broken([RAN, REFUSED]) == []
    over = RAN | {"counted_bytes": 1_000_001}
    assert honesty.broken([over]) == ["p at 1/2: XLA's count is over the limit"]


def test_programs_are_chosen_by_name_and_number() -> None:
    assert honesty.chosen([], 19) == list(PROGRAMS)[::19]
    assert all("sorts" in name for name in honesty.chosen(["sorts"], 1))


@pytest.mark.process
@pytest.mark.xla
def test_a_run_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows.jsonl"
    arguments = ["--programs", "loops: recurrent, 3 trips", "--json", str(path), "--limits"]
    rows = honesty.main([*arguments, "13/10"])
    assert [row["status"] for row in rows] == ["ok"]
    assert all(honesty.keeps(row, "counted_bytes") for row in rows)
    assert [json.loads(line) for line in path.read_text().splitlines()] == rows
    monkeypatch.setattr(honesty, "run", lambda name, *_: {**REFUSED, "program": name})
    more = honesty.main([*arguments, "13/10", "1/4"])
    assert [row["status"] for row in more] == ["ok", "refused"]


@pytest.mark.xla
def test_the_smallest_limit_is_the_one_of_a_refusal() -> None:
    smallest = prepared("loops: recurrent, 3 trips", SMALLEST).report()  # type: ignore[attr-defined]
    assert smallest["counted_bytes"] <= smallest["limit_bytes"]
    assert LIMITS[0] == SMALLEST
