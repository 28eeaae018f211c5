"""In which order the loops of a region run, which heads share one, and what each recomputes.

If a head's loop body needs the whole result of another head, it must wait for that head's loop: a
gradient along the reduced axis waits for the loss. If it needs only its own *slice* of that result,
it computes the slice on the spot. So the row maximum of a softmax, its sum and the product with V
run in one loop over rows, and so do a loss that is a sum over rows and its gradient. Small row-wise
computations between two such heads are absorbed into the loop.

The level of a node counts the loops that must have finished before it can be computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter

from tracer.ir import Label, Node, Value
from tracer.optimizer.loops.split.region import Region, Subject, order_of
from tracer.optimizer.loops.split.response import Reference
from tracer.optimizer.loops.split.streaming import Stream, find_stream
from tracer.optimizer.model.liveness import node_cost

# Chains of small nodes between two heads are followed this far.
_MAXIMUM_CHAIN = 100
_NEVER = 1 << 30
"""Level of a slice that cannot be had: it would need a virtual value whole."""


@dataclass(frozen=True)
class Loop:
    """One loop of a region: heads computed together, and the slices they need.

    `nodes` holds (node, label) pairs in execution order. A backward loop begins with the last
    slice. `streams` says how heads are put right that run before what they read is there.
    """

    level: int
    heads: dict[Node, Label]
    nodes: tuple[tuple[Node, Label], ...]
    is_backward: bool = False
    streams: Mapping[Node, Stream] = field(default_factory=dict)


class Levels:
    """The levels of all nodes of a graph that holds one region.

    Attributes
    ----------
    start : dict of Node to int
        Level at which a region's node can run in a loop.
    done : dict of Node to int
        Level at which a node's stored result is there: one later than `start` for heads.
    streams : dict of Node to Stream
        Heads that run before what they read is there, as `streaming` may allow.
    references : dict of (level, Value) to Reference
        What stands in for values in the loops of a level.
    heads : dict of int to list of Node
        The heads that start at each level.
    """

    def __init__(self, subject: Subject, region: Region, *, streaming: bool) -> None:
        self.subject = subject
        self.region = region
        self.streams: dict[Node, Stream] = {}
        self.references: dict[tuple[int, Value], Reference] = {}
        self.heads: dict[int, list[Node]] = {}
        self.start: dict[Node, int] = {}
        self.done: dict[Node, int] = {}
        self._slices: dict[tuple[Node, Label], int] = {}
        self.span = subject.span(region)
        """Positions from the region's first node to its last: what lies before has level 0."""
        for node in subject.graph.nodes[self.span.start : self.span.stop]:
            label = region.heads.get(node, region.virtual.get(node))
            if label is None:
                self._enter(node)
            else:
                self.start[node] = self._emission_level(node, label, 0)
                if streaming and 0 < self.start[node] < _NEVER and node in region.heads:
                    self._stream(node, label)
                if node in region.heads:
                    self.heads.setdefault(self.start[node], []).append(node)
                self.done[node] = self._done_after(node)
                self._remember_slices(node)

    def _enter(self, node: Node) -> None:
        level = max([self._done(value) for value in node.operands], default=0)
        self.start[node] = self.done[node] = level

    def complete(self) -> None:
        """Find the levels of the nodes behind the region, too."""
        for node in self.subject.graph.nodes[self.span.stop :]:
            self._enter(node)

    def _stream(self, head: Node, label: Label) -> None:
        """Let a head run in an earlier loop, if its sum can be put right."""
        found = find_stream(self, head, label, self.start[head])
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
        return _NEVER if self.is_never_stored(value.node) else self._done(value)

    def slice_level(self, value: Value, axis: int, depth: int = 0) -> int:
        """Return the level at which the slice of a value along an axis can be had."""
        node = value.node
        if node.op is None:
            return 0
        label = self.subject.rule(node).results[value.index][axis]
        stored = None if self.is_never_stored(node) else self._done(value)
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
        """Tell whether a value is there, whole, before the loops of a level."""
        return self._whole_level(value) <= level

    def is_read(self, node: Node, level: int) -> bool:
        """Tell whether a loop at `level` reads a slice of the stored result, not computing it."""
        if node.op is None:
            return True
        return not self.is_never_stored(node) and self.done.get(node, 0) <= level


@dataclass(frozen=True)
class LoopPlan:
    """The loops of a region in order, and the nodes that are still computed `outside` of them.

    These are nodes within the region's span; all others are outside anyway.
    """

    loops: list[Loop]
    levels: Levels
    outside: set[Node]


def plan_loops(subject: Subject, region: Region, *, may_stream: bool = True) -> LoopPlan:
    """Group a region's heads into loops, and drop heads whose results only their loop uses.

    Sums stream along with the maximum they hang on where that saves operations, if that is allowed.
    """
    plain = _group(Levels(subject, region, streaming=False))
    if len(plain.loops) < 2 or not may_stream:
        return plain
    levels = Levels(subject, region, streaming=True)
    if not levels.streams:
        return plain
    streaming = _group(levels)
    return streaming if _flops(streaming.loops) < _flops(plain.loops) else plain


def _flops(loops: list[Loop]) -> int:
    return sum(node_cost(node).flops for loop in loops for node, _ in loop.nodes)


def _group(levels: Levels) -> LoopPlan:
    region = levels.region
    outside: set[Node] = set()
    required = _needed_heads(levels, _read_behind(levels), outside)
    loops: list[Loop] = []
    by_level: dict[int, dict[Node, Label]] = {}
    for head, label in region.heads.items():
        by_level.setdefault(levels.start[head], {})[head] = label
    for level, here in sorted(by_level.items(), key=itemgetter(0), reverse=True):
        # What a streaming head reads may call for more heads of its own loop.
        while True:
            heads = {h: label for h, label in here.items() if h in required}
            new = _group_level(levels, heads, level)
            needed = _needed_heads(levels, new[1], outside)
            if needed <= required:
                break
            required |= needed
        loops += new[0]
    outside |= levels.streams.keys() & required
    return LoopPlan(loops[::-1], levels, outside)


def _group_level(
    levels: Levels, heads: dict[Node, Label], level: int
) -> tuple[list[Loop], set[Node]]:
    """Return the loops of one level, and the nodes whose stored results they need."""
    subject, loops, read = levels.subject, [], set()
    for is_backward, group in _by_direction(subject, heads):
        needed, more = _collect(subject, levels, group, level)
        read |= more
        order = sorted(needed, key=subject.position.__getitem__)
        nodes = tuple((node, mark) for node in order for mark in sorted(needed[node], key=str))
        streams = {head: levels.streams[head] for head in group if head in levels.streams}
        loops.append(Loop(level, group, nodes, is_backward, streams))
    return loops, read


def _by_direction(
    subject: Subject, heads: dict[Node, Label]
) -> Iterator[tuple[bool, dict[Node, Label]]]:
    """Yield heads that can share a loop: with slices from the first one, or from the last."""
    orders = {head: order_of(subject, head, label) for head, label in heads.items()}
    # Heads that do not mind go forward, unless that were a loop for them alone.
    backward = {"backward"} if "forward" in orders.values() else {"backward", "any"}
    if "backward" not in orders.values():
        backward = set()
    for is_backward in (False, True):
        group = {h: label for h, label in heads.items() if (orders[h] in backward) == is_backward}
        if group:
            yield is_backward, group


def _read_behind(levels: Levels) -> list[Node]:
    """Return the nodes within the region's span that are results or read behind it."""
    subject, span = levels.subject, levels.span
    return [
        node
        for node in subject.graph.nodes[span.start : span.stop]
        if node in subject.outputs
        or any(subject.position[user] >= span.stop for user, _, _ in subject.users(node))
    ]


def _needed_heads(levels: Levels, nodes: Iterable[Node], seen: set[Node]) -> set[Node]:
    """Return the heads that some nodes need outside of loops, directly or through others."""
    found: set[Node] = set()
    position, first = levels.subject.position, levels.span.start
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if node in levels.region.heads:
            found.add(node)
        elif node not in seen and position.get(node, -1) >= first:
            seen.add(node)
            stack.extend(value.node for value in node.operands)
    return found


def _collect(
    subject: Subject, levels: Levels, heads: dict[Node, Label], level: int
) -> tuple[dict[Node, set[Label]], set[Node]]:
    """Return the slices that a loop computes, and the nodes whose stored results it reads."""
    needed: dict[Node, set[Label]] = {}
    read: set[Node] = set()
    stack = list(heads.items())
    while stack:
        node, label = stack.pop()
        if label in needed.setdefault(node, set()):
            continue
        needed[node].add(label)
        for _, value, axis in subject.sliced_operands(node, label):
            if axis is None or levels.is_read(value.node, level):
                read.add(value.node)
            else:
                wanted = subject.rule(value.node).results[value.index][axis]
                stack.append((value.node, wanted))
    return needed, read
