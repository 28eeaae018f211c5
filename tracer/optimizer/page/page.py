"""One HTML file that shows a plan, with everything that it needs inside."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from importlib import resources
from string import Template
from typing import TYPE_CHECKING, Any

from tracer.errors import Source
from tracer.optimizer.page.advice import advice
from tracer.optimizer.page.live_ranges import LiveRange, LiveRanges
from tracer.optimizer.page.reasons import reasons
from tracer.units import format_bytes

if TYPE_CHECKING:
    from tracer.optimizer.plan import Plan

# A screen shows no more points, and a browser is quick with so many values.
_MOST_POINTS, _MOST_RANGES, _MOST_ROWS = 1_500, 1_000, 40


def page_of(plan: Plan, measured: Sequence[tuple[float, int]] = ()) -> str:
    """Return the page of a plan.

    Parameters
    ----------
    plan : Plan
    measured : sequence of (float, int)
        Seconds since the beginning of a call, and the bytes that it took then.
    """
    written, planned = plan.live_ranges
    sections = (
        _verdict(plan),
        _figures(plan),
        _chart("planned", "As planned", "predicted, step by step; point at a step"),
        _chart("measured", "Measured", "resident memory in a call, second by second")
        if measured
        else "",
        _chart("written", "As written", "predicted, without any pass"),
        _section("Large values, and what became of them", _values(plan, written, planned)),
        _section("Loops", _loops(plan)),
        _section("What would take the peak lower", _list(advice(plan, planned))),
        _section("Passes", _passes(plan)),
        _section("Memory that is shared, and copies", _list(plan.aliases.lines())),
    )
    data = {
        "limit": plan.limit_bytes,
        "compiled": plan.compiled_bytes,
        "planned": _chart_data(planned),
        "written": _chart_data(written),
        "measured": _measured_data(measured),
    }
    template = resources.files("tracer.optimizer.page").joinpath("page.html").read_text("utf-8")
    # A script element may be ended early, or begun again, by what begins with this.
    embedded = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return Template(template).substitute(body="\n".join(sections), data=embedded)


def _section(title: str, body: str) -> str:
    return f"<section><h2>{html.escape(title)}</h2>{body}</section>" if body else ""


def _chart(name: str, title: str, what: str) -> str:
    return (
        f'<section><h2>{title} <small>{what}</small></h2><div class="chart" id="{name}" '
        f'tabindex="0" role="img" aria-label="{title}: bytes over the schedule"></div>'
        f'<div class="alive" id="{name}-alive" aria-live="polite"></div></section>'
    )


def _verdict(plan: Plan) -> str:
    taken, written = format_bytes(plan.compiled_bytes), format_bytes(plan.baseline_peak_bytes)
    if plan.limit_bytes is None:
        return f"<p>No limit. The program takes {taken}; as written, {written}.</p>"
    limit = format_bytes(plan.limit_bytes)
    return (
        f"<p>The program takes {taken} of the {limit} that it may take; as written, {written}.</p>"
    )


def _figures(plan: Plan) -> str:
    low, high = plan.minimum_bytes_bounds
    smallest = format_bytes(low) if low == high else f"{format_bytes(low)} to {format_bytes(high)}"
    rows = [
        ("limit", "none" if plan.limit_bytes is None else format_bytes(plan.limit_bytes)),
        ("predicted peak", format_bytes(plan.peak_bytes)),
        ("compiled", f"{format_bytes(plan.compiled_bytes)}, by XLA's count and library scratch"),
        ("as written", f"{format_bytes(plan.baseline_peak_bytes)}, predicted"),
        ("arguments", format_bytes(plan.argument_bytes)),
        ("results", format_bytes(plan.output_bytes)),
        ("smallest limit", smallest if low == high else f"{smallest}, not searched"),
        *((f"note {number}", note) for number, note in enumerate(plan.notes, 1)),
        *((f"devices {number}", line) for number, line in enumerate(plan.devices, 1)),
    ]
    return _table((), rows)


def _values(plan: Plan, written: LiveRanges, planned: LiveRanges) -> str:
    found = reasons(plan, written, planned)
    rows = [(row.name, format_bytes(row.nbytes), row.reason, _place(row.source)) for row in found]
    return _table(("value", "bytes", "what became of it", "line"), rows)


def _loops(plan: Plan) -> str:
    rows = []
    for number, row in enumerate(plan.loops):
        rest = f" and {row.remainder}" if row.remainder > 0 else ""
        before, after = format_bytes(row.bytes_before), format_bytes(row.bytes_after)
        rows.append(
            (f"{number}", row.axis, f"{row.trips} of {row.chunk}{rest}", before, after,
             ", ".join(row.combiners), f"{row.extra_flops:,}")
        )  # fmt: skip
    heads = ("loop", "along", "trips", "in full", "a trip", "results", "extra flops")
    return _table(heads, rows) or "<p>None.</p>"


def _passes(plan: Plan) -> str:
    acting = [row for row in plan.passes if row.applied or row.refusals]
    rows = []
    for row in acting:
        peaks = f"{format_bytes(row.peak_bytes_before)} to {format_bytes(row.peak_bytes_after)}"
        left = "; ".join(f"{refusal.subject}: {refusal.reason}" for refusal in row.refusals[:3])
        rows.append((row.name, peaks, f"{len(row.applied)}", left))
    quiet = len(plan.passes) - len(acting)
    note = f"<p>{quiet} more found nothing to do.</p>" if quiet else ""
    return _table(("pass", "peak", "rewrites", "left alone"), rows) + note


def _place(source: Source | None) -> str:
    if source is None:
        return ""
    return f"{source.place}  {source.text}"


def _list(lines: Iterable[str]) -> str:
    items = "".join(f"<li>{html.escape(line.strip())}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    top = "".join(f"<th>{html.escape(head)}</th>" for head in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        for row in rows[:_MOST_ROWS]
    )
    more = len(rows) - _MOST_ROWS
    note = f"<p>{more} more, in the plan itself.</p>" if more > 0 else ""
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>{note}"


def _chart_data(found: LiveRanges) -> dict[str, Any]:
    """Return what the page's script draws: few points of a long schedule, its peaks among them."""
    count = len(found.live_bytes)
    width = max(1, -(-count // _MOST_POINTS))
    points = [
        max(range(first, min(first + width, count)), key=found.live_bytes.__getitem__)
        for first in range(0, count, width)
    ]
    return {
        "steps": [
            [step, found.live_bytes[step], found.steps[step][0], _place(found.steps[step][1])]
            for step in points
        ],
        "ranges": [_range_data(row) for row in found.ranges[:_MOST_RANGES]],
    }


def _range_data(row: LiveRange) -> list[Any]:
    return [row.first, row.last, row.nbytes, row.name, row.kind, _place(row.source)]


def _measured_data(measured: Sequence[tuple[float, int]]) -> dict[str, Any]:
    width = max(1, -(-len(measured) // _MOST_POINTS))
    points = [
        max(measured[first : first + width], key=lambda sample: sample[1])
        for first in range(0, len(measured), width)
    ]
    steps = [
        [place, nbytes, f"{seconds:.4f} s", ""] for place, (seconds, nbytes) in enumerate(points)
    ]
    return {"steps": steps, "ranges": []}


__all__ = ["page_of"]
