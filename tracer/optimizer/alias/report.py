"""What a plan reports on buffer reuse: aliases, updates in place, and copies and how to avoid them.

The rows are data with the user's own names; the caller that compiles fills them in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tracer.errors import Source
from tracer.ir import Graph
from tracer.optimizer.listing import SHOWN, listed
from tracer.optimizer.model.liveness import Liveness
from tracer.optimizer.model.trip_counts import passed_through
from tracer.units import format_bytes


@dataclass(frozen=True)
class AliasRow:
    """A result in the memory of a donated argument."""

    argument: str
    result: str
    type: str
    nbytes: int

    def __str__(self) -> str:
        return f"{self.argument} -> {self.result}: {self.type}, {format_bytes(self.nbytes)}"


@dataclass(frozen=True)
class UnusedRow:
    """A donated argument that no result takes over; its memory is freed after the call."""

    argument: str
    type: str
    nbytes: int
    reason: str

    def __str__(self) -> str:
        return f"{self.argument}: {self.type}, {format_bytes(self.nbytes)}: {self.reason}"


@dataclass(frozen=True)
class UpdateRow:
    """A value that is written over another one, by our model of what XLA shares."""

    value: str
    over: str
    nbytes: int
    in_loop: bool
    source: Source | None

    def __str__(self) -> str:
        place = f"  ({self.source})" if self.source else ""
        loop = ", in a loop" if self.in_loop else ""
        return f"{self.value} over {self.over}, {format_bytes(self.nbytes)}{loop}{place}"


@dataclass(frozen=True)
class CopyRow:
    """An array that the compiled program copies.

    Attributes
    ----------
    what : str
        What is copied and why.
    advice : str
        What avoids it; empty if nothing does.
    nbytes : int
        Bytes of one copy.
    times : int
        How often it is made in a call, as far as the trips of loops are known.
    source : Source or None
        The user's line.
    """

    what: str
    advice: str
    nbytes: int
    times: int
    source: Source | None

    def __str__(self) -> str:
        times = f", {self.times:,} times" if self.times > 1 else ""
        place = f"  ({self.source})" if self.source else ""
        advice = f": {self.advice}" if self.advice else ""
        return f"{self.what}, {format_bytes(self.nbytes)}{times}{advice}{place}"


@dataclass(frozen=True)
class AliasReport:
    """Which values of a program share memory, and which are copied instead.

    Attributes
    ----------
    aliases : tuple of AliasRow
        Donated arguments and the results in their memory, as compiled.
    unused : tuple of UnusedRow
        Donated arguments that no result could take over.
    possible : tuple of AliasRow
        Arguments that are not donated and that results could take over.
    updates : tuple of UpdateRow
        Values that are written over others, the largest first.
    copies : tuple of CopyRow
        What the compiled program copies, the most bytes first.
    """

    aliases: tuple[AliasRow, ...] = ()
    unused: tuple[UnusedRow, ...] = ()
    possible: tuple[AliasRow, ...] = ()
    updates: tuple[UpdateRow, ...] = ()
    copies: tuple[CopyRow, ...] = ()

    @property
    def copied_bytes(self) -> int:
        """Bytes that one call copies."""
        return sum(row.nbytes * row.times for row in self.copies)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> Iterator[str]:
        """Yield the report line by line, the largest rows only."""
        parts = (
            ("donated", self.aliases),
            ("donated in vain", self.unused),
            ("written in place", self.updates),
            ("copied", self.copies),
        )
        is_empty = not self.possible and not any(rows for _, rows in parts)
        yield "aliases: none" if is_empty else "aliases"
        if self.possible:
            total = sum(row.nbytes for row in self.possible)
            names = dict.fromkeys(row.argument.partition("[")[0] for row in self.possible)
            most = ", ".join(list(names)[:SHOWN])
            yield f"  results could take over {format_bytes(total)}: donate {most}"
        for title, rows in parts:
            yield from listed(f"  {title}", rows, "plan.aliases")


def updates_of(graph: Graph, donated: frozenset[int]) -> tuple[UpdateRow, ...]:
    """Return which values are written over others, in bodies too, the largest first."""
    rows = _updates(Liveness(graph, donated), in_loop=False)
    return tuple(sorted(rows, key=lambda row: -row.nbytes))


def _updates(live: Liveness, *, in_loop: bool) -> Iterator[UpdateRow]:
    for buffer in dict.fromkeys(live.buffers.values()):
        for before, after in zip(buffer.values, buffer.values[1:], strict=False):
            node = after.node
            if after.index in passed_through(node):
                continue  # The same value under another name.
            name = f"{after.type} of {node.known_name}"
            over = f"that of {before.node.known_name}"
            yield UpdateRow(name, over, after.type.nbytes, in_loop, node.source)
    for node in live.graph.nodes:
        for body in node.body_graphs:
            inputs = frozenset(range(len(body.inputs)))
            yield from _updates(Liveness(body, inputs, is_body=True), in_loop=True)


__all__ = ["AliasReport", "AliasRow", "CopyRow", "UnusedRow", "UpdateRow", "updates_of"]
