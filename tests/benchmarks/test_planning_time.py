"""The table of planning time: ratios, with and without jax."""

from __future__ import annotations

from typing import Any

from benchmarks import planning_time

ROW: dict[str, Any] = {
    "program": "kernel", "limit": "40MB", "ours": 3.0, "xla": 2.0, "planning": 1.0, "no_limit": 1.5,
    "programs": 2, "kernels": 20, "jax_kernels": 10,
}  # fmt: skip


def test_ratios_are_those_of_all_our_time() -> None:
    cells = planning_time.cells({**ROW, "jax": 0.5})
    assert cells == ("kernel", "40MB", "1.00", "2.00", "1.50", "0.50", "2.0", "6.0", "20", "10")
    rows = [{**ROW, "jax": 0.5}, {**ROW, "jax": 1.0}]
    assert planning_time.summary(rows)[1].endswith("jax.jit: median 4.5, most 6.0")
    assert planning_time.summary(rows)[2] == (
        "for each kernel XLA takes 50 ms, jax.jit 75 ms (medians)"
    )


def test_without_jax_its_columns_are_empty() -> None:
    row = {**ROW, "jax": None, "refused": True, "kernels": None, "jax_kernels": None}
    assert planning_time.cells(row)[1] == "40MB (refused)"
    assert planning_time.cells(row)[5::2] == ("", "", "")
    assert planning_time.cells(row)[8] == ""
    assert len(planning_time.summary([row])) == 1
    assert "jax.jit:" not in planning_time.markdown([row])


def test_every_program_has_arguments_and_a_limit() -> None:
    for name in planning_time.OTHERS:
        _, inputs, limit = planning_time.program_of(name, "small")
        assert inputs
        assert limit.endswith("B")
