"""Which part of a graph can run slice by slice: regions of virtual values.

A *virtual* value is never stored whole: each loop that needs it computes the slice it needs. A
region starts at one large value and one of its axes, and follows the axis through the axis rules:
up to producers whose operands are small or stored anyway, down to *heads*, the nodes whose results
leave the loop. A head's result is written slice by slice (a parallel axis) or accumulated (a
reduced one).

This goes beyond Algorithm 1 of Artemev et al. 2022 ("Memory Safe Computations with XLA Compiler"):
a region may have any number of heads, generators with several uses are recomputed rather than
stored, and the uses of a gradient are uses like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from tracer.ir import AxisRule, Graph, Label, Node, Value

LargeTest = Callable[[Node], bool]


class Subject:
    """A graph with what splitting asks of it again and again: users, axis rules."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.position = {node: i for i, node in enumerate(graph.nodes)}
        self.outputs = {value.node for value in graph.outputs}
        self._users: dict[Node, list[tuple[Node, int, int]]] = {}
        self._rules: dict[Node, AxisRule] = {}
        for node in graph.nodes:
            for position, value in enumerate(node.operands):
                self._users.setdefault(value.node, []).append((node, position, value.index))

    def users(self, node: Node) -> list[tuple[Node, int, int]]:
        """Return (user, operand position, result index) of every use of the node."""
        return self._users.get(node, [])

    def rule(self, node: Node) -> AxisRule:
        """Return the axis rule of a node."""
        found = self._rules.get(node)
        if found is None:
            assert node.op is not None
            found = node.op.axes(node.operand_types, node.types, **node.params)
            self._rules[node] = found
        return found

    def label_of(self, value: Value, axis: int) -> Label | None:
        """Return the label of a result's axis; None for an input, which has no rule."""
        if value.node.op is None:
            return None
        return self.rule(value.node).results[value.index][axis]

    def sliced_operands(self, node: Node, label: Label) -> Iterator[tuple[int, Value, int | None]]:
        """Yield (position, operand, axis that the label names); None: the operand is whole."""
        for position, value in enumerate(node.operands):
            labels = self.rule(node).operands[position]
            yield position, value, labels.index(label) if label in labels else None


@dataclass
class Region:
    """Nodes that share one loop axis.

    Attributes
    ----------
    length : int
        Size of the axis.
    virtual : dict of Node to label
        Nodes whose results are not stored, with the label their users slice.
    heads : dict of Node to label
        Nodes whose results leave the loops, with the label that is sliced or reduced.
    """

    length: int
    virtual: dict[Node, Label] = field(default_factory=dict)
    heads: dict[Node, Label] = field(default_factory=dict)

    def saved_bytes(self, stored: Collection[Node]) -> int:
        """Bytes that no longer need storage, of the nodes that XLA would store."""
        return sum(
            type.nbytes
            for node in self.virtual
            if node not in self.heads and node in stored
            for type in node.types
        )


class Conflict(Exception):
    """A value cannot be virtual, because `user` needs it whole."""

    def __init__(self, node: Node, user: Node | None, reason: str) -> None:
        super().__init__(reason)
        self.node = node
        self.user = user
        self.reason = reason


def grow_region(
    subject: Subject, seed: Node, label: Label, is_large: LargeTest
) -> Region | Conflict:
    """Grow the region of one seed along one axis, or say which use forbids it.

    Values that turn out to be needed whole are stored (they become heads) and the region is
    grown again, until nothing changes or the seed itself has to be stored.
    """
    kept: set[Node] = set()
    while True:
        try:
            region = _Growth(subject, is_large, kept).grow(seed, label)
            _check_emission(subject, region)
        except Conflict as conflict:
            if conflict.node is seed or conflict.node in kept:
                return conflict
            kept.add(conflict.node)
            continue
        return region


class _Growth:
    """One attempt at a region, with the nodes that are known to need storage."""

    def __init__(self, subject: Subject, is_large: LargeTest, kept: set[Node]) -> None:
        self.subject = subject
        self.is_large = is_large
        self.stored = kept | subject.outputs
        self.queue: list[tuple[Node, Label, bool]] = []

    def grow(self, seed: Node, label: Label) -> Region:
        self.region = region = Region(_label_size(self.subject.rule(seed), seed, label))
        self.queue.append((seed, label, True))
        while self.queue:
            node, label, is_virtual = self.queue.pop()
            if node in region.virtual or node in region.heads:
                continue
            if is_virtual:
                region.virtual[node] = label
            if not is_virtual or node in self.stored:
                region.heads[node] = label
            self._look_up(node, label)
            if is_virtual and node not in self.stored:
                self._look_down(node, label)
        return region

    def _look_up(self, node: Node, label: Label) -> None:
        """Make large producers of the slice virtual too."""
        for _, value, axis in self.subject.sliced_operands(node, label):
            producer = value.node
            if axis is None or producer.op is None or not self.is_large(producer):
                continue
            rule = self.subject.rule(producer)
            produced = rule.results[value.index][axis]
            if rule.is_parallel(produced):
                self.queue.append((producer, produced, True))

    def _look_down(self, node: Node, label: Label) -> None:
        """Take every use of a virtual node into the region."""
        rule = self.subject.rule(node)
        for user, position, index in self.subject.users(node):
            if label not in rule.results[index]:
                raise Conflict(node, user, f"result {index} of {node.name} lacks the axis")
            used = self.subject.rule(user).operands[position][rule.results[index].index(label)]
            if used in self.subject.rule(user).whole:
                raise Conflict(node, user, f"{user.name} needs the axis whole")
            parallel = self.subject.rule(user).is_parallel(used)
            self.queue.append((user, used, parallel and self.is_large(user)))


def _label_size(rule: AxisRule, node: Node, label: Label) -> int:
    for labels, type in zip(rule.results, node.types, strict=True):
        if label in labels:
            return type.shape[labels.index(label)]
    raise AssertionError("a seed's label stands in its results")


def _check_emission(subject: Subject, region: Region) -> None:
    """Raise `Conflict` where a virtual value is needed whole or cannot be cut as needed."""
    seen: set[tuple[Node, Label]] = set()
    stack = list(region.heads.items())
    while stack:
        node, label = stack.pop()
        if (node, label) in seen:
            continue
        seen.add((node, label))
        for _, value, axis in subject.sliced_operands(node, label):
            producer = value.node
            if producer not in region.virtual or producer in region.heads:
                continue
            if axis is None:
                raise Conflict(producer, node, f"{node.name} needs it whole")
            wanted = subject.rule(producer).results[value.index][axis]
            if not subject.rule(producer).is_parallel(wanted):
                raise Conflict(producer, node, f"{producer.name} cannot be cut along that axis")
            stack.append((producer, wanted))
