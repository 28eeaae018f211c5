"""What a plan says as JSON, and back: numbers, strings, lists, and rows by their class's name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from tracer.compilation.made import PlanFacts
from tracer.compilation.stored.key import walk
from tracer.errors import ArgumentError, Source, VerifyError
from tracer.ir import Graph, parse_graph, print_graph
from tracer.optimizer.alias.report import UnusedRow
from tracer.optimizer.candidates import CandidateRow
from tracer.optimizer.loops.split import LoopRow
from tracer.optimizer.passes import PassRow, Refusal
from tracer.optimizer.plan import TimelineEntry

_ROWS = {
    row.__name__: row
    for row in (PlanFacts, CandidateRow, PassRow, Refusal, LoopRow, TimelineEntry, UnusedRow)
}
_SOURCE = "Source"


class Sources:
    """The user's lines that a record names, each of them once.

    Parameters
    ----------
    lines : iterable of (str, int, str)
        Those that a record has already.
    known : iterable of Source
        Those of this process. One that reads the same stands for that of the record, which may be
        in a folder that another process had.
    """

    def __init__(
        self, lines: Iterable[Sequence[Any]] = (), known: Iterable[Source | None] = ()
    ) -> None:
        here = {str(source): source for source in {*known} if source is not None}
        read = [Source(*line) for line in lines]
        self._sources = [here.get(str(source), source) for source in read]
        self._places = {source: place for place, source in enumerate(self._sources)}

    @property
    def lines(self) -> list[Source]:
        """The lines, for a record."""
        return self._sources

    def place(self, source: Source | None) -> int | None:
        """Return where a line is in the record."""
        if source is None:
            return None
        if source not in self._places:
            self._places[source] = len(self._sources)
            self._sources.append(source)
        return self._places[source]

    def at(self, place: int | None) -> Source | None:
        """Return the line at a place of the record."""
        return None if place is None else self._sources[place]


def plain(value: Any, sources: Sources) -> Any:
    """Return rows as what JSON has.

    Raises
    ------
    VerifyError
        There is something else among them: a bug of ours.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Source):
        return {_SOURCE: sources.place(value)}
    if isinstance(value, np.integer | np.floating):
        return value.item()
    if isinstance(value, tuple):
        return [plain(item, sources) for item in value]
    name = type(value).__name__
    if name not in _ROWS:
        raise VerifyError(
            f"a plan has {name} in it, which a record cannot hold",
            mend="call tracer.set_cache_dir(None), and report it as a bug",
        )
    return {name: [plain(getattr(value, item.name), sources) for item in fields(value)]}


def restored(value: Any, sources: Sources) -> Any:
    """Return rows from what JSON has."""
    if isinstance(value, list):
        return tuple(restored(item, sources) for item in value)
    if not isinstance(value, dict):
        return value
    ((name, content),) = value.items()
    if name == _SOURCE:
        return sources.at(content)
    return _ROWS[name](*restored(content, sources))


def graph_text(graph: Graph, sources: Sources) -> tuple[str, list[int | None]] | None:
    """Return a graph as text, and the places of its nodes' lines.

    None where the text would not give the same graph again.
    """
    text = print_graph(graph, sources=False)
    try:
        again = parse_graph(text)
    except ArgumentError:
        return None
    if again.fingerprint != graph.fingerprint:
        return None
    return text, [sources.place(node.source) for node in walk(graph)]


def graph_from(text: str, places: Iterable[int | None], sources: Sources) -> Graph:
    """Return a graph from its text, with the user's lines."""
    graph = parse_graph(text)
    for node, place in zip(walk(graph), places, strict=True):
        node.source = sources.at(place)
    return graph


__all__ = ["Sources", "graph_from", "graph_text", "plain", "restored"]
