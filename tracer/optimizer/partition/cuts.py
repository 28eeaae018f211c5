"""Sharding propagation: along which axes a graph's values are cut, given its inputs and outputs.

It follows Shardy. Axes to which an op's axis rule gives one label share a cut. Cuts go from
operands to results, then back from results to their operands, until nothing changes. If two cuts
meet in one op, the one that shrinks more bytes wins, and the other operand is gathered. A loop
carry has the same cut in all trips. Source: Shardy's propagation
(https://openxla.org/shardy/propagation). Left out: its priorities, and cuts of values that are
shifted along the axis (halos).

One mesh axis is followed at a time, so each value has one cut; `view.device_view` applies them one
after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tracer import ops
from tracer.ir import Graph, Label, Node, Value, registry
from tracer.optimizer.model.trip_counts import carried_operands
from tracer.optimizer.partition.flow import steps_of

Axes = tuple[int | None, ...]

ANYHOW = -1
"""In place of an output's axis: it stays as it is made."""


class Cuts:
    """Along which axis the values of a graph are cut by one axis of a mesh.

    Parameters
    ----------
    graph : Graph
    inputs : sequence of int or None
        The axis of each input; None: whole.
    outputs : sequence of int or None
        How each output is wanted; `ANYHOW` if that is free.
    count : int
        The number of parts.

    Attributes
    ----------
    axes : dict of Value to int
        Of the values that are cut.
    labels : dict of Node to label
        What the op is cut along, by its axis rule.
    carried : dict of Node to list
        The axis of each value that a loop or barrier hands on.
    bodies : dict of Node to tuple of Cuts
        Of each loop's condition and body.
    """

    def __init__(
        self, graph: Graph, inputs: Sequence[int | None], outputs: Sequence[int | None], count: int
    ) -> None:
        self.graph, self.count = graph, count
        self.axes: dict[Value, int] = {}
        self.labels: dict[Node, Label] = {}
        self.carried: dict[Node, list[int | None]] = {}
        self.bodies: dict[Node, tuple[Cuts, Cuts]] = {}
        self.wanted: dict[Value, list[tuple[Node, int]]] = {}
        for node in graph.nodes:
            for position, value in enumerate(node.operands):
                self.wanted.setdefault(value, []).append((node, position))
        while self._sweep(inputs, outputs):
            pass

    def _sweep(self, inputs: Sequence[int | None], outputs: Sequence[int | None]) -> bool:
        """Sweep forward, then back once that finds no more; return whether anything was new."""
        known = self._known()
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self._lay(self.graph.inputs, self.inputs)
        for node in self.graph.nodes:
            self._visit(node, self._from_operands(node))
        if self._known() == known:
            for node in reversed(self.graph.nodes):
                self._visit(node, self._from_readers(node))
        return self._known() != known

    def _known(self) -> int:
        """Count what was decided; nothing is ever taken back."""
        inside = sum(body._known() for pair in self.bodies.values() for body in pair)
        return len(self.axes) + len(self.labels) + inside

    def _lay(self, values: Sequence[Value], axes: Iterable[int | None]) -> None:
        self.axes.update(
            (v, axis) for v, axis in zip(values, axes, strict=True) if axis is not None
        )

    def _visit(self, node: Node, found: Iterator[tuple[int, int]]) -> None:
        """Cut a node as neighbours want: pairs of a position (operands, then results) and axis."""
        if node.op is ops.shard:
            self._lay(node.results, parts_of(node, node.params["result_axes"], self.count))
        elif carried_operands(node):
            self._carry(node, found)
        elif node not in self.labels:
            rule = node.axes
            names = (*rule.operands, *rule.results)
            asked = dict.fromkeys(names[place][axis] for place, axis in found)
            labels = [label for label in asked if self._is_possible(node, label)]
            if labels:
                label = max(labels, key=lambda label: _cut_bytes(node, label))
                self.labels[node] = label
                self._lay(node.results, _places(label, rule.results))

    def _carry(self, node: Node, found: Iterator[tuple[int, int]]) -> None:
        axes = self.carried.setdefault(node, [None] * len(node.results))
        for place, axis in found:
            index = place % len(axes)
            if axes[index] is None and node.types[index].shape[axis] % self.count == 0:
                axes[index] = axis
        if node.op is ops.while_:
            self._enter(node, axes)
        self._lay(node.results, axes)

    def _enter(self, node: Node, axes: list[int | None]) -> None:
        """Follow what a loop carries through a trip, until that says nothing new."""
        condition, body = node.params["condition"], node.params["body"]
        free = [ANYHOW if axis is None else axis for axis in axes]
        if node not in self.bodies:
            self.bodies[node] = (
                Cuts(condition, axes, (None,), self.count),
                Cuts(body, axes, free, self.count),
            )
        test, trip = self.bodies[node]
        test._sweep(axes, (None,))
        trip._sweep(axes, free)
        for index, (before, after) in enumerate(zip(body.inputs, body.outputs, strict=True)):
            if axes[index] is None:
                axes[index] = trip.axes.get(after, next(trip._reads(before), None))

    def _from_operands(self, node: Node) -> Iterator[tuple[int, int]]:
        for place, value in enumerate(node.operands):
            if value in self.axes:
                yield place, self.axes[value]

    def _from_readers(self, node: Node) -> Iterator[tuple[int, int]]:
        for place, value in enumerate(node.results, len(node.operands)):
            for axis in self._reads(value):
                yield place, axis

    def _reads(self, value: Value) -> Iterator[int]:
        """Yield the axes that a value's readers read parts along."""
        for output, axis in zip(self.graph.outputs, self.outputs, strict=True):
            if output is value and axis is not None and axis != ANYHOW:
                yield axis
        for node, position in self.wanted.get(value, ()):
            axis = self.reading(node)[position]
            if axis is not None:
                yield axis

    def reading(self, node: Node) -> Axes:
        """Return the axis along which a node reads each operand in parts."""
        if node.op is ops.shard:
            return parts_of(node, node.params["operand_axes"], self.count)
        if node in self.carried:
            return tuple(self.carried[node])
        if node in self.labels:
            return _places(self.labels[node], node.axes.operands)
        return (None,) * len(node.operands)

    def _is_possible(self, node: Node, label: Label) -> bool:
        assert node.op is not None
        rule = node.axes
        if not node.op.is_partitioned or label in rule.whole:
            return False
        if steps_of(node, rule, label) % self.count:
            return False
        combiner = rule.reduced.get(label)
        if combiner is not None:
            # What merges in an order of its own is gathered, unless it is one reduction.
            return registry()[combiner].merge is None or node.op.fusion == "reduce"
        return all(label in names for names in rule.results)


def parts_of(node: Node, axes: Axes, count: int) -> Axes:
    """Return the axes along which an op for all devices of a mesh is cut by one of its axes."""
    return axes if node.params["count"] % count == 0 else (None,) * len(axes)


def _places(label: Label, rows: Iterable[tuple[Label, ...]]) -> Axes:
    """Return where each operand or result has a label."""
    return tuple(row.index(label) if label in row else None for row in rows)


def _cut_bytes(node: Node, label: Label) -> int:
    """Return the bytes of all operands and results that a label cuts."""
    types, names = (*node.operand_types, *node.types), (*node.axes.operands, *node.axes.results)
    return sum(type.nbytes for type, row in zip(types, names, strict=True) if label in row)
