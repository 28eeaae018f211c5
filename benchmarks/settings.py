"""What each difference from XLA's defaults gains: programs with it and without it.

    python -m benchmarks.settings [--size small|medium|full] [--only NAME ...] [--turns N]
                                  [--json FILE] [--markdown FILE]

The programs are the planner's, and some more for rows that act in none of those. Each program is
planned once. Then each row of `tracer.lowering.settings.SETTINGS` is switched off in turn, and the
planned program is compiled again. The calls of all forms take turns in one process. Times are
processor seconds of all threads, which other work on the machine disturbs least, and ratios are
medians over turns. Values are checked with each program's own check. `--markdown` writes
docs/settings.md.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jaxlib.version
import numpy as np

import tracer
from benchmarks.framework import tracer_framework
from benchmarks.programs import WORKLOADS, make_inputs
from benchmarks.settings_programs import OWN_PROGRAMS
from tracer import lowering
from tracer.lowering.run.soundness import chosen_options
from tracer.lowering.settings import SETTINGS, without
from tracer.units import format_bytes

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT_SECONDS = {"small": 300, "medium": 1800, "full": 7200}
ENOUGH_SECONDS = 4.0
NOTABLE = 0.05
ALL_OFF = "all of them"
"""Every row of the list at once."""
PROGRAMS = {**WORKLOADS, **OWN_PROGRAMS}
Row = dict[str, Any]


@dataclass
class Planned:
    """A program under its limit, planned once, and what compiles its final graph."""

    workload: Any
    program: Any
    given: Any
    inputs: Any
    options: Mapping[str, Any]

    def compile(self, off: tuple[str, ...]) -> tuple[Row, Callable[[], Any]]:
        """Compile the planned graph without some settings; return its facts, and a run."""
        with without(*off):
            kept = options_without(self.options)
            execute = lowering.compile_graph(
                self.program.graph, device=self.program.device, options=kept
            )
            text = lowering.stablehlo(self.program.graph, device=self.program.device)
        row = {
            "compiled_bytes": execute.memory.peak_bytes,
            "notes": list(execute.notes),
            "text": text,
            "options": dict(kept),
        }
        changed = replace(self.program, execute=execute)

        def run() -> Any:
            leaves = tracer.tree.leaves(self.inputs)
            buffers = [leaf._buffer for leaf in leaves]
            results = changed.execute(*buffers, *(x._buffer for x in changed.captured))
            for result in results:
                result.block_until_ready()
            return results

        arrays = list(map(tracer.Array, run(), changed.output_types, changed.output_devices))
        results = tracer.tree.map(np.asarray, changed.unflatten(arrays))
        row |= {"error": self.workload.check(self.given, results)}
        return row | {"tolerance": self.workload.tolerance}, run


def planned(name: str, size: str) -> Planned:
    """Plan one program of the planner's under its limit."""
    workload = PROGRAMS[name]
    function = tracer.compile(
        workload.program(tracer_framework()), memory_limit=workload.sizes[size].limit
    )
    given = make_inputs(workload, size)
    inputs = tracer.tree.map(tracer.numpy.asarray, given)
    with compilations() as options:
        program = function._program_for(tuple(inputs), {})
    return Planned(workload, program, given, inputs, options[id(program.execute.raw)])


@contextmanager
def compilations() -> Iterator[dict[int, Mapping[str, Any]]]:
    """Note the options of each program that is compiled inside of the context."""
    found: dict[int, Mapping[str, Any]] = {}
    compile_graph = lowering.compile_graph

    def noting(graph: Any, **given: Any) -> Any:
        execute = compile_graph(graph, **given)
        found[id(execute.raw)] = given.get("options") or {}
        return execute

    lowering.compile_graph = noting
    try:
        yield found
    finally:
        lowering.compile_graph = compile_graph


def options_without(options: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out the options that the planner chose and that a setting which is off asks for."""
    asked = {
        **lowering.memory_optimized_options(),
        **lowering.unmoved_code_options(),
        **lowering.eigen_options(),
    }
    return {key: value for key, value in options.items() if asked.get(key) == value}


def acts(setting: str, row: Row, base: Row) -> bool:
    """Tell whether a program is another one without a setting, or has other options."""
    if any(row[key] != base[key] for key in ("text", "compiled_bytes", "options")):
        return True
    with without(setting):
        changed = chosen_options("cpu", {})
    return changed != chosen_options("cpu", {})


def ablate(name: str, size: str, turns: int) -> dict[str, Row]:
    """Return, for each setting that acts in a program, bytes, error and time without it."""
    program = planned(name, size)
    base, run = program.compile(())
    rows, runs = {"": base}, {"": run}
    for setting in (*SETTINGS, ALL_OFF):
        off = tuple(SETTINGS) if setting == ALL_OFF else (setting,)
        try:
            row, run = program.compile(off)
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
        for key in ("text", "options"):
            row.pop(key, None)
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
    return rows_of(command, TIMEOUT_SECONDS[size])


def rows_of(command: list[str], timeout: int) -> dict[str, Row]:
    """Return the rows that a process prints in its last line, or why there are none."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            cwd=ROOT,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"": {"failed": f"more than {timeout} s"}}
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


def not_run(results: dict[str, dict[str, Row]]) -> list[str]:
    """Return the programs that did not run with all settings, and why."""
    return [
        f"{name}: {rows['']['failed']}" for name, rows in results.items() if "failed" in rows[""]
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
    for name in PROGRAMS:
        if (
            name in results
            or options.size not in PROGRAMS[name].sizes
            or (options.only and not any(o in name for o in options.only))
        ):
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
    if failures := not_run(results):
        sys.exit("did not run: " + "; ".join(failures))
    if options.markdown is not None:
        write(options.markdown, results, options.size)


def machine() -> str:
    """Return what processor this is."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="ascii", errors="replace").splitlines() if info.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(models)} cores, {models[0] if models else platform.processor()}"


HEAD = """# What the settings gain

For engineers who change the lowering; [docs/settings.md](../../docs/settings.md) says what each
setting is for.

Written by `{command}`, jaxlib {jaxlib}, {machine}. {count} programs: the planner's benchmark under
their limits, and some more for rows that act in none of those (`benchmarks/settings_programs.py`).
Each row is switched off in turn. Times are processor seconds without the setting, divided by those
with it; calls in turns, medians. Wrong values: {wrong}.

{gains}
"""


def write(path: Path, results: dict[str, dict[str, Row]], size: str) -> None:
    """Write the table and how it was made."""
    text = HEAD.format(
        command=f"python -m benchmarks.settings --size {size} --markdown {path}",
        jaxlib=jaxlib.version.__version__,
        machine=machine(),
        count=len(results),
        wrong="; ".join(wrong(results)) or "none",
        gains="\n".join(table(results)),
    )
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
