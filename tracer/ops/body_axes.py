"""Which axes of a body's values belong together, and which are parallel from start to end.

The axis rules of a body's nodes name axes that correspond. Axes that any chain of such names ties
together are one *class*: of a loop also the axes of a carry before and after a step. Slices along
a class can be computed one by one if every node may be cut along it. A loop may add up sums along a
class, as it does for the gradient of a weight: with slices each loop adds up a part.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tracer.ir import AxisRule, Builder, Chunk, Graph, Label, Node, Value, current_builder
from tracer.ops.control import while_
from tracer.ops.rules import as_tuple
from tracer.ops.running_sums import running_sums

Axis = tuple[Value, int]


class BodyAxes:
    """The classes of the axes of a graph's values, and of those in the loops that it holds."""

    def __init__(self, graph: Graph) -> None:
        self._parents: dict[Axis, Axis] = {}
        self._whole: set[Axis] = set()
        self._sums: list[tuple[Node, Axis]] = []
        self._seen: dict[Value, None] = {}
        self._walk(graph)
        self._added: dict[Axis, set[Value]] = {}
        self._forbidden = {self.of(value, axis) for value, axis in self._whole}
        self._forbidden.update(self._unequal())
        self._forbidden.update(self._lost_sums(graph))

    def of(self, value: Value, axis: int) -> Axis:
        """Return what stands for the class of an axis."""
        first = found = value, axis
        while found in self._parents:
            found = self._parents[found]
        if found != first:
            self._parents[first] = found  # A shorter way for the next one.
        return found

    def classes(self, value: Value) -> list[Axis]:
        """Return the class of each axis of a value."""
        return [self.of(value, axis) for axis in range(value.type.ndim)]

    def is_parallel(self, found: Axis) -> bool:
        """Tell whether slices along a class can be computed one by one, but for sums of them."""
        return found not in self._forbidden

    def is_added(self, value: Value, found: Axis) -> bool:
        """Tell whether a result is the sum of what slices along a class give for it."""
        return value in self._added.get(found, ())

    def label_of(self, node: Node, found: Axis) -> Label | None:
        """Return the label of a class in a node's axis rule; None if it has no such axis."""
        for label, places in _places(node, node.axes).items():
            if any(self.of(*place) == found for place in places):
                return label
        return None

    def axis_of(self, value: Value, found: Axis) -> int | None:
        """Return the axis of a value that belongs to a class."""
        classes = self.classes(value)
        return classes.index(found) if found in classes else None

    def _walk(self, graph: Graph) -> None:
        self._note(graph.inputs)
        for node in graph.nodes:
            self._note(node.results)
            if node.op is while_:
                self._tie_loop(node)
            else:
                self._tie_node(node)

    def _note(self, values: Iterable[Value]) -> None:
        self._seen.update(dict.fromkeys(values))

    def _tie_loop(self, node: Node) -> None:
        condition, body = node.params["condition"], node.params["body"]
        rows = (node.operands, node.results, body.inputs, body.outputs, condition.inputs)
        for values in zip(*rows, strict=True):
            for axis in range(values[0].type.ndim):
                self._tie([(value, axis) for value in values])
        self._walk(body)
        self._walk(condition)

    def _tie_node(self, node: Node) -> None:
        rule = node.axes
        for label, places in _places(node, rule).items():
            self._tie(places)
            if rule.reduced.get(label) == "add":
                self._sums.append((node, places[0]))
            elif not rule.is_parallel(label):
                self._whole.add(places[0])

    def _tie(self, places: Sequence[Axis]) -> None:
        first = self.of(*places[0])
        for place in places[1:]:
            other = self.of(*place)
            if other != first:
                self._parents[other] = first

    def _lost_sums(self, graph: Graph) -> set[Axis]:
        """Return classes of which sums are taken for something else than to be added up."""
        reduced: dict[Node, set[Axis]] = {}
        for node, place in self._sums:
            reduced.setdefault(node, set()).add(self.of(*place))
        kept: dict[Node, set[Axis]] = {}
        for loop in (node for node in graph.nodes if node.op is while_):
            for result, terms in running_sums(loop).items():
                classes = set.intersection(*(reduced.get(term, set()) for term in terms))
                # Scaled by what has the axis, a sum is needed whole.
                classes -= set(self.classes(result))
                kept.update((term, classes) for term in terms)
                for found in classes:
                    self._added.setdefault(found, set()).add(result)
        return {one for node, found in reduced.items() for one in found - kept.get(node, set())}

    def _unequal(self) -> set[Axis]:
        """Return classes that name two axes of a value, or axes of different lengths."""
        lengths: dict[Axis, int] = {}
        found: set[Axis] = set()
        for value in self._seen:
            classes = self.classes(value)
            for one, length in zip(classes, value.shape, strict=True):
                if lengths.setdefault(one, length) != length or classes.count(one) > 1:
                    found.add(one)
        return found


def _places(node: Node, rule: AxisRule) -> dict[Label, list[Axis]]:
    """Return the axes of operands and results that each label of a rule names."""
    found: dict[Label, list[Axis]] = {}
    rows = (
        *zip(node.operands, rule.operands, strict=True),
        *zip(node.results, rule.results, strict=True),
    )
    for value, labels in rows:
        for axis, label in enumerate(labels):
            found.setdefault(label, []).append((value, axis))
    return found


class SliceOfBody:
    """Writes the nodes of a body on slices along a class into the builder that is current.

    Parameters
    ----------
    axes : BodyAxes
    found : axis
        The class.
    size : int
        Elements of the slice.
    """

    def __init__(self, axes: BodyAxes, found: Axis, size: int) -> None:
        self.axes, self.found, self.size = axes, found, size

    def emit(self, graph: Graph, operands: Sequence[Value], start: Value) -> list[Value]:
        """Write a graph's nodes; operands that have the axis are slices that begin at `start`."""
        builder = current_builder()
        made = dict(zip(graph.inputs, operands, strict=True))
        for node in graph.nodes:
            builder.source = node.source
            given = tuple(made[value] for value in node.operands)
            results = (
                self._loop(node, given, start)
                if node.op is while_
                else self._node(node, given, start)
            )
            made.update(zip(node.results, results, strict=True))
        return [made[value] for value in graph.outputs]

    def _node(self, node: Node, given: tuple[Value, ...], start: Value) -> Sequence[Value]:
        label = self.axes.label_of(node, self.found)
        if label is None:
            return current_builder().copy(node, given)
        assert node.op is not None
        chunk = Chunk(node.op, label, start, self.size, node.operand_types, node.types, node.axes)
        return as_tuple(node.op.slice(given, chunk, **node.params))

    def _loop(self, node: Node, given: tuple[Value, ...], start: Value) -> Sequence[Value]:
        """Write a loop over slices of its carries; where they begin is one carry more."""
        graphs = {}
        for name in ("condition", "body"):
            graph: Graph = node.params[name]
            with Builder() as inside:
                *carries, first = [inside.input(v.type) for v in (*given, start)]
                found = self.emit(graph, carries, first)
                graphs[name] = inside.finish([*found, first] if name == "body" else found)
        return as_tuple(while_(*given, start, **graphs))[:-1]
