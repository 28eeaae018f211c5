"""Spread an axis through loops: each device runs whole loops on its part of a batch.

A loop over time carries a state whose batch axis is parallel in every trip. `Flow` follows the axis
through the program, and everything that runs on parts becomes one computation per device, loops
included. Its results are parts side by side, terms that are joined outside, or whole values that
every device has computed. If the devices do not divide the axis, every device runs the loops once
more for the remainder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set

import numpy as np

from tracer import ops
from tracer.ir import Builder, Graph, Node, ShapeDtype, Value, registry
from tracer.ops.helpers import convert
from tracer.optimizer.loops.split.chunk import SplitSettings
from tracer.optimizer.loops.split.loop import behind
from tracer.optimizer.loops.split.search import largest_bytes
from tracer.optimizer.model.liveness import Liveness
from tracer.optimizer.partition.emit import (
    Handed,
    converted,
    index_dtype,
    joined_parts,
    on_every_device,
    on_parts,
    shares,
    side_by_side,
)
from tracer.optimizer.partition.flow import Cut, Division, Flow, Lie, Partial
from tracer.optimizer.partition.loop_parts import PartEmitter
from tracer.optimizer.partition.view import device_view, input_axes, output_axes
from tracer.optimizer.passes import PassLog


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
    _, value, flow = max(found, key=lambda item: item[0])
    length = flow.division.length
    spread, made = _written(graph, flow)
    if flow.division.remainder and _takes_more(graph, spread, count):
        reason = (
            f"{length} cannot be cut into {count} equal parts, and the results are most of what is "
            "computed along it"
        )
        log.refuse(str(value.type), reason, value.node.source)
        return graph, frozenset()
    through = sum(flow.inside(node) for node in large)
    log.applied.append(
        f"axis of {length} of {value.type}: {shares(length, count)}, through "
        f"{through} loop{'s'[: through > 1]}"
    )
    return spread, made


def _is_large(node: Node, settings: SplitSettings) -> bool:
    return largest_bytes(node) > settings.threshold_bytes


def _flows(
    graph: Graph, count: int, settings: SplitSettings, loops: list[Node]
) -> Iterator[tuple[tuple[bool, int], Value, Flow]]:
    """Yield what follows from each axis of large inputs, and what decides between them.

    First whether the devices divide the axis, then the bytes that are cut.
    """
    for value in graph.inputs:
        if value.type.nbytes <= settings.threshold_bytes:
            continue
        for axis, size in enumerate(value.type.shape):
            if size < count:
                continue
            lies = [Cut(axis) if other is value else None for other in graph.inputs]
            flow = Flow(graph, lies, Division(size, count))
            if any(flow.inside(node) for node in loops):
                cut = sum(v.type.nbytes for v, lie in flow.lies.items() if isinstance(lie, Cut))
                yield (not flow.division.remainder, cut), value, flow


def _takes_more(graph: Graph, spread: Graph, count: int) -> bool:
    """Tell whether a device takes more memory than for the whole program.

    Results along an axis that the devices do not divide are gathered, and joined with the rest.
    """
    view = device_view(spread, input_axes(spread), output_axes(spread), count)
    return Liveness(view).peak_bytes > Liveness(graph).peak_bytes


def _written(graph: Graph, flow: Flow) -> tuple[Graph, frozenset[Node]]:
    mapping: dict[Value, Value] = {}
    before, inside, after = _divided(graph, flow)
    with Builder() as builder:
        for value in graph.inputs:
            mapping[value] = builder.input(value.type, value.node.source)
        _copy(builder, before, mapping)
        start = len(builder.nodes)
        read = {value for node in after for value in node.operands}.union(graph.outputs)
        mapping.update(_emit(builder, flow, inside, read, mapping))
        made = frozenset(builder.nodes[start:])
        _copy(builder, after, mapping)
        return builder.finish([mapping[value] for value in graph.outputs]), made


def _divided(graph: Graph, flow: Flow) -> tuple[list[Node], list[Node], list[Node]]:
    """Return the nodes before what the devices do on their parts, in it, and after it.

    Nodes that depend on whole results of loops come after it, except those that the parts read:
    every device computes these.
    """
    parts = {node for node in graph.nodes if flow.inside(node)}
    hanging: set[Node] = set()
    for node in graph.nodes:
        if node not in parts and any(v.node in parts or v.node in hanging for v in node.operands):
            hanging.add(node)
    inside = set(parts)
    for node in reversed(graph.nodes):
        if node in inside:
            inside.update(value.node for value in node.operands if value.node in hanging)
    after = hanging.union(flow.after) - inside
    return (
        [node for node in graph.nodes if node not in inside and node not in after],
        [node for node in graph.nodes if node in inside],
        [node for node in graph.nodes if node in after],
    )


def _copy(builder: Builder, nodes: Iterable[Node], mapping: dict[Value, Value]) -> None:
    for node in nodes:
        operands = tuple(mapping[value] for value in node.operands)
        mapping.update(zip(node.results, builder.copy(node, operands), strict=True))


def _emit(
    builder: Builder,
    flow: Flow,
    inside: list[Node],
    read: Set[Value],
    mapping: dict[Value, Value],
) -> dict[Value, Value]:
    """Write what the devices do on their parts; returns those results that are read, joined."""
    made = {value for node in inside for value in node.results}
    wanted = {value: lie for value, lie in flow.lies.items() if value in read and value in made}
    count = flow.division.count
    builder.source = inside[0].source
    body, handed = _body(flow, inside, wanted)
    axes = tuple(map(_result_axis, wanted.values()))
    found = on_parts(count, body, handed, mapping.__getitem__, axes)
    joining = [
        (value, lie.combiner if isinstance(lie, Partial) else None) for value, lie in wanted.items()
    ]
    states = joined_parts(builder, found, joining)
    if flow.division.remainder:
        states = _with_rest(builder, flow, inside, wanted, states, mapping)
    return converted(builder, states, wanted)


def _result_axis(lie: Lie) -> int | None:
    """Return the axis along which the devices' results are joined; None: all are the same."""
    if isinstance(lie, Partial):
        return 0
    return None if lie is None else lie.axis


def _with_rest(
    builder: Builder,
    flow: Flow,
    inside: list[Node],
    wanted: Mapping[Value, Lie],
    states: list[Value],
    mapping: dict[Value, Value],
) -> list[Value]:
    """Return the results of the steps that the devices divide, joined with those of the others.

    Every device computes them, as one more device would. Whole results do not depend on the steps:
    they stay as the devices have computed them.
    """
    count = flow.division.count
    last = np.array(count, index_dtype(_extent(flow), count))
    joined = {value: lie for value, lie in wanted.items() if lie is not None}
    if not joined:
        return states

    def write(body: Builder, handed: Handed, given: list[Value]) -> list[Value]:
        number, given = behind(ops.constant(value=last), given)
        emitter = PartEmitter(flow, body, number, handed, is_rest=True)
        for node in inside:
            emitter.emit(node)
        return [
            _joined(body, state, emitter.read(value, lie), value, lie)
            for state, (value, lie) in zip(given, joined.items(), strict=True)
        ]

    known = dict(zip(wanted, states, strict=True))
    given = [known[value] for value in joined]
    found = on_every_device(builder, count, given, mapping.__getitem__, write)
    known.update(zip(joined, found, strict=True))
    return list(known.values())


def _joined(builder: Builder, state: Value, rest: Value, value: Value, lie: Cut | Partial) -> Value:
    """Return the result of all steps, from those of the parts and of what remains."""
    builder.source = value.node.source
    rest = convert(rest, state.dtype)
    if isinstance(lie, Cut):
        return ops.concatenate(state, rest, dimension=lie.axis)  # type: ignore[no-any-return]
    return registry()[lie.combiner](state, rest)  # type: ignore[no-any-return]


def _extent(flow: Flow) -> int:
    return max(size for value in flow.lies for size in (1, *value.type.shape))


def _body(flow: Flow, inside: list[Node], wanted: Mapping[Value, Lie]) -> tuple[Graph, Handed]:
    """Return what one device computes, and what it is given in addition to its number."""
    count = flow.division.count
    with Builder() as body:
        body.source = inside[0].source
        number = body.input(ShapeDtype((1,), index_dtype(_extent(flow), count)))
        handed = Handed(body, count)
        emitter = PartEmitter(flow, body, ops.reshape(number, shape=()), handed)
        for node in inside:
            emitter.emit(node)
        results = []
        for value, lie in wanted.items():
            part = emitter.read(value, lie)
            results.append(side_by_side(part) if isinstance(lie, Partial) else part)
        return body.finish(results), handed
