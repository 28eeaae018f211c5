"""The planner's time model beside measured seconds, whole and in slices.

    python -m benchmarks.speed_model [--size small|medium|full] [--only NAME]

For each program: the estimate over the measured seconds, without and with slices, and what the
model decides by: how much faster the slices are, estimated and measured. Both run in turn in one
process, so only the ratios mean anything.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import tracer
import tracer.numpy as tnp
from benchmarks.framework import tracer_framework
from benchmarks.programs import WORKLOADS, Workload, make_inputs
from examples.display import Progress, print_table
from tracer.optimizer.model.speed import estimate_seconds
from tracer.target import DEFAULT_TARGET

HEADER = (
    "program", "whole: estimated/measured", "slices: estimated/measured", "gain estimated",
    "gain measured", "decision",
)  # fmt: skip
REPEATS = 3
# Gains between these are a draw: either choice is right.
DRAW = (0.9, 1.1)


def row(name: str, workload: Workload, size: str) -> tuple[str, ...]:
    """Measure one program both ways, and judge the model's choice."""
    inputs = tracer.tree.map(tnp.asarray, make_inputs(workload, size))
    program = workload.program(tracer_framework())
    whole = tracer.compile(program, split="never")
    sliced = tracer.compile(program, memory_limit=workload.sizes[size].limit)
    measured = _fastest((lambda: whole(*inputs), lambda: sliced(*inputs)))
    estimated = [estimate_seconds(f.graph(*inputs), DEFAULT_TARGET) for f in (whole, sliced)]
    gain, expected = measured[0] / measured[1], estimated[0] / estimated[1]
    splits = bool(tracer.compile(program).plan(*inputs).loops)
    is_right = DRAW[0] < gain < DRAW[1] or splits == (gain > 1)
    return (
        name,
        f"{estimated[0] / measured[0]:.2f}",
        f"{estimated[1] / measured[1]:.2f}",
        f"{expected:.2f}",
        f"{gain:.2f}",
        f"{'slices' if splits else 'whole'}, {'right' if is_right else 'wrong'}",
    )


def _fastest(runs: tuple[Callable[[], Any], ...]) -> list[float]:
    best = [float("inf")] * len(runs)
    for _ in range(REPEATS + 1):
        for index, run in enumerate(runs):
            start = time.perf_counter()
            for leaf in tracer.tree.leaves(run()):
                leaf.block_until_ready()
            best[index] = min(best[index], time.perf_counter() - start)
    return best


def main(*, size: str, only: str | None) -> None:
    """Measure the programs and print the table."""
    progress, rows = Progress(), []
    for name, workload in WORKLOADS.items():
        if only is None or only in name:
            progress.say(name)
            try:
                rows.append(row(name, workload, size))
            except tracer.MemoryLimitError as error:
                rows.append((name, f"refused: {error.what.splitlines()[0]}", "", "", "", ""))
    progress.clear()
    print_table("The time model", HEADER, rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=("small", "medium", "full"), default="medium")
    parser.add_argument("--only", help="programs whose name contains this")
    options = parser.parse_args()
    main(size=options.size, only=options.only)
