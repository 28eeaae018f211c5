"""The planner's programs, or the experiments, on two checkouts, call by call in turns.

    python -m benchmarks.compare OLD NEW [--size small|medium|full] [--only NAME ...] [--json FILE]
    python -m benchmarks.compare OLD NEW --experiments NAME ... --size full [--data DIR]

OLD and NEW are folders, such as made by `git worktree add --detach /tmp/old REVISION`. Each program
has a process in each of them, which stays. Ratios are new over old: processor seconds of all
threads in a call (which other work on the machine changes least) and seconds on the clock, medians
over turns; processor seconds of planning with compiling; XLA's bytes. Each program's own check says
how far its values are off.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

MOST_TURNS, LEAST_TURNS, ENOUGH_SECONDS = 9, 3, 20.0
Row = dict[str, Any]


def serve(name: str, size: str) -> None:
    """Plan a program, say what that took, and run it once for each line of the input."""
    import numpy as np

    import tracer
    from benchmarks.framework import tracer_framework
    from benchmarks.programs import WORKLOADS, make_inputs

    workload = WORKLOADS[name]
    limit = workload.sizes[size].limit
    program = tracer.compile(workload.program(tracer_framework()), memory_limit=limit)
    given = make_inputs(workload, size)
    inputs = tracer.tree.map(tracer.numpy.asarray, given)
    start = time.process_time()
    plan = program.plan(*inputs)
    planning = time.process_time() - start

    def run() -> Any:
        results = program(*inputs)
        for leaf in tracer.tree.leaves(results):
            leaf.block_until_ready()
        return results

    error = float(workload.check(given, tracer.tree.map(np.asarray, run())))
    print(json.dumps({"bytes": plan.compiled_bytes, "planning": planning, "error": error}))
    sys.stdout.flush()
    for _ in sys.stdin:
        run()  # Pays for the pages that the other process took.
        say_time(run)


def serve_experiment(path: str, arguments: dict[str, Any]) -> None:
    """Make our run of an experiment, call it once, and again for each line of the input."""
    import importlib

    import numpy as np

    module, _, function = path.partition(":")
    run = getattr(importlib.import_module(module), function)(**arguments)
    start = time.process_time()
    run()
    first = time.process_time() - start
    report = run.report()
    values = [float(value) for value in np.ravel(report["values"])]
    print(json.dumps({"bytes": report["counted_bytes"], "planning": first, "values": values}))
    sys.stdout.flush()
    for _ in sys.stdin:
        say_time(run)


def say_time(run: Callable[[], Any]) -> None:
    """Print processor and clock seconds of one call."""
    clock, processor = time.perf_counter(), time.process_time()
    run()
    print(json.dumps([time.process_time() - processor, time.perf_counter() - clock]))
    sys.stdout.flush()


def started(root: Path, call: str) -> tuple[subprocess.Popen[str], Row]:
    """Start a program in a checkout; return its process, and what planning took or said."""
    # This file, as an older checkout may not have it.
    code = f"import runpy; serving = runpy.run_path({__file__!r}); serving{call}"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    line = process.stdout.readline()
    if line:
        return process, json.loads(line)
    return process, {"failed": (process.stderr.read().strip().splitlines() or ["no output"])[-1]}


def compared(roots: Sequence[Path], call: str) -> Row:
    """Return the ratios of a program, new over old, or why there are none."""
    (old, before), (new, after) = (started(root, call) for root in roots)
    try:
        failed = {
            key: row["failed"] for key, row in (("old", before), ("new", after)) if "failed" in row
        }
        if failed:
            return failed
        turns = in_turns(old, new)
    finally:
        for process in (old, new):
            process.kill()
            process.communicate()
    row = {
        "processor": statistics.median(b[0] / a[0] for a, b in turns),
        "clock": statistics.median(b[1] / a[1] for a, b in turns),
        "planning": after["planning"] / before["planning"],
        "bytes": after["bytes"] / before["bytes"],
    }
    if "error" in before:
        return {**row, "error": [before["error"], after["error"]]}
    largest = max(map(abs, before["values"]))
    apart = max(abs(x - y) for x, y in zip(before["values"], after["values"], strict=True))
    return {**row, "apart": apart / largest}


def in_turns(
    old: subprocess.Popen[str], new: subprocess.Popen[str]
) -> list[tuple[list[float], list[float]]]:
    """Return processor and clock seconds of a call of each, turn by turn."""
    turns: list[tuple[list[float], list[float]]] = []
    start = time.perf_counter()
    while len(turns) < MOST_TURNS:
        if len(turns) >= LEAST_TURNS and time.perf_counter() - start > ENOUGH_SECONDS:
            break
        turns.append((ask(old), ask(new)))
    return turns


def ask(process: subprocess.Popen[str]) -> list[float]:
    """Let a process run its program once more; return what that took."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("run\n")
    process.stdin.flush()
    taken: list[float] = json.loads(process.stdout.readline())
    return taken


def calls(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Yield the name of everything that is compared, and what serves it."""
    if options.experiments is None:
        from benchmarks.programs import WORKLOADS

        yield from ((name, f"['serve']({name!r}, {options.size!r})") for name in WORKLOADS)
        return
    from benchmarks.experiments.__main__ import EXPERIMENTS
    from benchmarks.experiments.records import Settings

    data = None if options.data is None else str(Path(options.data).resolve())
    settings = Settings(options.size, data, "cpu", 1 << 40, 60.0, 3600.0)
    for name in options.experiments:
        for case in EXPERIMENTS[name](settings):
            ours = case.systems[0]
            given = {**case.shape, **ours.arguments, "device": "cpu", "cap_bytes": 1 << 40}
            yield f"{name}: {case.title}", f"['serve_experiment']({ours.path!r}, {given!r})"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compare", description=__doc__.splitlines()[0]
    )
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--size", choices=("small", "medium", "full"), default="small")
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--experiments", nargs="+", metavar="NAME", help="in place of the programs")
    parser.add_argument("--data", metavar="DIR", help="the folder of data sets")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    results: dict[str, Row] = {}
    for name, call in calls(options):
        if options.only and not any(part in name for part in options.only):
            continue
        row = results[name] = compared((options.old, options.new), call)
        shown = {k: round(v, 2) if isinstance(v, float) else v for k, v in row.items()}
        print(name, shown | ({"apart": row["apart"]} if "apart" in row else {}), flush=True)
        if options.json is not None:
            options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")
    for key in ("processor", "clock", "planning", "bytes"):
        found = sorted(row[key] for row in results.values() if key in row)
        if found:
            middle = statistics.median(found)
            print(f"{key}: {found[0]:.2f} to {found[-1]:.2f}, median {middle:.2f}")


if __name__ == "__main__":
    main()
