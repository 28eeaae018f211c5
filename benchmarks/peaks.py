"""How well the peak model predicts programs it was not made with.

Planned is what the planner asks of a candidate, in the program's own order; predicted is in the
order that XLA takes; counted is XLA's count with the modelled scratch; measured is resident memory
of the first call. Later calls may take more: the C library keeps what earlier ones freed
(docs/memory-model.md).

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

import tracer
import tracer.numpy as tnp
from benchmarks.framework import tracer_framework
from benchmarks.limited import LimitedProgram
from benchmarks.measure import measure
from benchmarks.peak_programs import HELD_OUT
from benchmarks.programs import WORKLOADS, make_inputs
from benchmarks.warm_up import load_libraries
from examples.display import print_table
from tracer.optimizer.model.xla_order import bytes_in_any_order, compiled_peak_bytes
from tracer.units import format_bytes, parse_bytes

HEADER = (
    "program",
    "limit",
    "planned",
    "predicted",
    "counted",
    "measured",
    "of predicted",
    "of counted",
    "later calls",
)
LOW, HIGH, HIGHEST = 0.7, 1.05, 1.1
"""Measured over predicted: the range that 90 % of the programs should be in, and the most."""
SMALL_BYTES, RESOLUTION_BYTES = 2_000_000, 300_000
"""Below that size programs are judged by the difference: the instrument tells no less apart."""


def programs() -> dict[str, LimitedProgram]:
    """Return the held-out programs and those of the planner's benchmark in their small size."""
    planned = {f"{name} (planner)": _small(name) for name in WORKLOADS}
    return {**HELD_OUT, **planned}


def _small(name: str) -> LimitedProgram:
    workload = WORKLOADS[name]
    return LimitedProgram(
        workload.program(tracer_framework()),
        lambda _: make_inputs(workload, "small"),
        workload.sizes["small"].limit,
    )


def _prepared(name: str) -> tuple[Any, tuple[Any, ...]]:
    workload = programs()[name]
    inputs = tracer.tree.map(tnp.asarray, workload.arrays())
    return tracer.compile(workload.function, memory_limit=workload.limit), inputs


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


def row(name: str) -> dict[str, Any] | None:
    """Plan and measure one program; None when its limit is refused."""
    compiled, inputs = _prepared(name)
    limit = programs()[name].limit
    try:
        plan = compiled.plan(*inputs)
    except tracer.MemoryLimitError as error:
        print(f"{name}: refused at {limit}; it takes {format_bytes(error.minimum_bytes or 0)}")
        return None
    graph = compiled.graph(*inputs)
    is_tight = limit is not None and bytes_in_any_order(graph) > parse_bytes(limit)
    found = measure("benchmarks.peaks:prepare", arguments={"name": name}, repeats=2)
    first, later = found.first_peak_bytes, found.peak_bytes
    assert first is not None, f"{name}: {found.status}: {found.reason}"
    assert later is not None
    return {
        "program": name,
        "limit": limit or "",
        "planned_bytes": plan.peak_bytes,
        "predicted_bytes": compiled_peak_bytes(graph, for_memory=is_tight),
        "counted_bytes": plan.compiled_bytes,
        "measured_bytes": first + plan.argument_bytes,
        "later_bytes": later + plan.argument_bytes,
        "measurement": dataclasses.asdict(found),
    }


def is_within(row: dict[str, Any], low: float = LOW, high: float = HIGH) -> bool:
    """Tell whether a prediction is as good as is asked for."""
    measured, predicted = row["measured_bytes"], row["predicted_bytes"]
    if predicted < SMALL_BYTES:
        return bool(abs(measured - predicted) <= RESOLUTION_BYTES)
    return bool(low <= measured / predicted <= high)


def _shown(row: dict[str, Any]) -> tuple[str, ...]:
    names = ("planned", "predicted", "counted", "measured")
    sizes = [row[f"{name}_bytes"] for name in names]
    ratios = [f"{sizes[3] / size:.2f}" for size in sizes[1:3]]
    if sizes[1] < SMALL_BYTES:
        ratios = [f"{(sizes[3] - size) / 1e6:+.2f} MB" for size in sizes[1:3]]
    later = format_bytes(row["later_bytes"])
    return (row["program"], row["limit"], *map(format_bytes, sizes), *ratios, later)


def main(*, only: str = "", path: str | None = None) -> list[dict[str, Any]]:
    """Measure the programs, print the table and the figure, and write the rows when asked."""
    rows = [found for name in programs() if only in name and (found := row(name)) is not None]
    print_table("Peak model, programs it was not made with", HEADER, [_shown(r) for r in rows])
    inside, below = (
        sum(is_within(row, low, high) for row in rows)
        for low, high in ((LOW, HIGH), (0.0, HIGHEST))
    )
    print(f"{inside} of {len(rows)} within {LOW} to {HIGH}; {below} not above {HIGHEST}")
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
