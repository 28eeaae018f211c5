"""Plans made for other machines, run on this one: limits, values and times.

    python -m benchmarks.other_machines [--size small|medium|full] [--only NAME ...] [--turns N]

Each program is planned under its limit with the record of this machine, and with the records of
others: caches halved, one core, sixteen cores. All are compiled and run here, in turns, in one
process. Times are processor seconds of all threads over those of this machine's own plan, which
other work on the machine changes least; ratios are medians over turns.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

import tracer
from benchmarks.framework import tracer_framework
from benchmarks.programs import WORKLOADS, make_inputs
from benchmarks.settings import in_turns
from examples.display import Progress, print_table
from tracer import lowering
from tracer.target import Packing, Target
from tracer.units import format_bytes

HERE = "here"
HEADER = ("program", "machine", "peak of limit", "time", "values")


def machines() -> dict[str, Target]:
    """Return the record of this machine, and those of others."""
    here = lowering.target_of("cpu")
    return {
        HERE: here,
        "caches halved": replace(here, cache_bytes=here.cache_bytes // 2),
        "one core": replace(here, cores=1, packing=Packing(threads=1)),
        "16 cores": replace(here, cores=16, packing=Packing(threads=16)),
    }


def rows(name: str, size: str, turns: int) -> list[tuple[str, ...]]:
    """Plan a program for each machine and run all plans here."""
    workload = WORKLOADS[name]
    limit = workload.sizes[size].limit
    given = make_inputs(workload, size)
    inputs = tracer.tree.map(tracer.numpy.asarray, given)
    runs: dict[str, Callable[[], Any]] = {}
    shares, right = {}, {}
    for machine, target in machines().items():
        function = tracer.compile(workload.program(tracer_framework()), memory_limit=limit)
        with patch.object(lowering, "target_of", lambda device=None, found=target: found):
            plan = function.plan(*inputs)
        shares[machine] = f"{format_bytes(plan.peak_bytes)} of {limit}"
        results = tracer.tree.map(np.asarray, function(*inputs))
        is_right = workload.check(given, results) <= workload.tolerance
        right[machine] = "right" if is_right else "wrong"
        runs[machine] = _waiting(function, inputs)
    seconds = in_turns(runs, turns)
    ratios = {
        machine: statistics.median(
            own / base for own, base in zip(seconds[machine], seconds[HERE], strict=True)
        )
        for machine in runs
    }
    return [
        (name, machine, shares[machine], f"{ratios[machine]:.2f}", right[machine])
        for machine in runs
    ]


def _waiting(function: Callable[..., Any], inputs: Any) -> Callable[[], Any]:
    def run() -> None:
        for leaf in tracer.tree.leaves(function(*inputs)):
            leaf.block_until_ready()

    return run


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=("small", "medium", "full"), default="small")
    parser.add_argument("--only", nargs="*", default=list(WORKLOADS))
    parser.add_argument("--turns", type=int, default=9)
    given = parser.parse_args()
    progress, found = Progress(), []
    for name in given.only:
        progress.say(name)
        found += rows(name, given.size, given.turns)
    progress.clear()
    print_table("Plans for other machines", HEADER, found)


if __name__ == "__main__":
    main()
