"""What each difference from XLA's defaults gains: the planner's programs with it and without it.

    python -m benchmarks.settings [--size small|medium|full] [--only NAME ...] [--turns N]
                                  [--json FILE] [--markdown FILE]

Each row of `tracer.lowering.settings.SETTINGS` is switched off in turn, and the program compiled
again under its limit. The calls of all forms take turns in one process; times are processor seconds
of all threads, which other work on the machine changes least, and ratios are medians over turns.
Values are checked with each program's own check. `--markdown` writes docs/settings.md.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jaxlib.version
import numpy as np

import tracer
from benchmarks.framework import tracer_framework
from benchmarks.programs import WORKLOADS, make_inputs
from tracer.lowering.settings import SETTINGS, without
from tracer.lowering.soundness import chosen_options
from tracer.units import format_bytes

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT_SECONDS = {"small": 300, "medium": 1800, "full": 7200}
ENOUGH_SECONDS = 4.0
NOTABLE = 0.05
ALL_OFF = "all of them"
"""Every row of the list at once."""
Row = dict[str, Any]


def compiled(name: str, size: str, off: tuple[str, ...]) -> tuple[Row, Callable[[], Any]]:
    """Compile one program without some settings; return what its plan says, and a run."""
    workload = WORKLOADS[name]
    program = tracer.compile(
        workload.program(tracer_framework()), memory_limit=workload.sizes[size].limit
    )
    given = make_inputs(workload, size)
    inputs = tracer.tree.map(tracer.numpy.asarray, given)
    with without(*off):
        plan = program.plan(*inputs)
        text = program.stablehlo(*inputs)

    def run() -> Any:
        results = program(*inputs)
        for leaf in tracer.tree.leaves(results):
            leaf.block_until_ready()
        return results

    results = tracer.tree.map(np.asarray, run())
    row = {
        "compiled_bytes": plan.compiled_bytes,
        "error": workload.check(given, results),
        "tolerance": workload.tolerance,
        "notes": list(plan.notes),
        "text": text,
    }
    return row, run


def acts(setting: str, row: Row, base: Row) -> bool:
    """Tell whether a program is another one without a setting, or has other options."""
    if row["text"] != base["text"] or row["compiled_bytes"] != base["compiled_bytes"]:
        return True
    with without(setting):
        changed = chosen_options("cpu", {})
    return setting == "memory scheduler" or changed != chosen_options("cpu", {})


def ablate(name: str, size: str, turns: int) -> dict[str, Row]:
    """Return, for each setting that acts in a program, bytes, error and time without it."""
    base, run = compiled(name, size, ())
    rows, runs = {"": base}, {"": run}
    for setting in (*SETTINGS, ALL_OFF):
        off = tuple(SETTINGS) if setting == ALL_OFF else (setting,)
        try:
            row, run = compiled(name, size, off)
        except tracer.TracerError as error:
            rows[setting] = {"failed": str(error).splitlines()[0]}
            continue
        if setting == ALL_OFF or acts(setting, row, base):
            rows[setting], runs[setting] = row, run
    seconds = in_turns(runs, turns)
    for setting, taken in seconds.items():
        pairs = zip(taken, seconds[""], strict=True)
        rows[setting]["ratio"] = statistics.median(one / other for one, other in pairs)
        rows[setting]["seconds"] = statistics.median(taken)
    for row in rows.values():
        row.pop("text", None)
    return rows


def in_turns(runs: dict[str, Callable[[], Any]], turns: int) -> dict[str, list[float]]:
    """Return processor seconds of each run, turn by turn."""
    seconds: dict[str, list[float]] = {setting: [] for setting in runs}
    start = time.perf_counter()
    for turn in range(turns):
        if turn >= 2 and time.perf_counter() - start > ENOUGH_SECONDS * len(runs):
            break
        for setting, run in runs.items():
            run()  # Pays for the memory that the form before it took or gave back.
            before = time.process_time()
            run()
            seconds[setting].append(max(time.process_time() - before, 1e-9))
    return seconds


def in_process(name: str, size: str, turns: int) -> dict[str, Row]:
    """Ablate one program in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.settings", "--child", name]
    command += ["--size", size, "--turns", str(turns)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            cwd=ROOT,
            timeout=TIMEOUT_SECONDS[size],
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"": {"failed": f"more than {TIMEOUT_SECONDS[size]} s"}}
    if done.returncode:
        return {"": {"failed": (done.stderr.strip().splitlines() or ["no output"])[-1]}}
    found: dict[str, Row] = json.loads(done.stdout.splitlines()[-1])
    return found


def table(results: dict[str, dict[str, Row]]) -> list[str]:
    """Return the list of settings with what each gains, as Markdown."""
    lines = [
        "| setting | XLA's name, or what is stored | programs in which it acts | slower by 5 % "
        "without it | most | faster by 5 % without it | more bytes without it | over the limit, "
        "or no program |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for setting in (*SETTINGS, ALL_OFF):
        found = {
            name: (rows[setting], rows[""]) for name, rows in results.items() if setting in rows
        }
        timed = {name: row["ratio"] for name, (row, _) in found.items() if "ratio" in row}
        slower = {name: ratio for name, ratio in timed.items() if ratio > 1 + NOTABLE}
        faster = [name for name, ratio in timed.items() if ratio < 1 - NOTABLE]
        most = max(slower, key=lambda name: slower[name], default="")
        larger = [
            f"{name} {format_bytes(row['compiled_bytes'])} for "
            f"{format_bytes(base['compiled_bytes'])}"
            for name, (row, base) in found.items()
            if row.get("compiled_bytes", 0) > (1 + NOTABLE) * base.get("compiled_bytes", 0)
        ]
        failed = [name for name, (row, _) in found.items() if "failed" in row]
        what = SETTINGS[setting].what if setting in SETTINGS else ""
        cells = (
            setting,
            what,
            f"{len(found)}",
            f"{len(slower)}",
            f"{most} {slower[most]:.2f}" if most else "",
            ", ".join(f"{name} {timed[name]:.2f}" for name in faster),
            f"{len(larger)}: {'; '.join(larger[:3])}" if larger else "",
            ", ".join(failed),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def wrong(results: dict[str, dict[str, Row]]) -> list[str]:
    """Return the programs whose values are wrong, with the setting that was off."""
    return [
        f"{name} without {setting or 'nothing'}: {row['error']:.1e}"
        for name, rows in results.items()
        for setting, row in rows.items()
        if "error" in row and not row["error"] <= row["tolerance"]
    ]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.settings", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--size", choices=tuple(TIMEOUT_SECONDS), default="small")
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--json", metavar="FILE", type=Path)
    parser.add_argument("--markdown", metavar="FILE", type=Path)
    parser.add_argument("--child", metavar="NAME", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(ablate(options.child, options.size, options.turns)))
        return
    results: dict[str, dict[str, Row]] = {}
    if options.json is not None and options.json.exists():
        results = json.loads(options.json.read_text(encoding="utf-8"))["programs"]
    for name in WORKLOADS:
        if name in results or (options.only and not any(o in name for o in options.only)):
            continue
        results[name] = in_process(name, options.size, options.turns)
        print(name, {k: round(v.get("ratio", -1), 2) for k, v in results[name].items()}, flush=True)
        if options.json is not None:
            known = {
                "jaxlib": jaxlib.version.__version__,
                "machine": machine(),
                "size": options.size,
            }
            text = json.dumps({**known, "programs": results}, indent=1)
            options.json.write_text(text, encoding="utf-8")
    print("\n".join(table(results)))
    print("wrong values:", "; ".join(wrong(results)) or "none")
    if options.markdown is not None:
        write(options.markdown, results, options.size)


def machine() -> str:
    """Return what processor this is."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="ascii", errors="replace").splitlines() if info.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(models)} cores, {models[0] if models else platform.processor()}"


HEAD = """# What differs from XLA's defaults

XLA's own tests run with XLA's defaults. Each row below is something that this package does
otherwise:
an option, a pass that is off, an attribute, a call of a library, a barrier. The list is
`tracer/lowering/settings.py`; no option and no barrier is outside of it
(`tests/lowering/test_settings.py`
reads the source). Each row names the test that certifies it: by default a program in which it acts,
float32 and float64, with it and without it, beside the interpreter.

This page is written by `{command}`, jaxlib {jaxlib}, {machine}: {count} programs of the planner's
benchmark under their limits, each row switched off in turn. Times are processor seconds without the
setting over those with it, calls in turns, medians. Wrong values: {wrong}.

## Reasons

| setting | kind | why | where | certified by |
|---|---|---|---|---|
{reasons}

## Gains

{gains}
"""


def write(path: Path, results: dict[str, dict[str, Row]], size: str) -> None:
    """Write docs/settings.md."""
    reasons = [
        f"| {row.name} | {row.kind} | {row.why} | {row.acts} | `{row.certified}` |"
        for row in SETTINGS.values()
    ]
    text = HEAD.format(
        command=f"python -m benchmarks.settings --size {size} --markdown {path}",
        jaxlib=jaxlib.version.__version__,
        machine=machine(),
        count=len(results),
        wrong="; ".join(wrong(results)) or "none",
        reasons="\n".join(reasons),
        gains="\n".join(table(results)),
    )
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
