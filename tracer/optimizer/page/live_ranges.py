"""What a program stores, from which step of its schedule to which."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from tracer.errors import Source
from tracer.ir import Graph, Value
from tracer.optimizer.model.buffers import Buffer
from tracer.optimizer.model.liveness import Liveness
from tracer.optimizer.model.peak_values import UsersWords, held, values_in_body


@dataclass(frozen=True)
class LiveRange:
    """A stored value.

    Attributes
    ----------
    name : str
        Its type, and what computes it on the user's line.
    kind : str
        "argument", "result", "temporary", or "in the loop" for what a loop or a branch stores
        itself.
    nbytes : int
    first, last : int
        The steps of the schedule between which it is alive, both included.
    source : Source or None
        The user's line.
    """

    name: str
    kind: str
    nbytes: int
    first: int
    last: int
    source: Source | None


@dataclass(frozen=True)
class LiveRanges:
    """A program's schedule, and what is alive in it.

    Attributes
    ----------
    steps : tuple of (str, Source or None)
        The op of each step that stores something, and its line.
    live_bytes : tuple of int
        Bytes alive at each step: stored values, and what a step's own kernel allocates.
    ranges : tuple of LiveRange
        The largest first.
    """

    steps: tuple[tuple[str, Source | None], ...]
    live_bytes: tuple[int, ...]
    ranges: tuple[LiveRange, ...]


def live_ranges(graph: Graph, traced: Graph, donated: frozenset[int]) -> LiveRanges:
    """Return what a program stores, in the user's words.

    Parameters
    ----------
    graph : Graph
        The program, as planned or as written.
    traced : Graph
        The program as the user wrote it.
    donated : frozenset of int
        Inputs whose memory may be written over.
    """
    live = Liveness(graph, donated)
    words = UsersWords(traced)
    moments = live.timeline
    found = [*_buffers(live, words), *_in_bodies(live, words)]
    return LiveRanges(
        tuple((moment.node.name, moment.node.source) for moment in moments),
        tuple(moment.live_bytes for moment in moments),
        tuple(sorted(found, key=lambda row: -row.nbytes)),
    )


def _buffers(live: Liveness, words: UsersWords) -> Iterator[LiveRange]:
    places = [live.position[moment.node] for moment in live.timeline]
    if not places:
        return
    end = len(live.graph.nodes)
    for buffer in dict.fromkeys(live.buffers.values()):
        first = bisect_left(places, buffer.birth)
        last = bisect_right(places, buffer.death) - 1
        if first <= last:
            yield _row(_first_value(buffer, live), words, _kind(buffer, end), first, last)


def _first_value(buffer: Buffer, live: Liveness) -> Value:
    if buffer.is_argument:
        return buffer.values[0]
    return held(buffer, live.position, buffer.birth)


def _kind(buffer: Buffer, end: int) -> str:
    if buffer.is_argument:
        return "argument"
    return "result" if buffer.death >= end else "temporary"


def _row(value: Value, words: UsersWords, kind: str, first: int, last: int) -> LiveRange:
    found = words.of(value)
    op = found.op if found.op is not None else value.node.name
    is_input = value.node.op is None
    name = str(value.type) if is_input else f"{value.type} of {op}"
    return LiveRange(name, kind, value.type.nbytes, first, last, found.source)


def _in_bodies(live: Liveness, words: UsersWords) -> Iterator[LiveRange]:
    for step, moment in enumerate(live.timeline):
        for value in values_in_body(live, moment.node):
            yield _row(value, words, "in the loop", step, step)


__all__ = ["LiveRange", "LiveRanges", "live_ranges"]
