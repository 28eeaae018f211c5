"""The table of devices: every program on every kind of device, its bytes on each, the limit kept.

Run `python -m benchmarks.devices [--markdown FILE] [--only LEG ...] [program ...]`. What cannot be
had here is said in its row: ahead-of-time legs need the wheels of the extras `tpu` and `cuda13` in
this interpreter, or in those that `--tpu-python` and `--cuda-python` name.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.device_processes import SECONDS, run_processes
from benchmarks.device_programs import PROGRAMS, compiled, last_line_of, reason
from examples.display import markdown_table, print_table
from tracer.units import format_bytes

Row = dict[str, Any]
HEADER = ("program", "device", "limit", "predicted", "XLA's count", "kept", "loops", "outcome")
_MESH_SECONDS = 300
_PROCESSES = 4
_LONGEST = 110


@dataclass(frozen=True)
class Leg:
    """One column of the matrix: how a program is compiled, and whether it also runs."""

    measure: Callable[[str], Row]
    outcome: str


def _on_mesh(name: str) -> Row:
    command = [sys.executable, "-m", "benchmarks.device_processes", "--mesh", "cpu", name]
    return last_line_of(command, _MESH_SECONDS, {**os.environ, "TRACER_CPU_DEVICES": "8"})


def _in_processes(name: str) -> Row:
    found = run_processes(name, _PROCESSES, seconds=2 * SECONDS, how="of the table")
    failed = [reason(status, errors) for status, _, errors in found if status != 0]
    if failed:
        # One that is told of another's end says less than that one.
        return {"failed": min(failed, key=lambda text: text.startswith("exit status"))}
    row: Row = json.loads(found[0][1].splitlines()[-1])
    return row


def legs(tpu: str, cuda: str) -> dict[str, Leg]:
    """Return the legs, given the interpreters that have the wheels."""
    return {
        "CPU": Leg(lambda name: compiled(name, "cpu:0"), "ran"),
        "8 CPU devices": Leg(_on_mesh, "ran, on each"),
        "4 processes": Leg(_in_processes, "ran, on each of 8"),
        "TPU v5e": Leg(lambda name: compiled(name, "tpu:v5e", python=tpu), "compiled"),
        "H100": Leg(lambda name: compiled(name, "cuda:h100", python=cuda), "compiled"),
        "GPU here": Leg(lambda name: compiled(name, "gpu:0", python=cuda), "ran"),
    }


def cells(name: str, device: str, outcome: str, row: Row) -> tuple[str, ...]:
    """Return the texts of one row."""
    if "failed" in row:
        return name, device, *[""] * 5, row["failed"][:_LONGEST]
    limit, counted = row["limit_bytes"], row["counted_bytes"]
    return (
        name,
        device,
        format_bytes(limit),
        format_bytes(row["predicted_bytes"]),
        format_bytes(counted),
        "yes" if counted <= limit else "NO",
        str(row["loops"]),
        outcome,
    )


def main() -> None:
    """Measure all rows and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.devices")
    parser.add_argument("names", nargs="*", metavar="program", help=", ".join(PROGRAMS))
    parser.add_argument("--only", action="append", metavar="LEG", help="CPU, TPU v5e, ...")
    parser.add_argument("--tpu-python", default=sys.executable)
    parser.add_argument("--cuda-python", default=sys.executable)
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    options = parser.parse_args()
    every = legs(options.tpu_python, options.cuda_python)
    rows = []
    for name in options.names or PROGRAMS:
        for device in options.only or every:
            found = every[device].measure(name)
            rows.append(cells(name, device, every[device].outcome, found))
            print("; ".join(rows[-1]), file=sys.stderr, flush=True)
    print_table("Programs on devices", HEADER, rows)
    if options.markdown is not None:
        options.markdown.write_text(markdown_table(HEADER, rows), encoding="utf-8")


if __name__ == "__main__":
    main()
