"""How a graph's values are spread over devices when one input axis is cut, through loops too.

A batch that goes through a loop over time is parallel in every trip. The axis rules say for each
node what happens to a cut axis. Carries of a loop are followed until their cut on entry equals the
cut that the body returns. If a cut axis is summed, the value is spread as partial sums, one per
device, to which more may be added.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tracer import ops
from tracer.ir import AxisRule, Graph, Label, Node, Value, registry


@dataclass(frozen=True)
class Cut:
    """Each device has an equal part along an axis, in order."""

    axis: int


@dataclass(frozen=True)
class Partial:
    """Each device has a term; the op that joins them all gives the value."""

    combiner: str


Lie = Cut | Partial | None
"""None: whole and the same on every device."""


class Refused(Exception):
    """A node cannot run on the parts of its operands."""


@dataclass(frozen=True)
class Division:
    """How the steps of an axis are cut into equal parts, one for each device.

    Where the devices do not divide it, the steps that remain are no part of any.

    Attributes
    ----------
    length : int
        Steps of the axis.
    count : int
        The number of devices.
    """

    length: int
    count: int

    @property
    def remainder(self) -> int:
        """Return the steps that remain."""
        return self.length % self.count

    def takes(self, size: int) -> bool:
        """Tell whether an axis of this size can be cut with it."""
        return size % (self.length if self.remainder else self.count) == 0

    def part(self, size: int) -> int:
        """Return a device's share of an axis of this size."""
        if not self.remainder:
            return size // self.count
        return size // self.length * (self.length // self.count)

    def rest(self, size: int) -> int:
        """Return what remains of an axis of this size."""
        return size - self.count * self.part(size)


class Flow:
    """How the values of a graph are spread, given how its inputs are.

    Attributes
    ----------
    lies : dict of Value to Lie
        Of all values that the devices can compute without data of each other.
    labels : dict of Node to label
        The cut axis of each node that runs on parts, by its axis rule; loops have none.
    loops : dict of Node to (Flow, Flow)
        Of the condition and the body of each loop that runs on parts.
    after : dict of Node to str
        Nodes that need data of several devices, directly or not, and why.
    """

    def __init__(self, graph: Graph, inputs: Sequence[Lie], division: Division) -> None:
        self.graph, self.division = graph, division
        self.lies: dict[Value, Lie] = dict(zip(graph.inputs, inputs, strict=True))
        self.labels: dict[Node, Label] = {}
        self.loops: dict[Node, tuple[Flow, Flow]] = {}
        self.after: dict[Node, str] = {}
        for node in graph.nodes:
            waits = [value.node for value in node.operands if value.node in self.after]
            if waits:
                self.after[node] = self.after[waits[0]]
                continue
            try:
                results = self._results(node)
            except Refused as reason:
                self.after[node] = str(reason)
                continue
            self.lies.update(zip(node.results, results, strict=True))

    def inside(self, node: Node) -> bool:
        """Tell whether a node runs on parts, or makes terms of sums."""
        return node not in self.after and any(self.lies[value] for value in node.results)

    def outputs(self) -> list[Lie]:
        """Return how the outputs are spread.

        Raises
        ------
        Refused
            Something in the graph needs data of several devices.
        """
        if self.after:
            raise Refused(next(iter(self.after.values())))
        return [self.lies[value] for value in self.graph.outputs]

    def _results(self, node: Node) -> Iterable[Lie]:
        lies = [self.lies[value] for value in node.operands]
        if not any(lies):
            return [None] * len(node.results)
        if node.op is ops.while_:
            return self._loop(node, lies)
        partial = {lie for lie in lies if isinstance(lie, Partial)}
        if partial:
            return self._joined(node, partial, lies)
        return self._cut(node, lies)

    def _joined(self, node: Node, partial: set[Partial], lies: Sequence[Lie]) -> list[Lie]:
        """Terms may be joined with further terms by the op that joins the devices' terms."""
        (first, *others) = partial
        cut = any(isinstance(lie, Cut) for lie in lies)
        if others or cut or node.op is not registry()[first.combiner]:
            raise Refused(f"{node.name} needs the whole of what the devices have parts of")
        return [first] * len(node.results)

    def _cut(self, node: Node, lies: Sequence[Lie]) -> list[Lie]:
        rule = node.axes
        cut = zip(rule.operands, lies, strict=True)
        labels = {names[lie.axis] for names, lie in cut if isinstance(lie, Cut)}
        label = labels.pop()
        if labels or label in rule.whole:
            raise Refused(f"{node.name} needs the axis whole")
        if not self.division.takes(steps_of(node, rule, label)):
            raise Refused(f"{node.name} cannot be cut into {self.division.count} equal parts")
        self.labels[node] = label
        combiner = rule.reduced.get(label)
        if combiner is None:
            if not all(label in names for names in rule.results):
                raise Refused(f"a result of {node.name} lacks the axis")
            return [Cut(names.index(label)) for names in rule.results]
        if registry()[combiner].merge is not None:
            raise Refused(f"{node.name} takes its slices one after the other")
        return [Partial(combiner)] * len(node.results)

    def _loop(self, node: Node, lies: list[Lie]) -> list[Lie]:
        """Follow what a loop carries until a trip leaves it as it was."""
        while True:
            body = Flow(node.params["body"], lies, self.division)
            left = [_both(*pair) for pair in zip(lies, body.outputs(), strict=True)]
            if left == lies:
                break
            lies = left
        condition = Flow(node.params["condition"], lies, self.division)
        if any(condition.outputs()):
            raise Refused(f"the condition of {node.name} needs the axis whole")
        self.loops[node] = condition, body
        return lies


def _both(before: Lie, after: Lie) -> Lie:
    """Return how a carried value is spread: what is whole can be cut, or be one device's term."""
    if before is None or before == after:
        return after
    if after is None:
        return before
    raise Refused("a loop carries a value that is spread differently before and after a trip")


def steps_of(node: Node, rule: AxisRule, label: Label) -> int:
    """Return into how many equal blocks a node can be cut along a label at most."""
    if label in rule.steps:
        return rule.steps[label]
    types = (*node.operand_types, *node.types)
    sizes = (
        type.shape[names.index(label)]
        for names, type in zip((*rule.operands, *rule.results), types, strict=True)
        if label in names
    )
    return next(sizes)
