"""Rows as tables, Markdown and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.experiments.records import OURS, Row
from benchmarks.race import short_time
from examples.display import print_table
from tracer.units import format_bytes

HEADER = (
    "system", "seconds", "fastest .. slowest", "times ours", "memory", "limit", "predicted",
    "XLA's count", "error", "",
)  # fmt: skip
ABOUT = (
    '"(apart)": too long to take turns, so the ratio is one of medians of runs at different times. '
    "Memory is the most of all calls, above a baseline with the inputs in place; ours, where there "
    "is a limit, with the arguments. Promised are XLA's count and the first call: where all calls "
    "take more than the limit, the memory of the first one is named."
)


def cells(row: Row) -> tuple[str, ...]:
    """Return the texts of a row."""
    if row["status"] != "ok":
        return row["system"], row["status"], *[""] * 7, _short(row.get("reason", ""))
    return (
        row["system"],
        short_time(row["seconds"]),
        f"{short_time(row['fastest'])} .. {short_time(row['slowest'])}",
        _ratio(row),
        _bytes(row, "measured_bytes" if "measured_bytes" in row else "peak_bytes"),
        _bytes(row, "limit_bytes"),
        _bytes(row, "predicted_bytes"),
        _bytes(row, "counted_bytes"),
        _error(row),
        _remarks(row),
    )


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 90 else f"{text[:87]}..."


def _ratio(row: Row) -> str:
    if "ratio" not in row:
        return ""
    return f"{row['ratio']:.2f}" + ("" if row["interleaved"] else " (apart)")


def _bytes(row: Row, key: str) -> str:
    return format_bytes(row[key]) if row.get(key) is not None else ""


def _error(row: Row) -> str:
    if "error" not in row:
        return ""
    return f"{row['error']:.1e}" + ("" if row["right"] else " WRONG")


def _remarks(row: Row) -> str:
    parts = []
    if row.get("work"):
        parts.append(f"{row['work'] / row['seconds']:,.0f} a second")
    if row.get("within") is False:
        parts.append(f"OVER THE LIMIT{_first_call(row)}")
    if count_keeps_limit(row) is False:
        parts.append("COUNT OVER THE LIMIT")
    parts += [
        f"{key} {row[key]:.4g}" for key in ("rmse", "nlpd", "evaluations", "each") if key in row
    ]
    if "compile_seconds" in row:
        parts.append(f"compiled in {short_time(row['compile_seconds'])}")
    return ", ".join(parts)


def _first_call(row: Row) -> str:
    """Say what the first call took; nothing of rows from before it was measured apart."""
    return f", first call {_bytes(row, 'first_bytes')}" if "first_bytes" in row else ""


def count_keeps_limit(row: Row) -> bool | None:
    """Tell whether XLA's count is within the limit; None where there is no count or no limit."""
    counted, limit = row.get("counted_bytes"), row.get("limit_bytes")
    return None if counted is None or limit is None else bool(counted <= limit)


def first_call_keeps_limit(row: Row) -> bool | None:
    """Tell whether the first call is within the limit; None where there is no limit.

    Rows from before the first call was measured apart say it of all calls.
    """
    kept: bool | None = row.get("within_first", row.get("within"))
    return kept


def show(rows: Sequence[Row]) -> None:
    """Print a case's table."""
    print_table(f"{rows[0]['experiment']}: {rows[0]['case']}", HEADER, list(map(cells, rows)))
    print(flush=True)


def summary(rows: Sequence[Row]) -> list[str]:
    """Return the promises in numbers."""
    ours = [row for row in rows if row["system"].startswith(OURS)]
    limited = [row for row in ours if "within" in row]
    counts = [kept for row in ours if (kept := count_keeps_limit(row)) is not None]
    checked = [row for row in rows if "right" in row]
    lines = [
        f"ours ran: {sum(row['status'] == 'ok' for row in ours)} of {len(ours)}",
        f"XLA's count within the limit: {sum(counts)} of {len(counts)}",
        f"resident memory within the limit: {sum(map(bool, map(first_call_keeps_limit, limited)))} "
        f"of {len(limited)} in the first call, {sum(row['within'] for row in limited)} in all "
        "calls",
        f"values right: {sum(row['right'] for row in checked)} of {len(checked)}",
    ]
    lost = [
        f"{row['experiment']}, {row['case']}: {row['system']} takes {row['ratio']:.2f} of our time"
        for row in rows
        if row.get("ratio", 1) < 1 and not row["system"].startswith(OURS)
    ]
    return lines + [f"faster than ours: {line}" for line in lost]


def broken(rows: Sequence[Row]) -> list[str]:
    """Return a line for each promise of ours that a row breaks.

    What later calls take is reported, and no promise (docs/memory-model.md).
    """
    found = []
    for row in rows:
        if not row["system"].startswith(OURS):
            continue
        name = f"{row['experiment']}, {row['case']}, {row['system']}"
        if row["status"] != "ok":
            found.append(f"{name}: {row['status']}: {_short(row.get('reason', ''))}")
        if first_call_keeps_limit(row) is False:
            which = "the first call is " if "within_first" in row else ""
            found.append(f"{name}: {which}over the limit")
        if count_keeps_limit(row) is False:
            found.append(f"{name}: XLA's count is over the limit")
        if row.get("right") is False:
            found.append(f"{name}: wrong values")
    return found


def by_case(rows: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    """Group rows by experiment and case, each in the order in which they came first."""
    experiments: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        experiments.setdefault(row["experiment"], {}).setdefault(row["case"], []).append(row)
    return {
        (experiment, case): group
        for experiment, cases in experiments.items()
        for case, group in cases.items()
    }


def read_json(path: Path, *, size: str, device: str) -> dict[str, Any]:
    """Read what an earlier run wrote, to go on with it; it must have been of the same kind."""
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if "runs" not in record:
        raise SystemExit(f"{path} is of an older version of this suite: name another with --json")
    if (record["size"], record["device"]) != (size, device):
        raise SystemExit(
            f"{path} is of --size {record['size']} --device {record['device']}, so --size {size} "
            f"--device {device} cannot go on with it: name another file with --json"
        )
    return record


def write_json(path: Path, record: Mapping[str, Any]) -> None:
    """Write everything; the folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1), encoding="utf-8")


def write_markdown(path: Path, record: Mapping[str, Any], pictures: Sequence[Path]) -> None:
    """Write the tables as a page, with the command, the machine and the versions."""
    rows: list[Row] = record["rows"]
    lines = [f"# The published experiments ({record['size']})", "", ABOUT]
    for number, run in enumerate(record["runs"], 1):
        lines += ["", f"Run {number}: {about(run)}"]
    lines.append("")
    lines += [f"- {line}" for line in summary(rows)]
    for picture in pictures:
        lines += ["", f"![{picture.stem}]({_relative(picture, path.parent)})"]
    heading = ""
    for (experiment, case), group in by_case(rows).items():
        if experiment != heading:
            heading = experiment
            lines += ["", f"## {experiment}"]
        lines += ["", f"### {case}{_of_run(record, group[0]['run'])}", "", *_table(group)]
    for title, found in record["texts"].items():
        of_run = _of_run(record, found["run"])
        lines += ["", f"## {title}{of_run}", "", "```", found["text"].rstrip(), "```"]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")


def about(run: Mapping[str, Any]) -> str:
    """Return the command, the machine and the versions of a run."""
    machine = run["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    return (
        f"`{run['command']}`, {run['date']}, commit {machine['commit']}; "
        f"{machine['cores']} cores of {machine['processor']}, "
        f"{format_bytes(machine['memory_bytes'])} of memory, {machine['system']}; "
        f"Python {machine['python']}, {versions}. A process may add "
        f"{format_bytes(run['cap_bytes'])} of address space."
    )


def _of_run(record: Mapping[str, Any], run: int) -> str:
    """Say which run a case is of, where there are several."""
    return f" (run {run + 1})" if len(record["runs"]) > 1 else ""


def _table(rows: Sequence[Row]) -> list[str]:
    lines = ["| " + " | ".join(HEADER) + " |", "|---" * len(HEADER) + "|"]
    return lines + [
        "| " + " | ".join(cell.replace("|", "/").replace("\n", " ") for cell in cells(row)) + " |"
        for row in rows
    ]


def _relative(path: Path, folder: Path) -> str:
    try:
        return path.resolve().relative_to(folder.resolve()).as_posix()
    except ValueError:
        return str(path.resolve())
