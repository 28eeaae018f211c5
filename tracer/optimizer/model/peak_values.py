"""What is alive together at a program's peak, in the words of the program as the user wrote it.

Passes make loops, slices and barriers that nobody wrote. Their nodes carry the user's lines, so a
value is named by what the traced program computes on its line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tracer.errors import Source
from tracer.ir import Graph, Node, ShapeDtype, Value
from tracer.optimizer.model.buffers import Buffer
from tracer.optimizer.model.liveness import Liveness, Moment
from tracer.optimizer.model.trip_counts import passed_through
from tracer.units import format_bytes


@dataclass(frozen=True)
class PeakValue:
    """A stored value that is alive at the peak.

    Attributes
    ----------
    type : ShapeDtype
    op : str or None
        What computes it on the user's line; None if nothing there has a result of this type.
    source : Source or None
        The user's line.
    """

    type: ShapeDtype
    op: str | None
    source: Source | None

    @property
    def nbytes(self) -> int:
        """Its bytes."""
        return self.type.nbytes

    @property
    def name(self) -> str:
        """Type, op and bytes."""
        made = "" if self.op is None else f" of {self.op}"
        return f"{self.type}{made}, {format_bytes(self.nbytes)}"

    def __str__(self) -> str:
        return f"{self.name}  ({self.source})" if self.source else self.name


def peak_values(live: Liveness, traced: Graph) -> tuple[PeakValue, ...]:
    """Return what is alive at the peak of a planned program, the largest first.

    Arguments are left out. What the loop that runs at the peak stores is part of it.

    Parameters
    ----------
    live : Liveness
        Of the planned program.
    traced : Graph
        The program as the user wrote it.
    """
    moment = live.peak_moment
    if moment is None:
        return ()
    words = UsersWords(traced)
    found = [words.of(value) for value in values_at(live, moment)]
    return tuple(sorted(found, key=lambda row: -row.nbytes))


class UsersWords:
    """Says what a value of a planned program is in the traced one.

    Parameters
    ----------
    traced : Graph
        The program as the user wrote it.
    """

    def __init__(self, traced: Graph) -> None:
        self._ops: dict[tuple[Source | None, ShapeDtype], list[str]] = {}
        for source, type, name in _written(traced):
            self._ops.setdefault((source, type), []).append(name)

    def of(self, value: Value) -> PeakValue:
        """Return the type, the op and the line of a value."""
        made = _maker(value, self._ops)
        source = made.node.source
        there = self._ops.get((source, value.type), [])
        own = (made.node.known_name, *(v.node.known_name for v in made.node.operands))
        op = next((name for name in (*own, *there) if name in there), None)
        return PeakValue(value.type, op, source)


def _written(graph: Graph) -> Iterator[tuple[Source | None, ShapeDtype, str]]:
    for node in graph.nodes:
        for type in node.types:
            yield node.source, type, node.known_name
        for body in node.body_graphs:
            yield from _written(body)


def values_at(live: Liveness, moment: Moment) -> Iterator[Value]:
    """Yield the value that each computed buffer holds at a moment, in a running loop too."""
    now = live.position[moment.node]
    for buffer in dict.fromkeys(live.buffers.values()):
        if not buffer.is_argument and buffer.birth <= now <= buffer.death:
            yield held(buffer, live.position, now)
    yield from values_in_body(live, moment.node)


def values_in_body(live: Liveness, node: Node) -> Iterator[Value]:
    """Yield what a loop or a branch stores itself at its peak."""
    bodies = [_body(body, live) for body in node.body_graphs]
    if bodies:
        largest = max(bodies, key=lambda body: body.peak_bytes)
        if largest.peak_moment is not None:
            yield from values_at(largest, largest.peak_moment)


def held(buffer: Buffer, position: Mapping[Node, int], now: int) -> Value:
    """Return what a buffer holds at a step; what is written next if that is only a fill."""
    written = [value for value in buffer.values if position[value.node] <= now]
    is_fill = all(operand.type.size == 1 for operand in written[-1].node.operands)
    later = buffer.values[len(written) :]
    return later[0] if is_fill and later else written[-1]


def _body(body: Graph, live: Liveness) -> Liveness:
    donated = frozenset(range(len(body.inputs)))
    return Liveness(body, donated, is_body=True, order=live.order)


def _maker(value: Value, written: dict[tuple[Source | None, ShapeDtype], list[str]]) -> Value:
    """Return what computes a value: behind barriers, in loops that the user did not write."""
    while True:
        node = value.node
        if value.index in passed_through(node):
            value = node.operands[value.index]
        elif node.body_graphs and node.name not in written.get((node.source, value.type), ()):
            inside = node.body_graphs[-1].outputs[value.index]
            if inside.node.op is None:
                return value
            value = inside
        else:
            return value


__all__ = ["PeakValue", "UsersWords", "held", "peak_values", "values_in_body"]
