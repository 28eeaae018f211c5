"""`benchmarks.rematerialisation` compares ways to recompute."""

from __future__ import annotations

from benchmarks import rematerialisation


def test_ours_takes_no_more_operations_than_segments_by_hand() -> None:
    rows = {
        title: float(share)
        for _, title, *_, share in rematerialisation.operations("perceptron", "small")
    }
    assert rows["nothing again"] == 1
    assert rows["ours"] <= rows["dynamic rematerialisation"] < rows["segments by hand"]
