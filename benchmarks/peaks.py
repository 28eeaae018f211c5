"""How well the peak model predicts programs it was not made with: predicted, counted, measured.

    python -m benchmarks.peaks [--only TEXT] [--json FILE]

Each program runs in a fresh process (`measure.py`), with its arguments on the device and with the
libraries loaded that take memory once per process, whatever the program (docs/memory-model.md).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Callable
from typing import Any

import numpy as np

import tracer
import tracer.numpy as tnp
from benchmarks.measure import measure
from benchmarks.peak_programs import HELD_OUT
from benchmarks.warm_up import load_libraries
from examples.display import print_table
from tracer.units import format_bytes

HEADER = ("program", "limit", "predicted", "XLA + scratch", "measured", "of predicted", "of count")
LOW, HIGH = 0.7, 1.05
"""Measured over predicted: the range that 90 % of the programs should be in."""


def _prepared(name: str) -> tuple[Any, tuple[Any, ...]]:
    workload = HELD_OUT[name]
    inputs = tracer.tree.map(tnp.asarray, workload.inputs(np.random.default_rng(0)))
    return tracer.compile(workload.program, memory_limit=workload.limit), inputs


def prepare(name: str) -> Callable[[], Any]:
    """Make inputs, compile, load the libraries, and return `run` (for `benchmarks.measure`)."""
    compiled, inputs = _prepared(name)
    compiled.plan(*inputs)
    load_libraries()

    def run() -> Any:
        results = compiled(*inputs)
        for leaf in tracer.tree.leaves(results):
            leaf.block_until_ready()
        return results

    return run


def row(name: str) -> dict[str, Any]:
    """Plan and measure one program."""
    compiled, inputs = _prepared(name)
    plan = compiled.plan(*inputs)
    found = measure("benchmarks.peaks:prepare", arguments={"name": name}, repeats=2)
    assert found.peak_bytes is not None, f"{name}: {found.status}: {found.reason}"
    return {
        "program": name,
        "limit": HELD_OUT[name].limit or "",
        "predicted_bytes": plan.peak_bytes,
        "counted_bytes": plan.compiled_bytes,
        "measured_bytes": found.peak_bytes + plan.argument_bytes,
        "measurement": dataclasses.asdict(found),
    }


def _shown(row: dict[str, Any]) -> tuple[str, ...]:
    sizes = [row[f"{name}_bytes"] for name in ("predicted", "counted", "measured")]
    ratios = [f"{sizes[2] / size:.2f}" for size in sizes[:2]]
    return (row["program"], row["limit"], *map(format_bytes, sizes), *ratios)


def main(*, only: str = "", path: str | None = None) -> list[dict[str, Any]]:
    """Measure the programs, print the table and the figure, and write the rows when asked."""
    rows = [row(name) for name in HELD_OUT if only in name]
    print_table("Peak model, programs it was not made with", HEADER, [_shown(r) for r in rows])
    ratios = [row["measured_bytes"] / row["predicted_bytes"] for row in rows]
    inside = sum(LOW <= ratio <= HIGH for ratio in ratios)
    print(f"{inside} of {len(rows)} within {LOW} to {HIGH}; the largest is {max(ratios):.2f}")
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="programs whose name has this text")
    parser.add_argument("--json", dest="path", help="write the rows to this file")
    options = parser.parse_args()
    main(only=options.only, path=options.path)
