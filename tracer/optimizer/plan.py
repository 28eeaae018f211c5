"""The plan: what was done to a program and what it will take, for people and for machines."""

from __future__ import annotations

import html
import os
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tracer.errors import ArgumentError, Source
from tracer.ir import Graph
from tracer.optimizer.alias.report import AliasReport
from tracer.optimizer.candidates import CandidateRow
from tracer.optimizer.listing import listed
from tracer.optimizer.loops.split import LoopRow
from tracer.optimizer.model.liveness import Liveness
from tracer.optimizer.page import LiveRanges, page_of
from tracer.optimizer.passes import PassRow
from tracer.optimizer.picture import Curve, draw_timeline
from tracer.units import format_bytes


def _no_live_ranges() -> tuple[LiveRanges, LiveRanges]:
    nothing = LiveRanges((), (), ())
    return nothing, nothing


@dataclass(frozen=True)
class TimelineEntry:
    """Bytes alive while one stored value of the final program is computed."""

    name: str
    source: Source | None
    live_bytes: int


def _not_searched() -> int:
    """Refuse to search in a plan that came from a pickle."""
    raise ArgumentError(
        "this plan came from a pickle, and minimum_bytes had not been searched for before",
        mend="ask for plan.minimum_bytes before it is pickled, or plan again",
    )


@dataclass(frozen=True)
class Plan:
    """What `compile` will run, and the memory it takes.

    Attributes
    ----------
    limit_bytes : int or None
        The limit asked for, in bytes.
    peak_bytes : int
        Predicted peak of the whole program: arguments, results, temporaries and scratch. A
        prediction: `compiled_bytes` was compared with the limit.
    baseline_peak_bytes : int
        Predicted peak of the program as written, without any pass.
    compiled_bytes : int
        XLA's own count for the compiled program, plus modelled library scratch.
    argument_bytes, output_bytes : int
        Bytes of the inputs (captured arrays included) and of the results.
    passes : tuple of PassRow
        One row for each pass that ran: what it changed and what it refused.
    loops : tuple of LoopRow
        One row for each loop made by splitting.
    timeline : tuple of TimelineEntry
        Bytes alive over the predicted schedule.
    candidates : tuple of CandidateRow
        The programs that were compiled to find this one, in their order (not on several devices).
    is_search_cut : bool
        `planning_seconds` ended the search: candidates were left out.
    devices : tuple of str
        For a program on several devices: the mesh, then what is spread over it, along which axis.
        The bytes are those of each device.
    notes : tuple of str
        What is unusual about the compiled program, such as options of XLA's that it does without.
    fixed_bytes : int
        Arguments and results (donated memory once): no limit below can be met. On several devices
        the least share of each.

    Examples
    --------
    >>> import tracer, tracer.numpy as tnp
    >>> f = tracer.compile(lambda x: tnp.exp(x[:, None] - x[None, :]).sum(1), memory_limit="1MB")
    >>> plan = f.plan(tracer.ShapeDtype((4000,), "float32"))
    >>> plan.peak_bytes <= plan.limit_bytes < plan.argument_bytes + 4000 * 4000 * 4
    True
    """

    limit_bytes: int | None
    peak_bytes: int
    baseline_peak_bytes: int
    compiled_bytes: int
    argument_bytes: int
    output_bytes: int
    passes: tuple[PassRow, ...]
    loops: tuple[LoopRow, ...]
    timeline: tuple[TimelineEntry, ...]
    fixed_bytes: int
    find_minimum: Callable[[], int] = field(repr=False, compare=False)
    candidates: tuple[CandidateRow, ...] = ()
    is_search_cut: bool = False
    devices: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    find_aliases: Callable[[], AliasReport] = field(default=AliasReport, repr=False, compare=False)
    find_live_ranges: Callable[[], tuple[LiveRanges, LiveRanges]] = field(
        default=_no_live_ranges, repr=False, compare=False
    )

    def __getstate__(self) -> dict[str, Any]:
        """Pickle what is known, without the programs: `minimum_bytes` only if it was asked for."""
        known = {"aliases": self.aliases, "live_ranges": self.live_ranges}
        state = {name: vars(self)[name] for name in vars(self) if not name.startswith("find_")}
        return {**state, **known, "find_minimum": _not_searched}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take what was known."""
        vars(self).update(state)

    def __copy__(self) -> Plan:
        """Return the same object: nothing changes it."""
        return self

    def __deepcopy__(self, memo: Any) -> Plan:
        """Return the same object: nothing changes it."""
        return self

    @cached_property
    def minimum_bytes(self) -> int:
        """The smallest limit that is known to be met, in bytes, found by planning and compiling.

        The first access searches, which takes seconds; the number is kept. Nothing else of a plan
        searches: `minimum_bytes_bounds`, `print` and `to_dict` say what is known.
        """
        return self.find_minimum()

    @property
    def minimum_bytes_bounds(self) -> tuple[int, int]:
        """What is known of `minimum_bytes` without a search, in bytes: (low, high).

        Arguments and results, and the limit that this plan keeps (without a limit, what it takes).
        Both are `minimum_bytes` once that was asked for.
        """
        if self._is_searched:
            return self.minimum_bytes, self.minimum_bytes
        met = self.compiled_bytes if self.limit_bytes is None else self.limit_bytes
        return min(self.fixed_bytes, met), met

    @property
    def _is_searched(self) -> bool:
        return "minimum_bytes" in vars(self)

    @cached_property
    def aliases(self) -> AliasReport:
        """Which values share memory and which are copied, read from the compiled program."""
        return self.find_aliases()

    @cached_property
    def live_ranges(self) -> tuple[LiveRanges, LiveRanges]:
        """What the program stores as written, and as planned: from which step to which."""
        return self.find_live_ranges()

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain numbers, strings, lists and dicts (JSON-able).

        `minimum_bytes` is None until it was asked for: it is not searched for here.
        """
        names = (
            "limit_bytes peak_bytes baseline_peak_bytes compiled_bytes argument_bytes output_bytes"
        ).split()
        result: dict[str, Any] = {name: getattr(self, name) for name in names}
        result["minimum_bytes"] = self.minimum_bytes if self._is_searched else None
        result["minimum_bytes_bounds"] = list(self.minimum_bytes_bounds)
        result["is_search_cut"] = self.is_search_cut
        result["candidates"] = [_plain(row) for row in self.candidates]
        result["devices"] = list(self.devices)
        result["notes"] = list(self.notes)
        result["passes"] = [_plain(row) for row in self.passes]
        result["loops"] = [_plain(row) for row in self.loops]
        result["aliases"] = _plain(self.aliases)
        result["timeline"] = [_plain(entry) for entry in self.timeline]
        return result

    def __str__(self) -> str:
        made = (_memory_lines, _device_lines, _note_lines, _pass_lines, _loop_lines)
        parts = (*(lines(self) for lines in made), self.aliases.lines())
        return "\n".join(line for part in parts for line in part)

    def plot(self, path: str) -> None:
        """Draw the bytes alive over the schedule, as planned and as written, to an image file.

        With the limit, and with your line at each peak.

        Parameters
        ----------
        path : str
            File to write; the ending gives the format (png, svg, pdf).

        Raises
        ------
        ArgumentError
            matplotlib is not installed, or writes no files of this ending.
        OSError
            The file cannot be written.
        """
        peak, written = format_bytes(self.peak_bytes), format_bytes(self.baseline_peak_bytes)
        draw_timeline(
            path,
            f"peak {peak}, as written {written}",
            self._curves(),
            limit=self.limit_bytes,
            compiled=self.compiled_bytes,
        )

    def _curves(self) -> list[Curve]:
        timeline = self.timeline
        planned = Curve(
            "as planned",
            [entry.live_bytes for entry in timeline],
            [(entry.name, entry.source) for entry in timeline],
        )
        written = self.live_ranges[0]
        return [planned, Curve("as written", written.live_bytes, written.steps)]

    def save(
        self, path: str | os.PathLike[str], *, measured: Sequence[tuple[float, int]] = ()
    ) -> None:
        """Write a page about the plan: memory over the schedule, what is alive in it, and why.

        One HTML file with everything inside. It needs no network, and fits light and dark screens.

        Parameters
        ----------
        path : str or path-like
            File to write, ending in .html.
        measured : sequence of (float, int), optional
            Seconds and bytes of a real call, as the compiled function's `sample_memory` returns
            them: drawn beside the plan.

        Raises
        ------
        ArgumentError
            The file's name does not end in .html.
        OSError
            The file cannot be written; what was there before stays.

        Examples
        --------
        >>> import pathlib, tempfile, tracer, tracer.numpy as tnp
        >>> f = tracer.compile(lambda x: tnp.exp(x[:, None] - x).sum(1), memory_limit="1MB")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "plan.html")
        ...     f.plan(tracer.ShapeDtype((4000,), "float32")).save(path)
        ...     "As planned" in path.read_text()
        True
        """
        if Path(path).suffix.lower() not in (".html", ".htm"):
            raise ArgumentError(
                f"plan.save writes pages, and {os.fspath(path)!r} does not end in .html",
                mend="end it in .html; plan.plot writes pictures, plan.to_dict returns numbers",
            )
        whole = Path(path)
        unfinished = whole.with_name(f"{whole.name}.unfinished")
        try:
            unfinished.write_text(page_of(self, measured), encoding="utf-8")
            os.replace(unfinished, whole)
        finally:
            unfinished.unlink(missing_ok=True)

    def _repr_html_(self) -> str:
        """Show the page in a notebook, in a frame of its own."""
        page = html.escape(page_of(self))
        return (
            f'<iframe srcdoc="{page}" title="memory plan" '
            'style="width: 100%; height: 40rem; border: 0"></iframe>'
        )


def timeline_of(graph: Graph, donated: frozenset[int]) -> tuple[TimelineEntry, ...]:
    """Return the predicted bytes alive at each stored value of a graph."""
    return tuple(
        TimelineEntry(moment.node.name, moment.node.source, moment.live_bytes)
        for moment in Liveness(graph, donated).timeline
    )


def _plain(row: Any) -> Any:
    if isinstance(row, Source):
        return {"file": row.file, "line": row.line, "function": row.function}
    if hasattr(row, "__dataclass_fields__"):
        return {name: _plain(getattr(row, name)) for name in row.__dataclass_fields__}
    if isinstance(row, (list, tuple)):
        return [_plain(item) for item in row]
    return row


def _memory_lines(plan: Plan) -> list[str]:
    limit = "none" if plan.limit_bytes is None else format_bytes(plan.limit_bytes)
    rows = [
        ("limit", limit),
        ("predicted peak", format_bytes(plan.peak_bytes)),
        ("  arguments", format_bytes(plan.argument_bytes)),
        ("  results", format_bytes(plan.output_bytes)),
        ("as written", f"{format_bytes(plan.baseline_peak_bytes)} (predicted, without passes)"),
        (
            "compiled",
            f"{format_bytes(plan.compiled_bytes)} (XLA's count plus library scratch)",
        ),
        ("smallest limit", _smallest_limit(plan)),
    ]
    if plan.is_search_cut:
        rows.append(("search", "cut after planning_seconds: candidates were left out"))
    return ["memory", *(f"  {name:<16} {value}" for name, value in rows)]


def _smallest_limit(plan: Plan) -> str:
    low, high = plan.minimum_bytes_bounds
    if low == high:
        return format_bytes(low)
    known = f"between {format_bytes(low)} and {format_bytes(high)}"
    return f"not searched, plan.minimum_bytes does; {known}"


def _device_lines(plan: Plan) -> list[str]:
    if not plan.devices:
        return []
    mesh, *axes = plan.devices
    lines = [f"devices: {mesh}; the bytes above are those of each"]
    lines.extend(f"  spread: {axis}" for axis in axes)
    return lines if axes else [*lines, "  spread: by XLA, from the arguments' shardings"]


def _note_lines(plan: Plan) -> list[str]:
    return [f"note: {note}" for note in plan.notes]


def _pass_lines(plan: Plan) -> list[str]:
    lines = ["passes"]
    lines.append(f"  {'pass':<24} {'peak before':>12} {'after':>12} {'nodes':>11}  {'rewrites':>8}")
    acting = [row for row in plan.passes if row.applied or row.refusals]
    for row in acting:
        before, after = format_bytes(row.peak_bytes_before), format_bytes(row.peak_bytes_after)
        nodes = f"{row.nodes_before}->{row.nodes_after}"
        lines.append(
            f"  {row.name:<24} {before:>12} {after:>12} {nodes:>11}  {len(row.applied):>8}"
        )
        lines.extend(listed("    left alone", row.refusals, "plan.passes"))
    acted = {row.name for row in acting}
    quiet = dict.fromkeys(row.name for row in plan.passes if row.name not in acted)
    if quiet:
        # A name of two words stays on one line.
        names = ", ".join(name.replace(" ", "\N{NO-BREAK SPACE}") for name in quiet)
        wrapped = textwrap.wrap(f"  nothing to do: {names}", 96, subsequent_indent="    ")
        lines.extend(line.replace("\N{NO-BREAK SPACE}", " ") for line in wrapped)
    return lines


def _loop_lines(plan: Plan) -> list[str]:
    lines = ["loops"] if plan.loops else ["loops: none"]
    for number, row in enumerate(plan.loops):
        rest = f" and {row.remainder} more" if row.remainder > 0 else ""
        if row.remainder < 0:
            rest = f", the last begins {-row.remainder} early"
        lines.append(f"  loop {number}: {row.axis}, {row.trips} trips of {row.chunk}{rest}")
        lines.append(
            f"    {format_bytes(row.bytes_before)} in full, {format_bytes(row.bytes_after)} "
            f"a trip; results: {_counted(row.combiners)}; extra flops: {row.extra_flops:,}"
        )
        tensors = (f"{name}  ({source})" if source else name for name, source in row.tensors)
        lines.extend(listed("    not stored", tensors, "plan.loops"))
    return lines


def _counted(names: Sequence[str]) -> str:
    """Return names, each once, with how often it is there."""
    counts = Counter(names).items()
    return ", ".join(name if times == 1 else f"{name} ({times})" for name, times in counts)
