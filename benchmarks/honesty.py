"""Whether limits are kept, by 200 programs times four limits, each in a fresh process.

    python -m benchmarks.honesty --json honesty.jsonl               # hours; goes on where it was
    python -m benchmarks.honesty --json honesty.jsonl --every 19    # each 19th program
    python -m benchmarks.honesty --programs attention --limits smallest 1/2 --untrimmed

The limits are the smallest that can be met and shares of the peak of the program as written.
Planned is the planner's model, which may be over the limit where XLA counts less and nothing
smaller is known. Counted is XLA's count with the modelled scratch, which is promised. First and all
are resident memory in the first call and in three calls, arguments included: what the
process grows by, with no library warmed up. What compilation freed goes back to the system before,
so a program's small blocks take new pages all over the heap; with --untrimmed it stays, and a
program uses it again, as it does outside of measurements. The first call should keep the limit,
later ones may not (docs/memory-model.md). Programs: `honesty_programs.py`.

Ends with 1 if a count is over its limit.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.honesty_programs import LIMITS, PROGRAMS
from benchmarks.measure import measure
from examples.display import Progress, print_table
from tracer.units import format_bytes

CALLS = 3
RESOLUTION_BYTES = 300_000
"""Of the instrument: what any first call leaves, such as pages of the stacks of threads."""
SIZES = ("limit_bytes", "planned_bytes", "counted_bytes", "first_bytes", "all_bytes")
HEADER = ("program", "share", "limit", "planned", "counted", "first call", "all calls", "kept", "")
Row = dict[str, Any]


def run(name: str, limit: str, timeout: float, trimmed: bool) -> Row:
    """Measure one program under one limit; a refusal, a crash or a time-out is a row too."""
    found = measure(
        "benchmarks.honesty_programs:prepared",
        arguments={"name": name, "limit": limit},
        repeats=CALLS - 1,
        timeout=timeout,
        trimmed=trimmed,
    )
    row: Row = {"program": name, "limit": limit, "status": found.status, "reason": found.reason}
    row |= found.report or {}
    if "minimum_bytes" in row:
        return row | {
            "status": "refused",
            "reason": f"smallest {format_bytes(row['minimum_bytes'])}",
        }
    if found.peak_bytes is not None and found.first_peak_bytes is not None:
        arguments = row["argument_bytes"]
        row |= {
            "first_bytes": found.first_peak_bytes + arguments,
            "all_bytes": found.peak_bytes + arguments,
            "seconds": found.seconds,
        }
    return row


def keeps(row: Row, key: str, beyond: int = 0) -> bool:
    """Tell whether a run's number is within its limit and something more."""
    return bool(row[key] <= row["limit_bytes"] + beyond)


def cells(row: Row) -> tuple[str, ...]:
    """Return the texts of a row."""
    sizes = [format_bytes(row[key]) if key in row else "" for key in SIZES]
    if row["status"] != "ok":
        reason = " ".join(row["reason"].split())[-60:]
        return row["program"], row["limit"], *sizes, row["status"], reason
    kept = [
        text
        for key, text in (
            ("counted_bytes", "count"),
            ("first_bytes", "first"),
            ("all_bytes", "all"),
        )
        if keeps(row, key)
    ]
    return row["program"], row["limit"], *sizes, ", ".join(kept) or "NOTHING", ""


def summary(rows: Sequence[Row]) -> list[str]:
    """Return how many runs kept what."""
    ran = [row for row in rows if row["status"] == "ok"]
    others = sorted({row["status"] for row in rows} - {"ok"})
    counts = [f"{sum(row['status'] == status for row in rows)} {status}" for status in others]
    lines = [
        f"{len(rows)} runs of {len({row['program'] for row in rows})} programs: "
        + ", ".join([f"{len(ran)} ran", *counts])
    ]
    for key, what in (
        ("planned_bytes", "planned bytes"),
        ("counted_bytes", "XLA's count"),
        ("first_bytes", "the first call"),
        ("all_bytes", f"{CALLS} calls"),
    ):
        lines.append(
            f"{what} within the limit: {sum(keeps(row, key) for row in ran)} of {len(ran)}"
        )
    near = sum(keeps(row, "first_bytes", RESOLUTION_BYTES) for row in ran)
    lines.append(
        f"the first call within the limit and {format_bytes(RESOLUTION_BYTES)}, the resolution of "
        f"the instrument: {near} of {len(ran)}"
    )
    return lines


def broken(rows: Sequence[Row]) -> list[str]:
    """Return a line for each count over its limit."""
    return [
        f"{row['program']} at {row['limit']}: XLA's count is over the limit"
        for row in rows
        if row["status"] == "ok" and not keeps(row, "counted_bytes")
    ]


def chosen(texts: Sequence[str], every: int) -> list[str]:
    """Return the programs whose names have one of the texts, each n-th of them."""
    names = [name for name in PROGRAMS if not texts or any(text in name for text in texts)]
    return names[::every]


def known_rows(path: Path | None) -> list[Row]:
    """Return what earlier runs wrote to a file."""
    if path is None or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def measured(
    names: Sequence[str], limits: Sequence[str], path: Path | None, timeout: float, trimmed: bool
) -> Iterator[Row]:
    """Yield a row for each run; those that are in the file are not run again."""
    known = {(row["program"], row["limit"]): row for row in known_rows(path)}
    progress = Progress()
    for name in names:
        for limit in limits:
            row = known.get((name, limit))
            if row is None:
                progress.say(f"{name}, {limit}")
                row = run(name, limit, timeout, trimmed)
                if path is not None:
                    with path.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(row) + "\n")
            yield row
    progress.clear()


def main(arguments: list[str] | None = None) -> list[Row]:
    """Run the command line; returns the rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--programs", nargs="+", default=[], metavar="TEXT", help="with such names")
    parser.add_argument("--limits", nargs="+", default=LIMITS, choices=LIMITS)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each N-th program")
    parser.add_argument("--json", type=Path, metavar="FILE", help="a line for each run; goes on")
    parser.add_argument("--timeout", type=float, default=600, help="of one process, in seconds")
    parser.add_argument("--untrimmed", action="store_true", help="leave what compilation freed")
    options = parser.parse_args(arguments)
    names = chosen(options.programs, options.every)
    trimmed = not options.untrimmed
    rows = list(measured(names, options.limits, options.json, options.timeout, trimmed))
    print_table("Limits, and what programs take", HEADER, list(map(cells, rows)))
    print("\n".join(["", *summary(rows)]))
    return rows


if __name__ == "__main__":
    sys.exit("\n".join(broken(main())) or 0)
