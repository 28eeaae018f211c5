"""The level of each node: how many loops must have finished before it can be computed.

If a head's loop body needs the whole result of another head, it must wait for that head's loop: a
gradient along the reduced axis waits for the loss. If it needs only its own *slice* of that result,
it computes the slice on the spot (`grouping.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tracer.ir import Label, Node, Value, keeps_order
from tracer.optimizer.loops.split.generated import leaves, nodes_read_again
from tracer.optimizer.loops.split.region import Region, Subject
from tracer.optimizer.loops.split.response import Reference, Term

# Chains of small nodes between two heads are followed this far.
_MAXIMUM_CHAIN = 100
_NEVER = 1 << 30
"""Level of a slice that cannot be had: it would need a virtual value whole."""


@dataclass(frozen=True)
class Stream:
    """How a head that runs before its operands exist is corrected.

    Attributes
    ----------
    level : int
        The level of the loop it runs in.
    factors : tuple of Term
        What its sum has to be multiplied by when the references change.
    """

    level: int
    factors: tuple[Term, ...]

    @property
    def references(self) -> dict[Value, Reference]:
        """What replaces each value that is known only later."""
        return {term.reference.value: term.reference for term in self.factors}


FindStream = Callable[["Levels", Node, Label, int], Stream | None]
"""Says how a head of a level can run in a loop of an earlier one."""


class Levels:
    """The levels of all nodes of a graph that holds one region.

    Attributes
    ----------
    start : dict of Node to int
        Level at which a region's node can run in a loop.
    done : dict of Node to int
        Level at which a node's stored result exists: one later than `start` for heads.
    streams : dict of Node to Stream
        Heads that run before their operands exist, as `streaming` may allow.
    references : dict of (level, Value) to Reference
        What replaces values in the loops of a level.
    heads : dict of int to list of Node
        The heads that start at each level.
    """

    def __init__(
        self, subject: Subject, region: Region, find_stream: FindStream | None = None
    ) -> None:
        self.subject = subject
        self.region = region
        self._find_stream = find_stream
        self.streams: dict[Node, Stream] = {}
        self.references: dict[tuple[int, Value], Reference] = {}
        self.heads: dict[int, list[Node]] = {}
        self.start: dict[Node, int] = {}
        self.done: dict[Node, int] = {}
        self._slices: dict[tuple[Node, Label], int] = {}
        self._ordered = 0
        """Level of the last node that keeps its order."""
        self.span = subject.span(region)
        """Positions from the region's first node to its last: nodes before have level 0."""
        for node in subject.graph.nodes[self.span.start : self.span.stop]:
            label = region.heads.get(node, region.virtual.get(node))
            if label is None:
                self._enter(node)
            else:
                self.start[node] = self._emission_level(node, label, 0)
                if 0 < self.start[node] < _NEVER and node in region.heads:
                    self._stream(node, label)
                if node in region.heads:
                    self.heads.setdefault(self.start[node], []).append(node)
                self.done[node] = self._done_after(node)
                self._remember_slices(node)

    def _enter(self, node: Node) -> None:
        level = max([self._done(value) for value in node.operands], default=0)
        if keeps_order(node):
            level = self._ordered = max(level, self._ordered)
        self.start[node] = self.done[node] = level

    def complete(self) -> None:
        """Find the levels of the nodes behind the region, too."""
        for node in self.subject.graph.nodes[self.span.stop :]:
            self._enter(node)

    def _stream(self, head: Node, label: Label) -> None:
        """Let a head run in an earlier loop, if its sum can be corrected."""
        find = self._find_stream
        found = None if find is None else find(self, head, label, self.start[head])
        if found is not None:
            self.streams[head] = found
            self.start[head] = found.level
            for value, reference in found.references.items():
                self.references[found.level, value] = reference

    def _done_after(self, node: Node) -> int:
        level = self.start[node] + (node in self.region.heads)
        stream = self.streams.get(node)
        read = () if stream is None else stream.references
        return max((level, *(self._done(value) for value in read)))

    def _remember_slices(self, node: Node) -> None:
        """Find the levels of all slices of a virtual node now: a long chain then needs no stack."""
        rule = self.subject.rule(node)
        for label in {label for labels in rule.results for label in labels}:
            if self.subject.can_cut(node, label, self.region.length):
                self._slices[node, label] = self._emission_level(node, label, 0)

    def _done(self, value: Value) -> int:
        return self.done.get(value.node, 0)

    def _whole_level(self, value: Value) -> int:
        if not self.is_never_stored(value.node):
            return self._done(value)
        nodes = nodes_read_again(value, self.region)
        return max(map(self._done, leaves(nodes)), default=0) if nodes else _NEVER

    def slice_level(self, value: Value, axis: int, depth: int = 0) -> int:
        """Return the level at which the slice of a value along an axis is available."""
        node = value.node
        if node.op is None:
            return 0
        label = self.subject.rule(node).results[value.index][axis]
        stored = None if self.region.computes_again(node) else self._done(value)
        if not self.subject.can_cut(node, label, self.region.length):
            return _NEVER if stored is None else stored
        if stored == 0:
            return 0
        if depth > _MAXIMUM_CHAIN and stored is not None:
            return stored
        computed = self._slices.get((node, label))
        if computed is None:
            computed = self._slices[node, label] = self._emission_level(node, label, depth + 1)
        return computed if stored is None else min(stored, computed)

    def is_never_stored(self, node: Node) -> bool:
        """Tell whether a node's result is virtual only."""
        return node in self.region.virtual and node not in self.region.heads

    def _emission_level(self, node: Node, label: Label, depth: int) -> int:
        level = 0
        for _, value, axis in self.subject.sliced_operands(node, label):
            if axis is None:
                level = max(level, self._whole_level(value))
            else:
                level = max(level, self.slice_level(value, axis, depth))
        return level

    def is_stored_by(self, value: Value, level: int) -> bool:
        """Tell whether a value exists, whole, before the loops of a level."""
        return self._whole_level(value) <= level

    def is_read(self, node: Node, level: int) -> bool:
        """Tell whether a loop at `level` reads a slice of the stored result, not computing it."""
        if node.op is None:
            return True
        return not self.region.computes_again(node) and self.done.get(node, 0) <= level
