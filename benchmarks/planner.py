"""Every program of the planner under its limit: memory, time beside JAX, and values.

    python -m benchmarks.planner [--size small|medium|full] [--only NAME ...] [--json FILE]
                                 [--markdown FILE] [--rounds N] [--peer-cap 8GB]

Each number is from a fresh process (`measure.py`), the runs of a program alternate, and the median
over rounds counts. Arguments are on the device before the baseline, so their bytes are added to
what is measured. Values are compared with NumPy's in float64, and gradients with closed forms or
with differences of float64 functions (`programs/`). JAX runs the same text in one piece, and split
by hand (`peers/`), where it is installed and within the cap.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.measure import Measurement, measure
from benchmarks.planner_table import print_rows, summary, write_markdown
from benchmarks.programs import WORKLOADS
from examples.display import Progress
from tracer.units import format_bytes, parse_bytes

RUNS = "benchmarks.planner_runs"
SKIPPED = "skipped: not installed"
TIMEOUT_SECONDS = {"small": 120, "medium": 300, "full": 3600}
REPEATS = {"small": 3, "medium": 3, "full": 1}
Row = dict[str, Any]


def check(name: str, size: str) -> Row:
    """Return what the plan says and the largest error, from a fresh process."""
    command = [sys.executable, "-m", RUNS, name, size]
    root = Path(__file__).resolve().parent.parent
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS[size],
            cwd=root,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"more than {TIMEOUT_SECONDS[size]} s"}
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]}
    answer: Row = json.loads(done.stdout.splitlines()[-1])
    return answer


def race(name: str, size: str, *, rounds: int, cap_bytes: int, peers: bool) -> Row:
    """Return seconds of every run of a program, or why there are none, and our memory."""
    limit = WORKLOADS[name].sizes[size].limit
    one = {"name": name, "size": size}
    orders: dict[str, tuple[str, Mapping[str, Any]]] = {
        "ours": (f"{RUNS}:ours", {**one, "limit": limit}),
        "no_limit": (f"{RUNS}:ours", one),
    }
    if peers:
        capped = {**one, "cap_bytes": cap_bytes}
        orders["jax"] = (f"{RUNS}:unlimited_jax", capped)
        if name != "exact GP":
            orders["by_hand"] = (f"{RUNS}:by_hand", capped)
    found: dict[str, list[Measurement]] = {run: [] for run in orders}
    for _ in range(rounds):
        for run, (target, arguments) in orders.items():
            if all(earlier.fits for earlier in found[run]):
                found[run].append(_measure(target, arguments, size, cap_bytes))
    row: Row = {"peak_bytes": _peak(found["ours"])}
    for run in ("ours", "no_limit", "jax", "by_hand"):
        row |= {run: _seconds(found.get(run, [])), f"{run}_status": _status(found.get(run, []))}
    return row


def _measure(target: str, arguments: Mapping[str, Any], size: str, cap_bytes: int) -> Measurement:
    return measure(
        target,
        arguments=arguments,
        repeats=REPEATS[size],
        timeout=TIMEOUT_SECONDS[size],
        # Address space is more than memory: thread stacks, malloc's arenas.
        cap_bytes=2 * cap_bytes,
        environment={"TF_CPP_MIN_LOG_LEVEL": "1"},
    )


def _peak(found: list[Measurement]) -> int | None:
    return max((one.peak_bytes for one in found if one.peak_bytes is not None), default=None)


def _seconds(found: list[Measurement]) -> float | None:
    seconds = [one.seconds for one in found if one.fits and one.seconds is not None]
    return statistics.median(seconds) if seconds else None


def _status(found: list[Measurement]) -> str:
    if not found:
        return SKIPPED
    worst = next((one for one in found if not one.fits), found[-1])
    return "ok" if worst.fits else f"{worst.status}: {worst.reason}"


def make_row(name: str, size: str, *, rounds: int, cap_bytes: int, peers: bool) -> Row:
    """Plan, check and race one program."""
    workload = WORKLOADS[name]
    row: Row = {"program": name, "size": size, **workload.sizes[size].shape}
    row |= {"limit_bytes": parse_bytes(workload.sizes[size].limit), **check(name, size)}
    row |= race(name, size, rounds=rounds, cap_bytes=cap_bytes, peers=peers)
    if row["peak_bytes"] is not None and "argument_bytes" in row:
        row["measured_bytes"] = row["peak_bytes"] + row["argument_bytes"]
        row["of_predicted"] = row["measured_bytes"] / row["predicted_bytes"]
        row["within"] = row["measured_bytes"] <= row["limit_bytes"]
    row["tolerance"] = workload.tolerance
    return row


def run(
    names: list[str], size: str, *, rounds: int, cap_bytes: int, json_path: str | None
) -> list[Row]:
    """Measure the named programs; the JSON file is there after each, in case of an interrupt."""
    peers = importlib.util.find_spec("jax") is not None
    if not peers:
        print(f"jax {SKIPPED} (pip install 'tracer[benchmark]')")
    progress, rows = Progress(), []
    for place, name in enumerate(names, 1):
        progress.say(f"{place}/{len(names)} {name} ({size})")
        rows.append(make_row(name, size, rounds=rounds, cap_bytes=cap_bytes, peers=peers))
        if json_path is not None:
            Path(json_path).write_text(json.dumps(rows, indent=1), encoding="utf-8")
    progress.clear()
    return rows


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.planner", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--size", choices=tuple(TIMEOUT_SECONDS), default="medium")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="part of a name; may repeat"
    )
    parser.add_argument("--rounds", type=int, default=1, help="fresh processes for each run")
    parser.add_argument("--peer-cap", default="8GB", help="what JAX may take (default 8GB)")
    parser.add_argument("--json", metavar="FILE", help="write the rows to this file")
    parser.add_argument("--markdown", metavar="FILE", help="write the table to this file")
    options = parser.parse_args(arguments)
    exact = [name for name in WORKLOADS if name in options.only]
    names = exact or [
        name for name in WORKLOADS if not options.only or any(o in name for o in options.only)
    ]
    if not names:
        parser.error(f"no program is called {options.only}; there are {', '.join(WORKLOADS)}")
    cap = parse_bytes(options.peer_cap)
    rows = run(names, options.size, rounds=options.rounds, cap_bytes=cap, json_path=options.json)
    title = f"Programs under a limit ({options.size}; JAX may take {format_bytes(cap)})"
    print_rows(title, rows)
    print("\n" + "\n".join(summary(rows)))
    if options.markdown is not None:
        write_markdown(Path(options.markdown), title, rows)


if __name__ == "__main__":
    main()
