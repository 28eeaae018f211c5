"""In which order the loops of a region run, which heads share one, and what each recomputes.

A head whose loop body needs, whole, what another head computes must wait for that head's loop: a
gradient along the reduced axis waits for the loss. But a body that needs only its own *slice* of
another head's result can compute it on the spot: the row maximum of a softmax, its sum and the
product with V run in one loop over rows, and so do a loss that is a sum over rows and its
gradient. Small row-wise computations between two such heads are absorbed into the loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter

from tracer.ir import Label, Node
from tracer.optimizer.loops.split.generated import leaves, nodes_read_again
from tracer.optimizer.loops.split.levels import Levels, Stream
from tracer.optimizer.loops.split.region import Region, Subject, order_of
from tracer.optimizer.loops.split.streaming import find_stream
from tracer.optimizer.model.liveness import node_cost


@dataclass(frozen=True)
class Loop:
    """One loop of a region: heads computed together, and the slices they need.

    `nodes` holds (node, label) pairs in execution order. A backward loop begins with the last
    slice. `streams` says how heads are corrected that run before their operands exist.
    """

    level: int
    heads: dict[Node, Label]
    nodes: tuple[tuple[Node, Label], ...]
    is_backward: bool = False
    streams: Mapping[Node, Stream] = field(default_factory=dict)


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

    Where it is allowed and saves operations, sums stream along with the maximum they depend on.
    """
    plain = _group(Levels(subject, region))
    if len(plain.loops) < 2 or not may_stream:
        return plain
    levels = Levels(subject, region, find_stream)
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
            again = nodes_read_again(value, levels.region) if axis is None else ()
            if again:
                read.update(leaf.node for leaf in leaves(again))
            elif axis is None or levels.is_read(value.node, level):
                read.add(value.node)
            else:
                wanted = subject.rule(value.node).results[value.index][axis]
                stack.append((value.node, wanted))
    return needed, read
