"""Every program of the planner under its limit: memory, time beside JAX, and values.

    python -m benchmarks.planner [--size small|medium|full] [--only NAME ...] [--json FILE]
                                 [--markdown FILE] [--turns N] [--peer-cap 8GB]

Memory is measured in a fresh process (`measure.py`): arguments are on the device before the
baseline, so their bytes are added. For the times each run has a process of its own, and they take
turns, call by call (`turns.py`): ratios are medians over turns. Values are compared with NumPy's in
float64, and gradients with closed forms or with differences of float64 functions (`programs/`). JAX
runs the same text in one piece, and split by hand (`peers/`), where it is installed and within the
cap.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.measure import measure
from benchmarks.planner_table import print_rows, summary, write_markdown
from benchmarks.programs import WORKLOADS
from benchmarks.turns import Contender, ratio, take_turns
from examples.display import Progress
from tracer.units import format_bytes, parse_bytes

RUNS = "benchmarks.planner_runs"
SKIPPED = "skipped: not installed"
UNTIMED = "not timed"
RACED = ("ours", "no_limit", "jax", "by_hand")
TIMEOUT_SECONDS = {"small": 120, "medium": 300, "full": 3600}
REPEATS = {"small": 3, "medium": 2, "full": 0}
ENOUGH_SECONDS = {"small": 5, "medium": 20, "full": 60}
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


def race(name: str, size: str, *, turns: int, cap_bytes: int, peers: bool) -> Row:
    """Return seconds of every run of a program, or why there are none, and ratios to ours.

    Without turns, nothing.
    """
    if not turns:
        empty = {"": None, "_status": UNTIMED, "_reason": "", "_ratio": None}
        return {run + end: value for run in RACED for end, value in empty.items()}
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
    found = take_turns(
        orders,
        turns=turns,
        enough_seconds=ENOUGH_SECONDS[size],
        # Address space is more than memory: thread stacks, malloc's arenas.
        cap_bytes=2 * cap_bytes,
        timeout=TIMEOUT_SECONDS[size],
    )
    row: Row = {}
    for run in RACED:
        contender = found.get(run, Contender("none" if peers else SKIPPED, "", []))
        row |= {
            run: contender.median,
            f"{run}_status": contender.status,
            f"{run}_reason": contender.reason,
            f"{run}_ratio": ratio(contender, found["ours"]),
        }
    return row


def memory(name: str, size: str) -> Row:
    """Return what a fresh process takes above its baseline, over several runs in a row."""
    arguments = {"name": name, "size": size, "limit": WORKLOADS[name].sizes[size].limit}
    found = measure(
        f"{RUNS}:ours",
        arguments=arguments,
        repeats=REPEATS[size],
        timeout=TIMEOUT_SECONDS[size],
        environment={"TF_CPP_MIN_LOG_LEVEL": "1"},
    )
    return {
        "peak_bytes": found.peak_bytes,
        "memory_status": found.status,
        "memory_reason": found.reason,
        "first_seconds": found.first_seconds,
    }


def make_row(name: str, size: str, *, turns: int, cap_bytes: int, peers: bool) -> Row:
    """Plan, check and race one program."""
    workload = WORKLOADS[name]
    row: Row = {"program": name, "size": size, **workload.sizes[size].shape}
    row |= {"limit_bytes": parse_bytes(workload.sizes[size].limit), **check(name, size)}
    row |= memory(name, size)
    row |= race(name, size, turns=turns, cap_bytes=cap_bytes, peers=peers)
    if row["peak_bytes"] is not None and "argument_bytes" in row:
        row["measured_bytes"] = row["peak_bytes"] + row["argument_bytes"]
        row["of_predicted"] = row["measured_bytes"] / row["predicted_bytes"]
        row["within"] = row["measured_bytes"] <= row["limit_bytes"]
    row["tolerance"] = workload.tolerance
    return row


def run(
    names: list[str], size: str, *, turns: int, cap_bytes: int, json_path: str | None
) -> list[Row]:
    """Measure the named programs; the JSON file is there after each, in case of an interrupt."""
    peers = importlib.util.find_spec("jax") is not None
    if not peers:
        print(f"jax {SKIPPED} (pip install 'tracer[benchmark]')")
    progress, rows = Progress(), []
    for place, name in enumerate(names, 1):
        progress.say(f"{place}/{len(names)} {name} ({size})")
        rows.append(make_row(name, size, turns=turns, cap_bytes=cap_bytes, peers=peers))
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
    parser.add_argument("--turns", type=int, default=5, help="timed calls of each; 0: no race")
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
    if options.turns == 1 or options.turns < 0:
        parser.error("--turns is 0 (no race) or at least 2: a first call says little")
    cap = parse_bytes(options.peer_cap)
    rows = run(names, options.size, turns=options.turns, cap_bytes=cap, json_path=options.json)
    title = f"Programs under a limit ({options.size}; JAX may take {format_bytes(cap)})"
    print_rows(title, rows)
    print("\n" + "\n".join(summary(rows)))
    if options.markdown is not None:
        write_markdown(Path(options.markdown), title, rows)


if __name__ == "__main__":
    main()
