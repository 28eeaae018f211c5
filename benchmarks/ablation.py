"""What each optional pass is worth: every program with and without it.

    python -m benchmarks.ablation [--size small|medium] [--only NAME ...] [--passes NAME ...]
                                  [--json FILE] [--markdown FILE]

The programs are the planner's, under their limits, those of `other_programs.py`, under a part of
what they take as written, and those that passes were made for (`pass_programs.py`). Each pass is
switched off in turn by its name. Where the program is another one without it, both are run in turns
in one process; times are processor seconds of all threads, which other work on the machine changes
least, and ratios are medians over turns. Bytes are XLA's count. Values with and without a pass are
compared.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tracer
from benchmarks.framework import tracer_framework
from benchmarks.other_programs import OTHERS
from benchmarks.pass_programs import PASS_PROGRAMS
from benchmarks.programs import WORKLOADS, make_inputs
from benchmarks.settings import NOTABLE, Row, in_turns, rows_of
from tracer.optimizer.rewrite.rules import RULES
from tracer.optimizer.selection import NAMES
from tracer.units import format_bytes

RULES_TOGETHER = "apply-rules"
PASSES = tuple(sorted({*NAMES, RULES_TOGETHER} - {rule.name for rule in RULES} - {"shard"}))
"""What can be switched off; *shard* acts on several devices only."""
TURNS = 5
TIMEOUT_SECONDS = 900


class Planned:
    """A program compiled with some passes off, on given arrays."""

    def __init__(self, function: Callable[..., Any], inputs: Any, limit: Any, off: str) -> None:
        passes = f"-{off}" if off else None
        compiled = tracer.compile(function, memory_limit=limit, passes=passes)
        self.plan = compiled.plan(*inputs)
        self.key = (compiled.graph(*inputs).fingerprint, self.plan.compiled_bytes)
        self.inputs, self.compiled = inputs, compiled

    def __call__(self) -> list[Any]:
        """Run, and wait for the results."""
        leaves = tracer.tree.leaves(self.compiled(*self.inputs))
        for leaf in leaves:
            leaf.block_until_ready()
        return leaves


def program_of(name: str, size: str) -> tuple[Callable[..., Any], Any, Any]:
    """Return a program, its arguments on the device, and its limit."""
    if name in WORKLOADS:
        workload = WORKLOADS[name]
        inputs = tracer.tree.map(tracer.numpy.asarray, make_inputs(workload, size))
        return workload.program(tracer_framework()), inputs, workload.sizes[size].limit
    limited = OTHERS[name] if name in OTHERS else PASS_PROGRAMS[name]
    function, share = limited.function, limited.limit
    inputs = tracer.tree.map(tracer.numpy.asarray, limited.arrays())
    if not isinstance(share, float):
        return function, inputs, share
    peak = tracer.compile(function, split="never").plan(*inputs).baseline_peak_bytes
    return function, inputs, int(share * peak)


def ablate(name: str, size: str, passes: list[str]) -> dict[str, Row]:
    """Return, for each pass without which a program is another one, what that one takes."""
    function, inputs, limit = program_of(name, size)
    base = Planned(function, inputs, limit, "")
    rows: dict[str, Row] = {"": {"bytes": base.plan.compiled_bytes}}
    runs: dict[str, Callable[[], Any]] = {"": base}
    for item in passes:
        try:
            found = Planned(function, inputs, limit, item)
        except tracer.TracerError as error:
            rows[item] = {"failed": str(error).splitlines()[0]}
            continue
        if found.key != base.key:
            rows[item], runs[item] = {"bytes": found.plan.compiled_bytes}, found
    wanted = [np.asarray(leaf) for leaf in base()]
    for item, taken in in_turns(runs, TURNS).items():
        rows[item]["seconds"] = statistics.median(taken)
        rows[item]["apart"] = apart(runs[item](), wanted)
    return rows


def apart(results: list[Any], wanted: list[Any]) -> float:
    """Return the largest difference, relative to the largest element of each result."""
    pairs = zip(map(np.asarray, results), wanted, strict=True)
    return max(
        float(np.abs(one - other).max() / (np.abs(other).max() + 1e-30)) if one.size else 0.0
        for one, other in pairs
    )


def in_process(name: str, size: str, passes: list[str]) -> dict[str, Row]:
    """Ablate one program in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.ablation", "--child", name, "--size", size]
    return rows_of([*command, "--passes", *passes], TIMEOUT_SECONDS)


def table(results: dict[str, dict[str, Row]], passes: list[str]) -> Iterator[str]:
    """Yield the lines of the table, one for each pass."""
    yield (
        "| pass | acts in | slower by 5 % without it | faster by 5 % without it "
        "| more bytes without it | fewer bytes without it | no program without it |"
    )
    yield "|" + "---|" * 7
    for item in passes:
        pairs = [(name, rows[item], rows[""]) for name, rows in results.items() if item in rows]
        ran = [(name, row, base) for name, row, base in pairs if "failed" not in row]
        times = [(row["seconds"] / base["seconds"], name) for name, row, base in ran]
        sizes = [(row["bytes"] / base["bytes"], name) for name, row, base in ran]
        cells = (
            f"`{item}`",
            str(len(pairs)),
            _notable([pair for pair in times if pair[0] > 1 + NOTABLE]),
            _notable([pair for pair in times if pair[0] < 1 - NOTABLE]),
            _notable([pair for pair in sizes if pair[0] > 1 + NOTABLE]),
            _notable([pair for pair in sizes if pair[0] < 1 - NOTABLE]),
            _few([name for name, row, _ in pairs if "failed" in row]),
        )
        yield f"| {' | '.join(cells)} |"


def _few(names: list[str]) -> str:
    """Return names, or how many there are and the first three."""
    return ", ".join(names) if len(names) <= 5 else f"{len(names)}: {', '.join(names[:3])}, ..."


def _notable(pairs: list[tuple[float, str]]) -> str:
    """Return how many there are, and the three that differ most."""
    if not pairs:
        return ""
    pairs = sorted(pairs, key=lambda pair: -max(pair[0], 1 / pair[0]))
    return f"{len(pairs)}: " + ", ".join(f"{name} {ratio:.2f}" for ratio, name in pairs[:3])


def write_markdown(path: Path, results: dict[str, dict[str, Row]], passes: list[str]) -> None:
    """Write the page."""
    failed = [f"{name}: {rows['']['failed']}" for name, rows in results.items() if _failed(rows)]
    kept = {name: rows for name, rows in results.items() if not _failed(rows)}
    limits = ", ".join(f"{name} {format_bytes(rows['']['bytes'])}" for name, rows in kept.items())
    largest = max(row.get("apart", 0.0) for rows in kept.values() for row in rows.values())
    lines = [
        "# Ablation: what each optional pass is worth",
        "",
        "For those who add, change or remove a pass. What came of it: "
        "[docs/ablation.md](../../docs/ablation.md).",
        "",
        "`" + " ".join(["python", "-m", "benchmarks.ablation", *sys.argv[1:]]) + "`, "
        f"{len(kept)} programs: the planner's under their limits; 20 that are in no other "
        "benchmark, most under a third to two thirds of what they take as written; and a dozen "
        "that single passes are for. Each pass is switched off in turn. Ratios are without the "
        "pass over with it: processor seconds of a call, and XLA's bytes. Values differ by "
        f"{largest:.1e} at most, of a result's largest element.",
        "",
        *table(kept, passes),
        "",
        f"Bytes with all passes: {limits}.",
        *[f"\nNot run: {line}." for line in failed],
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _failed(rows: dict[str, Row]) -> bool:
    return "failed" in rows[""]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ablation", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--size", choices=("small", "medium"), default="small")
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--passes", nargs="+", default=list(PASSES), metavar="NAME")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        print(json.dumps(ablate(options.child, options.size, options.passes)))
        return
    results: dict[str, dict[str, Row]] = {}
    for name in (*WORKLOADS, *OTHERS, *PASS_PROGRAMS):
        if options.only and not any(part in name for part in options.only):
            continue
        results[name] = in_process(name, options.size, options.passes)
        acting = {key: row for key, row in results[name].items() if key}
        print(name, results[name][""].get("failed") or f"{len(acting)} passes act", flush=True)
        if options.json is not None:
            options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")
    print("\n".join(table({k: v for k, v in results.items() if not _failed(v)}, options.passes)))
    if options.markdown is not None:
        write_markdown(options.markdown, results, options.passes)


if __name__ == "__main__":
    main()
