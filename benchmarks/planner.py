"""Every workload under its limit: predicted, XLA's count, measured; seconds beside no limit.

    python -m benchmarks.planner [--small] [--json FILE]

Each number is from a fresh process (see `measure.py`); the arguments are on the device before the
baseline, so `measured` is resident memory above them and the arguments' bytes are added. The value
check compares the limited program with the unlimited one.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np

import tracer
import tracer.numpy as tnp
from benchmarks.measure import measure
from benchmarks.programs import WORKLOADS, Workload
from examples.display import print_table
from tracer.units import format_bytes, parse_bytes

HEADER = (
    "program", "limit", "as written", "predicted", "XLA + scratch", "measured", "of predicted",
    "seconds", "no limit", "ratio", "largest error",
)  # fmt: skip


def row(name: str, workload: Workload, size: int) -> dict[str, Any]:
    """Plan, check and measure one workload."""
    inputs = tracer.tree.map(tnp.asarray, workload.inputs(np.random.default_rng(0), size))
    limited = tracer.compile(workload.program, memory_limit=workload.limit)
    plan = limited.plan(*inputs)
    unlimited = tracer.compile(workload.program)
    error = _error(limited(*inputs), unlimited(*inputs))
    common = {"name": name, "size": size}
    ours = measure(
        "benchmarks.programs:prepare", arguments={**common, "limit": workload.limit}, repeats=3
    )
    free = measure("benchmarks.programs:prepare", arguments=common, repeats=3)
    peak = None if ours.peak_bytes is None else ours.peak_bytes + plan.argument_bytes
    return {
        "program": name,
        "size": size,
        "limit_bytes": parse_bytes(workload.limit),
        "as_written_bytes": plan.baseline_peak_bytes,
        "predicted_bytes": plan.peak_bytes,
        "compiled_bytes": plan.compiled_bytes,
        "measured_bytes": peak,
        "seconds": ours.seconds,
        "seconds_no_limit": free.seconds,
        "error": error,
        "status": ours.status,
        "status_no_limit": free.status,
    }


def _error(found: Any, expected: Any) -> float:
    pairs = zip(tracer.tree.leaves(found), tracer.tree.leaves(expected), strict=True)
    arrays = [(np.asarray(a, np.float64), np.asarray(b, np.float64)) for a, b in pairs]
    return max(float(np.abs(a - b).max() / (np.abs(b).max() + 1e-300)) for a, b in arrays)


def _shown(row: dict[str, Any]) -> tuple[str, ...]:
    measured, predicted = row["measured_bytes"], row["predicted_bytes"]
    seconds, free = row["seconds"], row["seconds_no_limit"]
    return (
        f"{row['program']} ({row['size']})",
        format_bytes(row["limit_bytes"]),
        format_bytes(row["as_written_bytes"]),
        format_bytes(predicted),
        format_bytes(row["compiled_bytes"]),
        row["status"] if measured is None else format_bytes(measured),
        "" if measured is None else f"{measured / predicted:.2f}",
        "" if seconds is None else f"{seconds:.3f}",
        row["status_no_limit"] if free is None else f"{free:.3f}",
        "" if seconds is None or free is None else f"{free / seconds:.2f}",
        f"{row['error']:.1e}",
    )


def main(*, small: bool = False, path: str | None = None) -> list[dict[str, Any]]:
    """Measure all workloads, print the table, and write the rows as JSON when asked."""
    rows = [
        row(name, workload, workload.size // 4 if small else workload.size)
        for name, workload in WORKLOADS.items()
    ]
    print_table("Programs under a limit", HEADER, [_shown(item) for item in rows])
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a quarter of the size")
    parser.add_argument("--json", dest="path", help="write the rows to this file")
    options = parser.parse_args()
    main(small=options.small, path=options.path)
