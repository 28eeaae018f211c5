"""Which part of a graph can run slice by slice: regions of virtual values.

A *virtual* value is never stored whole: each loop that needs it computes its slice. A region starts
at one large value and one of its axes, and follows the axis through the axis rules. It goes up to
producers whose operands are small or stored anyway, and down to *heads*, the nodes whose results
leave the loop. A head's result is written slice by slice (parallel axis) or accumulated (reduced
axis).

This extends Algorithm 1 of Artemev et al. 2022 ("Memory Safe Computations with XLA Compiler"): a
region may have any number of heads, generators with several uses are recomputed rather than stored,
and uses in a gradient are ordinary uses.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property

from tracer.ir import AxisRule, Graph, Label, Merge, Node, Value, registry
from tracer.ir.combining import Order
from tracer.ops.rules import whole_axes
from tracer.ops.sink_guard import tests_equality
from tracer.ops.storage import READS

LargeTest = Callable[[Node], bool]


@dataclass(frozen=True)
class Pieces:
    """Nodes that splitting itself wrote into a graph.

    Attributes
    ----------
    folds : set of Node
        Put the slices of a loop together, in place. To cut them once more would copy the whole
        result, so they count as needing every axis whole.
    reads : set of Node
        Cut a slice out of a stored value. They never call for a loop of their own, which would
        begin with other such reads, and so on without end. Nor does what a loop's results begin
        with: the results take over its memory.
    """

    folds: Set[Node] = frozenset()
    reads: Set[Node] = frozenset()


NO_PIECES = Pieces()


class Subject:
    """A graph with what splitting looks up often: users, axis rules.

    Parameters
    ----------
    graph : Graph
    pieces : Pieces
        What earlier splits wrote into it.

    Attributes
    ----------
    taken, lost : set of Node
        The nodes of other regions that are about to be written, and those of them that will not be
        stored.
    """

    def __init__(self, graph: Graph, pieces: Pieces = NO_PIECES) -> None:
        self.graph = graph
        self.pieces = pieces
        self.taken: Set[Node] = frozenset()
        self.lost: Set[Node] = frozenset()
        self.position = {node: i for i, node in enumerate(graph.nodes)}
        # What acts on the world is needed like a result.
        self.outputs = {value.node for value in graph.outputs}
        self.outputs.update(node for node in graph.nodes if node.has_effect)
        self._users: dict[Node, list[tuple[Node, int, int]]] = {}
        self._rules: dict[Node, AxisRule] = {}
        self._steps: dict[tuple[Node, Label], int] = {}
        self._sliced: dict[tuple[Node, Label], list[tuple[int, Value, int | None]]] = {}
        for node in graph.nodes:
            for position, value in enumerate(node.operands):
                self._users.setdefault(value.node, []).append((node, position, value.index))

    def besides(self, region: Region, read: Set[Node]) -> Subject:
        """Return the same graph where one more region is about to be written as loops.

        Its nodes count as needing every axis whole, as what splitting wrote does. `read` are those
        that its bodies read without an edge in the graph: they are needed like results.
        """
        other, new = copy(self), {*region.virtual, *region.heads}
        other.taken, other.outputs = {*self.taken, *new}, {*self.outputs, *read}
        other.lost = {*self.lost, *(region.virtual.keys() - region.heads.keys())}
        other.pieces = replace(self.pieces, folds={*self.pieces.folds, *new})
        other._rules, other._steps, other._sliced = {}, {}, {}
        return other

    @cached_property
    def may_read_again(self) -> bool:
        """Arrays in storage are read, and no floats are tested for equality."""
        reads = any(node.op in READS for node in self.graph.nodes)
        return reads and not tests_equality(self.graph)

    def users(self, node: Node) -> list[tuple[Node, int, int]]:
        """Return (user, operand position, result index) of every use of the node."""
        return self._users.get(node, [])

    def rule(self, node: Node) -> AxisRule:
        """Return the axis rule of a node."""
        found = self._rules.get(node)
        if found is None:
            is_fold = node in self.pieces.folds
            found = whole_axes(node.operand_types, node.types) if is_fold else node.axes
            self._rules[node] = found
        return found

    def steps(self, node: Node, label: Label) -> int:
        """Return into how many slices at most a node can be cut along a label."""
        found = self._steps.get((node, label))
        if found is None:
            rule = self.rule(node)
            found = rule.steps.get(label)
            if found is None:
                found = _axis_size(node, rule, label)
            self._steps[node, label] = found
        return found

    def can_cut(self, node: Node, label: Label, length: int) -> bool:
        """Tell whether slices of a node along a label can be computed one by one in a region.

        A loop of `length` steps takes an equal share of every axis in each of them.
        """
        return self.has_slices(node, label) and self.steps(node, label) % length == 0

    def has_slices(self, node: Node, label: Label) -> bool:
        """Tell whether slices of a node along a label can be computed one by one."""
        return self.rule(node).is_parallel(label) or self.adds_up(node, label)

    def adds_up(self, node: Node, label: Label) -> bool:
        """Tell whether a node adds up a result along an axis that another result has."""
        rule = self.rule(node)
        return label in rule.reduced and any(label in labels for labels in rule.results)

    def span(self, region: Region) -> range:
        """Return the positions from a region's first node to its last."""
        places = [self.position[node] for node in (*region.virtual, *region.heads)]
        return range(min(places), max(places) + 1)

    def label_of(self, value: Value, axis: int) -> Label | None:
        """Return the label of a result's axis; None for an input, which has no rule."""
        if value.node.op is None:
            return None
        return self.rule(value.node).results[value.index][axis]

    def sliced_operands(self, node: Node, label: Label) -> Sequence[tuple[int, Value, int | None]]:
        """Return (position, operand, axis that the label names); None: the operand is whole."""
        found = self._sliced.get((node, label))
        if found is None:
            of_operands = zip(node.operands, self.rule(node).operands, strict=True)
            found = self._sliced[node, label] = [
                (position, value, labels.index(label) if label in labels else None)
                for position, (value, labels) in enumerate(of_operands)
            ]
        return found


def _axis_size(node: Node, rule: AxisRule, label: Label) -> int:
    types = (*node.types, *node.operand_types)
    for labels, type in zip((*rule.results, *rule.operands), types, strict=True):
        if label in labels:
            return type.shape[labels.index(label)]
    raise AssertionError("a label must be in its node's axis rule")


def is_merged(subject: Subject, heads: Mapping[Node, Label]) -> bool:
    """Tell whether the results of trips are merged, as the k largest of slices are."""
    return any(merge_of(subject, head, label) is not None for head, label in heads.items())


def merge_of(subject: Subject, head: Node, label: Label) -> Merge | None:
    """Return the merge of a head that has one for this axis."""
    name = subject.rule(head).reduced.get(label)
    return None if name is None else registry()[name].merge


def order_of(subject: Subject, head: Node, label: Label) -> Order:
    """Return the order in which a head needs its slices."""
    merge = merge_of(subject, head, label)
    return "any" if merge is None else merge.order(**head.params)


@dataclass(eq=False)
class Region:
    """Nodes that share one loop axis.

    Attributes
    ----------
    length : int
        Steps that the loops can take: each takes an equal share of the axis of every node.
    extent : int
        Elements of the longest of these axes.
    virtual : dict of Node to label
        Nodes whose results are not stored, with the label their users slice.
    heads : dict of Node to label
        Nodes whose results leave the loops, with the label that is sliced or reduced.
    summed : set of Node
        Those that are both: sums of theirs leave the loops, slices are not stored.
    kept : dict of Node to Conflict
        Nodes that had to be stored, and the use that asks for it.
    reads_again : callable
        Tells whether bodies compute a node's results from arrays in storage, if they can be.
    taken, lost : set of Node
        Of other regions: see `Subject`.
    found_again : dict of Value to tuple of Node
        What `generated.nodes_read_again` found for the grown region.
    """

    length: int
    extent: int = 0
    virtual: dict[Node, Label] = field(default_factory=dict)
    heads: dict[Node, Label] = field(default_factory=dict)
    summed: set[Node] = field(default_factory=set)
    kept: dict[Node, Conflict] = field(default_factory=dict)
    reads_again: LargeTest = lambda node: False
    taken: Set[Node] = frozenset()
    lost: Set[Node] = frozenset()
    found_again: dict[Value, tuple[Node, ...]] = field(default_factory=dict)

    def computes_again(self, node: Node) -> bool:
        """Tell whether slices of a node's results are computed in each loop that reads them."""
        return node in self.virtual and (node not in self.heads or node in self.summed)

    def saved_bytes(self, stored: Collection[Node]) -> int:
        """Bytes that no longer need storage, of the nodes that XLA would store."""
        return sum(
            type.nbytes
            for node in self.virtual
            if self.computes_again(node) and node in stored
            for type in node.types
        )


class Conflict(Exception):
    """A value cannot be virtual, because `user` needs it whole."""

    def __init__(self, node: Node, user: Node | None, reason: str) -> None:
        place = f" ({user.source})" if user is not None and user.source else ""
        super().__init__(f"{reason}{place}")
        self.node = node
        self.user = user
