"""A sharded program as seen by one device: the cuts of its inputs and results, and its graph."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set

import numpy as np

from tracer import ops
from tracer.ir import Builder, Chunk, Graph, Label, Node, Value, registry
from tracer.ops.helpers import convert
from tracer.ops.rules import as_tuple
from tracer.optimizer.partition.cuts import ANYHOW, Axes, Cuts, parts_of
from tracer.optimizer.partition.emit import side_by_side
from tracer.optimizer.partition.flow import steps_of


def input_axes(graph: Graph) -> Axes:
    """Return the axis that each input is best cut along; None: it is whole on every device.

    An input is cut where the devices read their own parts of it, or of what is computed from it
    along the axis, and none reads all of it.
    """
    return tuple(map(_only, wanted_axes(graph, {})))


def wanted_axes(graph: Graph, pairs: Mapping[int, int]) -> tuple[Set[int | None], ...]:
    """Return the axes that the devices read parts of each input along; None: they read all.

    An input that is also an output is not read for that if `pairs` spread both alike.
    """
    same = {i for i, j in pairs.items() if graph.outputs[i] is graph.inputs[j]}
    wanted: dict[Value, set[int | None]] = {}
    for position, value in enumerate(graph.outputs):
        if value.node.op is not ops.shard and position not in same:
            wanted.setdefault(value, set()).add(None)
    for node in reversed(graph.nodes):
        if node.op is ops.shard:
            for value, axis in zip(node.operands, node.params["operand_axes"], strict=True):
                wanted.setdefault(value, set()).add(axis)
            continue
        for result in node.results:
            for axis in wanted.get(result, ()):
                _hand_up(node, result, axis, wanted)
    return tuple(wanted.get(value, set()) for value in graph.inputs)


def _hand_up(
    node: Node, result: Value, axis: int | None, wanted: dict[Value, set[int | None]]
) -> None:
    """Ask the operands for what one axis of a result is computed from."""
    rule = node.axes
    label = None if axis is None else rule.results[result.index][axis]
    is_cut = label is not None and rule.is_parallel(label) and label not in rule.steps
    for value, labels in zip(node.operands, rule.operands, strict=True):
        from_axis = labels.index(label) if is_cut and label in labels else None
        wanted.setdefault(value, set()).add(from_axis)


def _only(axes: Set[int | None]) -> int | None:
    return next(iter(axes)) if len(axes) == 1 else None


def alike_axes(graph: Graph, pairs: Mapping[int, int]) -> tuple[Axes, Axes]:
    """Return the axes of inputs and outputs, with outputs that return as inputs cut like these.

    An output takes the axis of its input: it moves once at the end of the program, or would at the
    beginning of the next call. An input that some devices read whole and others, for the output,
    in parts along the output's axis is cut, too: it is gathered inside, and stored in parts.

    Parameters
    ----------
    graph : Graph
    pairs : mapping of int to int
        Outputs, and the inputs of the same type that they are given back as in the next call.
    """
    wanted = wanted_axes(graph, pairs)
    inputs, outputs = [_only(axes) for axes in wanted], list(output_axes(graph))
    for output, argument in pairs.items():
        if inputs[argument] is None and outputs[output] in wanted[argument]:
            inputs[argument] = outputs[output]
        if inputs[argument] is not None:
            outputs[output] = inputs[argument]
    return tuple(inputs), tuple(outputs)


def output_axes(graph: Graph) -> Axes:
    """Return the axis that each output is cut along as the devices make it; None: it is whole."""
    return tuple(_made_along(value) for value in graph.outputs)


def _made_along(value: Value) -> int | None:
    if value.node.op is not ops.shard:
        return None
    axes: Axes = value.node.params["result_axes"]
    return axes[value.index]


def device_view(graph: Graph, inputs: Axes, outputs: Axes, count: int) -> Graph:
    """Return what one device computes and stores, to predict its memory.

    Parts are of their own size; where a part is needed whole, as many copies represent what the
    other devices send. For a mesh of several axes the view is taken along one after the other.

    Parameters
    ----------
    graph : Graph
    inputs, outputs : tuple of int or None
        The axis that each is cut along; None: it is whole. Outputs may also be `ANYHOW`.
    count : int
        The number of devices.
    """
    return _part(Cuts(graph, inputs, outputs, count))


def _part(cuts: Cuts) -> Graph:
    """Return one device's part of a graph."""
    with Builder() as builder:
        view = _View(builder, cuts)
        for value, axis in zip(cuts.graph.inputs, cuts.inputs, strict=True):
            type = value.type
            if axis is not None:
                type = type.resized(axis, type.shape[axis] // cuts.count)
            view.put(value, axis, builder.input(type, value.node.source))
        for node in cuts.graph.nodes:
            builder.source = node.source
            view.emit(node)
        results = [
            view.read(value, cuts.axes.get(value) if axis == ANYHOW else axis)
            for value, axis in zip(cuts.graph.outputs, cuts.outputs, strict=True)
        ]
        return builder.finish(results)


class _View:
    """Writes one device's part of nodes.

    Parameters
    ----------
    builder : Builder
    cuts : Cuts
    """

    def __init__(self, builder: Builder, cuts: Cuts) -> None:
        self.builder, self.cuts, self.count = builder, cuts, cuts.count
        self.known: dict[Value, int | None] = {}
        self.made: dict[tuple[Value, int | None], Value] = {}

    def put(self, value: Value, axis: int | None, made: Value) -> None:
        """Say what replaces a value, and along which axis that is a part of it."""
        self.known[value], self.made[value, axis] = axis, made

    def read(self, value: Value, wanted: int | None) -> Value:
        """Return a value cut as it is wanted: gathered from all devices, or a part of it taken."""
        axis = self.known[value]
        if (value, wanted) not in self.made:
            if axis is None:
                self.made[value, wanted] = self._cut(self.made[value, None], wanted)
            elif wanted is None:
                self.made[value, None] = self._gathered(self.made[value, axis], axis)
            else:
                self.made[value, wanted] = self._cut(self.read(value, None), wanted)
        return self.made[value, wanted]

    def _gathered(self, part: Value, axis: int) -> Value:
        """Return the parts of all devices, stored as they arrive: one behind the other."""
        if math.prod(part.shape[:axis]) == 1:
            return _stored(ops.concatenate(*[part] * self.count, dimension=axis))
        order = (axis, *(other for other in range(len(part.shape)) if other != axis))
        outside = ops.transpose(part, permutation=order)
        arrived = _stored(ops.concatenate(*[outside] * self.count, dimension=0))
        back = tuple(map(order.index, range(len(order))))
        return ops.transpose(arrived, permutation=back)  # type: ignore[no-any-return]

    def _cut(self, whole: Value, axis: int | None) -> Value:
        assert axis is not None
        limit = list(whole.shape)
        limit[axis] //= self.count
        part: Value = ops.slice(
            whole, start=(0,) * len(limit), limit=tuple(limit), strides=(1,) * len(limit)
        )
        return part

    def emit(self, node: Node) -> None:
        """Write a node's part."""
        operands = tuple(map(self.read, node.operands, self.cuts.reading(node)))
        if node.op is ops.shard:
            found, axes = self._shard(node, operands)
        elif node in self.cuts.carried:
            found, axes = self._carry(node, operands)
        elif node in self.cuts.labels:
            found, axes = self._sliced(node, operands, self.cuts.labels[node])
        else:
            found, axes = self.builder.copy(node, operands), (None,) * len(node.results)
        for value, axis, made in zip(node.results, axes, found, strict=True):
            self.put(value, axis, made)

    def _shard(self, node: Node, operands: Sequence[Value]) -> tuple[Sequence[Value], Axes]:
        """Write the body of an op for all devices, or that op for those of one place in a mesh."""
        params = node.params
        axes = parts_of(node, params["result_axes"], self.count)
        if params["count"] == self.count:
            return self.builder.inline(params["body"], operands), axes
        if params["count"] % self.count:
            return self.builder.copy(node, tuple(operands)), axes
        fewer = {**params, "count": params["count"] // self.count}
        return as_tuple(ops.shard(*operands, **fewer)), axes

    def _carry(self, node: Node, operands: Sequence[Value]) -> tuple[Sequence[Value], Axes]:
        assert node.op is not None
        params = dict(node.params)
        if node in self.cuts.bodies:
            condition, body = self.cuts.bodies[node]
            params |= {"condition": _part(condition), "body": _part(body)}
        return as_tuple(node.op(*operands, **params)), tuple(self.cuts.carried[node])

    def _sliced(
        self, node: Node, operands: Sequence[Value], label: Label
    ) -> tuple[Sequence[Value], Axes]:
        assert node.op is not None
        rule = node.axes
        size = steps_of(node, rule, label) // self.count
        start = ops.constant(value=np.zeros((), np.int32))
        chunk = Chunk(node.op, label, start, size, node.operand_types, node.types, rule)
        found = as_tuple(node.op.slice(tuple(operands), chunk, **node.params))
        combiner = rule.reduced.get(label)
        if combiner is not None:
            return [self._joined(part, combiner) for part in found], (None,) * len(found)
        return found, tuple(names.index(label) for names in rule.results)

    def _joined(self, term: Value, combiner: str) -> Value:
        """Return the sum of the terms of all devices, in its own memory."""
        if registry()[combiner].merge is not None:
            return term
        terms = ops.concatenate(*[side_by_side(term)] * self.count, dimension=0)
        return convert(registry()[f"reduce_{combiner}"](terms, axes=(0,)), term.dtype)


def _stored(value: Value) -> Value:
    (stored,) = as_tuple(ops.optimization_barrier(value))
    return stored  # type: ignore[no-any-return]
