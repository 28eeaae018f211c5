"""The table of the planner's benchmark: rows as text, the lines that sum them up."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from examples.display import print_table
from tracer.units import format_bytes

Row = dict[str, Any]
HEADER = (
    "program", "limit", "as written", "predicted", "XLA + scratch", "measured", "of predicted",
    "within", "seconds", "jax / ours", "by hand / ours", "no limit / ours", "error",
)  # fmt: skip
_PEERS = ("jax", "by_hand", "no_limit")


def print_rows(title: str, rows: Sequence[Row]) -> None:
    """Print the table."""
    print_table(title, HEADER, [cells(row) for row in rows])


def cells(row: Row) -> tuple[str, ...]:
    """Return the texts of one row."""
    within = {True: "yes", False: "NO", None: ""}[row.get("within")]
    return (
        f"{row['program']} ({_shape(row)})",
        format_bytes(row["limit_bytes"]),
        *(_bytes(row, f"{key}_bytes") for key in ("as_written", "predicted", "counted")),
        _measured(row),
        f"{row['of_predicted']:.2f}" if "of_predicted" in row else "",
        within,
        _seconds(row),
        *(_ratio(row, peer) for peer in _PEERS),
        _error(row),
    )


def _shape(row: Row) -> str:
    axes = ("n", "d", "m", "k", "length", "classes", "queries")
    return ", ".join(f"{axis} = {row[axis]:,}" for axis in axes if axis in row)


def _bytes(row: Row, key: str) -> str:
    return format_bytes(row[key]) if key in row else ""


def _measured(row: Row) -> str:
    if "refused" in row:
        return f"refused, smallest {format_bytes(row['minimum_bytes'])}"
    if "failed" in row:
        return "failed"
    if row.get("measured_bytes") is None:
        return str(row["memory_status"])
    return format_bytes(row["measured_bytes"])


def _seconds(row: Row) -> str:
    """Return the median over turns; where there was no race the call that memory was watched in."""
    seconds = row.get("first_seconds") if row["ours"] is None else row["ours"]
    return "" if seconds is None else f"{seconds:.3f}"


def _ratio(row: Row, peer: str) -> str:
    if row[peer] is None:
        return str(row[f"{peer}_status"])
    return f"{row[peer]:.3f} s" if row["ours"] is None else f"{row[f'{peer}_ratio']:.2f}"


def _error(row: Row) -> str:
    if "error" not in row:
        return ""
    wrong = "" if row["error"] <= row["tolerance"] else " WRONG"
    return f"{row['error']:.1e}{wrong}"


def summary(rows: Sequence[Row]) -> list[str]:
    """Return lines that say how many promises were kept, and by which program each worst is."""
    ran = [row for row in rows if "within" in row]
    right = sum(0.7 <= row["of_predicted"] <= 1.05 for row in ran)
    lines = [
        f"within the limit, measured: {sum(row['within'] for row in ran)} of {len(rows)}",
        f"measured / predicted from 0.7 to 1.05: {right} of {len(rows)}",
        f"right values: {sum(_is_right(row) for row in rows)} of {len(rows)}",
    ]
    if ran:
        worst = max(ran, key=lambda row: float(row["of_predicted"]))
        lines.append(f"largest measured / predicted: {worst['of_predicted']:.2f}, {_name(worst)}")
    for peer, said, bar in (("jax", "unlimited jax", 1.1), ("by_hand", "jax by hand", 1.3)):
        both = [row for row in rows if row["ours"] is not None and row[peer] is not None]
        if both:
            slowest = max(both, key=lambda row: 1 / float(row[f"{peer}_ratio"]))
            ratio = 1 / slowest[f"{peer}_ratio"]
            slower = sum(bar * row[f"{peer}_ratio"] < 1 for row in both)
            lines.append(
                f"ours / {said}: at most {ratio:.2f} ({_name(slowest)}); "
                f"above {bar} for {slower} of {len(both)}"
            )
    return lines


def _is_right(row: Row) -> bool:
    return "error" in row and bool(row["error"] <= row["tolerance"])


def _name(row: Row) -> str:
    return str(row["program"])


def write_markdown(path: Path, title: str, rows: Sequence[Row]) -> None:
    """Write the table and its summary as a page."""
    lines = [f"# {title}", "", f"{platform.machine()}, {_processors()} processors.", ""]
    lines += ["| " + " | ".join(HEADER) + " |", "|---" * len(HEADER) + "|"]
    lines += ["| " + " | ".join(cells(row)) + " |" for row in rows]
    lines += ["", *(f"* {line}" for line in summary(rows)), ""]
    path.write_text("\n".join(lines), encoding="utf-8")


def _processors() -> int:
    return len(os.sched_getaffinity(0))
