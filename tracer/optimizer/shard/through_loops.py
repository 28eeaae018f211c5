"""Spread an axis through loops: each device runs whole loops on its part of a batch.

A loop over time carries a state whose batch axis is parallel in every trip. `Flow` follows the
axis through the program; all that runs on parts becomes one computation of each device, with its
loops inside. What comes out are parts side by side, or terms that are joined outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np

from tracer import ops
from tracer.ir import Builder, Chunk, Graph, Label, Node, ShapeDtype, Value
from tracer.ops.rules import as_tuple
from tracer.optimizer.passes import PassLog
from tracer.optimizer.shard.emit import Handed, converted, index_dtype, joined_parts, side_by_side
from tracer.optimizer.shard.flow import Cut, Flow, Lie, Partial, steps_of
from tracer.optimizer.split.carry import identity, multiple, slice_starts
from tracer.optimizer.split.chunk import SplitSettings
from tracer.optimizer.split.search import largest_bytes

Resolve = Callable[[Value, int | None], Value]


def spread_loops(
    graph: Graph, count: int, settings: SplitSettings, log: PassLog
) -> tuple[Graph, frozenset[Node]]:
    """Spread the axis of an input that cuts most, if that takes it through large loops.

    Returns
    -------
    Graph
        The graph itself where there is no such loop, or none that can run on parts.
    frozenset of Node
        What was written and is not to be cut again.
    """
    large = [node for node in graph.nodes if ops.while_ is node.op and _is_large(node, settings)]
    found = list(_flows(graph, count, settings, large)) if large else []
    if not found:
        return graph, frozenset()
    _, value, axis, flow = max(found, key=lambda item: item[0])
    size = value.type.shape[axis]
    through = sum(flow.inside(node) for node in large)
    log.applied.append(
        f"axis of {size} of {value.type}: {count} devices, {size // count} on each, through "
        f"{through} loop{'s'[: through > 1]}"
    )
    return _written(graph, flow, count)


def _is_large(node: Node, settings: SplitSettings) -> bool:
    return largest_bytes(node) > settings.threshold_bytes


def _flows(
    graph: Graph, count: int, settings: SplitSettings, loops: list[Node]
) -> Iterator[tuple[int, Value, int, Flow]]:
    """Yield the bytes that are cut, and what they follow from, for each axis of large inputs."""
    for value in graph.inputs:
        if value.type.nbytes <= settings.threshold_bytes:
            continue
        for axis, size in enumerate(value.type.shape):
            if size % count or not size:
                continue
            lies = [Cut(axis) if other is value else None for other in graph.inputs]
            flow = Flow(graph, lies, count)
            if any(flow.inside(node) for node in loops) and not flow.leaves_whole():
                cut = (v.type.nbytes for v, lie in flow.lies.items() if isinstance(lie, Cut))
                yield sum(cut), value, axis, flow


def _written(graph: Graph, flow: Flow, count: int) -> tuple[Graph, frozenset[Node]]:
    mapping: dict[Value, Value] = {}
    inside = [node for node in graph.nodes if flow.inside(node)]
    with Builder() as builder:
        for value in graph.inputs:
            mapping[value] = builder.input(value.type, value.node.source)
        before = (node for node in graph.nodes if node not in flow.after and node not in inside)
        _copy(builder, before, mapping)
        start = len(builder.nodes)
        mapping.update(_emit(builder, graph, flow, inside, count, mapping))
        made = frozenset(builder.nodes[start:])
        _copy(builder, flow.after, mapping)
        return builder.finish([mapping[value] for value in graph.outputs]), made


def _copy(builder: Builder, nodes: Iterable[Node], mapping: dict[Value, Value]) -> None:
    for node in nodes:
        operands = tuple(mapping[value] for value in node.operands)
        mapping.update(zip(node.results, builder.copy(node, operands), strict=True))


def _emit(
    builder: Builder,
    graph: Graph,
    flow: Flow,
    inside: list[Node],
    count: int,
    mapping: dict[Value, Value],
) -> dict[Value, Value]:
    """Write what the devices do on their parts; returns its results, joined."""
    read = {value for node in flow.after for value in node.operands} | set(graph.outputs)
    wanted = {v: lie for v, lie in flow.lies.items() if lie and v in read and v.node.op is not None}
    builder.source = inside[0].source
    body, handed = _body(flow, inside, count, wanted)
    found = ops.shard(
        ops.iota(shape=(count,), dtype=body.inputs[0].dtype, dimension=0),
        *(mapping[value] for value in handed.values),
        body=body,
        count=count,
        operand_axes=(0, *handed.axes),
        result_axes=tuple(lie.axis if isinstance(lie, Cut) else 0 for lie in wanted.values()),
    )
    joining = [
        (value, lie.combiner if isinstance(lie, Partial) else None) for value, lie in wanted.items()
    ]
    return converted(builder, joined_parts(builder, as_tuple(found), joining), wanted)


def _body(
    flow: Flow, inside: list[Node], count: int, wanted: Mapping[Value, Lie]
) -> tuple[Graph, Handed]:
    """Return what one device computes, and what it is given besides its number."""
    extent = max(size for value in flow.lies for size in (1, *value.type.shape))
    with Builder() as body:
        body.source = inside[0].source
        number = body.input(ShapeDtype((1,), index_dtype(extent, count)))
        handed = Handed(body, count)
        emitter = PartEmitter(flow, body, ops.reshape(number, shape=()), handed)
        for node in inside:
            emitter.emit(node)
        results = []
        for value, lie in wanted.items():
            part = emitter.read(value, lie)
            results.append(side_by_side(part) if isinstance(lie, Partial) else part)
        return body.finish(results), handed


class PartEmitter:
    """Writes what one device computes into a builder: nodes on its parts.

    Parameters
    ----------
    flow : Flow
        How the values of the graph lie.
    builder : Builder
    number : Value
        The device's number, a scalar.
    outer : callable, optional
        Gives a value of outside, whole or its part along an axis; None inside of a loop, which is
        given all it reads in `made`.
    """

    def __init__(
        self, flow: Flow, builder: Builder, number: Value, outer: Resolve | None = None
    ) -> None:
        self.flow, self.builder, self.number, self.outer = flow, builder, number, outer
        self.made: dict[tuple[Value, Lie], Value] = {}

    def emit(self, node: Node) -> None:
        """Write a node as it lies."""
        self.builder.source = node.source
        lies = [self.flow.lies[value] for value in node.results]
        if node in self.flow.loops:
            results = self._loop(node)
        elif node in self.flow.labels:
            results = self._sliced(node, self.flow.labels[node])
        else:
            # Whole, or terms that are joined: as it is, on operands that lie as the results do.
            results = self.builder.copy(node, tuple(self.read(v, lies[0]) for v in node.operands))
        for value, lie, made in zip(node.results, lies, results, strict=True):
            self.made[value, lie] = made

    def read(self, value: Value, lie: Lie) -> Value:
        """Return a value as it is to lie; what is whole may be cut, or be the first one's term."""
        key = value, lie
        if key not in self.made:
            self.made[key] = self._other(value, lie)
        return self.made[key]

    def _other(self, value: Value, lie: Lie) -> Value:
        node = value.node
        if isinstance(lie, Partial):
            whole = self.read(value, None)
            first = ops.compare(
                self.number, ops.constant(value=np.zeros((), self.number.dtype)), direction="EQ"
            )
            chosen = ops.broadcast_in_dim(first, shape=whole.shape, dimensions=())
            return ops.select(chosen, whole, identity(lie.combiner, whole.type))  # type: ignore[no-any-return]
        if lie is None:
            assert self.outer is not None, "a loop is given all that it reads"
            return self.outer(value, None)
        generated = node.op is not None and all(not type.ndim for type in node.operand_types)
        if generated and node.axes.is_parallel(label := node.axes.results[value.index][lie.axis]):
            # Never stored whole.
            return self._sliced(node, label)[value.index]
        if self.outer is not None:
            return self.outer(value, lie.axis)
        size = value.type.shape[lie.axis] // self.flow.count
        start = slice_starts(multiple(self.number, size), value, lie.axis)
        sizes = value.type.resized(lie.axis, size).shape
        return ops.dynamic_slice(self.read(value, None), *start, sizes=sizes)  # type: ignore[no-any-return]

    def _sliced(self, node: Node, label: Label) -> tuple[Value, ...]:
        """Write an op on this device's slice along a label."""
        assert node.op is not None
        rule = node.axes
        size = steps_of(node, rule, label) // self.flow.count
        start = multiple(self.number, size)
        chunk = Chunk(node.op, label, start, size, node.operand_types, node.types, rule)
        operands = tuple(
            self.read(value, Cut(names.index(label)) if label in names else None)
            for value, names in zip(node.operands, rule.operands, strict=True)
        )
        return as_tuple(node.op.slice(operands, chunk, **node.params))

    def _loop(self, node: Node) -> tuple[Value, ...]:
        """Write a loop that carries parts, and the device's number."""
        condition, body = self.flow.loops[node]
        lies = [self.flow.lies[value] for value in node.results]
        operands = [self.read(v, lie) for v, lie in zip(node.operands, lies, strict=True)]
        results = ops.while_(
            self.number,
            *operands,
            condition=_carried(condition, lies, self.number.type, [None], keeps_number=False),
            body=_carried(body, lies, self.number.type, lies, keeps_number=True),
        )
        return tuple(results[1:])


def _carried(
    flow: Flow, lies: list[Lie], number_type: ShapeDtype, outputs: list[Lie], *, keeps_number: bool
) -> Graph:
    """Return a loop's condition or body for parts; its first input is the device's number."""
    with Builder() as builder:
        number = builder.input(number_type)
        emitter = PartEmitter(flow, builder, number)
        for value, lie in zip(flow.graph.inputs, lies, strict=True):
            type = value.type
            if isinstance(lie, Cut):
                type = type.resized(lie.axis, type.shape[lie.axis] // flow.count)
            emitter.made[value, lie] = builder.input(type, value.node.source)
        for node in flow.graph.nodes:
            emitter.emit(node)
        found = [emitter.read(v, lie) for v, lie in zip(flow.graph.outputs, outputs, strict=True)]
        return builder.finish([*([number] if keeps_number else []), *found])
