"""What a sharded program is for one device: how its inputs and results lie, and its own graph."""

from __future__ import annotations

from collections.abc import Sequence

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value

Axes = tuple[int | None, ...]


def input_axes(graph: Graph) -> Axes:
    """Return the axis that each input is best cut along; None: it is whole on every device.

    An input is cut where the devices read their own parts of it, or of what is computed from it
    along the axis, and none reads all of it.
    """
    wanted: dict[Value, set[int | None]] = {}
    for value in graph.outputs:
        if value.node.op is not ops.shard:
            wanted.setdefault(value, set()).add(None)
    for node in reversed(graph.nodes):
        if node.op is ops.shard:
            for value, axis in zip(node.operands, node.params["operand_axes"], strict=True):
                wanted.setdefault(value, set()).add(axis)
            continue
        for result in node.results:
            for axis in wanted.get(result, ()):
                _hand_up(node, result, axis, wanted)
    return tuple(_only(wanted.get(value, set())) for value in graph.inputs)


def _hand_up(
    node: Node, result: Value, axis: int | None, wanted: dict[Value, set[int | None]]
) -> None:
    """Want of the operands what one axis of a result is computed from."""
    rule = node.axes
    label = None if axis is None else rule.results[result.index][axis]
    is_cut = label is not None and rule.is_parallel(label) and label not in rule.steps
    for value, labels in zip(node.operands, rule.operands, strict=True):
        from_axis = labels.index(label) if is_cut and label in labels else None
        wanted.setdefault(value, set()).add(from_axis)


def _only(axes: set[int | None]) -> int | None:
    return next(iter(axes)) if len(axes) == 1 else None


def output_axes(graph: Graph) -> Axes:
    """Return the axis that each output is cut along as the devices make it; None: it is whole."""
    return tuple(_made_along(value) for value in graph.outputs)


def _made_along(value: Value) -> int | None:
    if value.node.op is not ops.shard:
        return None
    axes: Sequence[int | None] = value.node.params["result_axes"]
    return axes[value.index]


def device_view(graph: Graph, inputs: Axes, outputs: Axes, count: int) -> Graph:
    """Return what one device computes and stores, to predict its memory.

    Parts are of their own size; where a part is needed whole, as many copies stand for what the
    other devices send.
    """
    mapping: dict[Value, tuple[Value, int | None]] = {}
    with Builder() as builder:
        for value, axis in zip(graph.inputs, inputs, strict=True):
            type = value.type
            if axis is not None:
                type = type.resized(axis, type.shape[axis] // count)
            mapping[value] = builder.input(type, value.node.source), axis
        for node in graph.nodes:
            builder.source = node.source
            if node.op is ops.shard:
                _inline(builder, node, mapping, count)
                continue
            operands = tuple(_along(mapping[value], None, count) for value in node.operands)
            for value, made in zip(node.results, builder.copy(node, operands), strict=True):
                mapping[value] = made, None
        results = [
            _along(mapping[value], axis, count)
            for value, axis in zip(graph.outputs, outputs, strict=True)
        ]
        return builder.finish(results)


def _inline(
    builder: Builder, node: Node, mapping: dict[Value, tuple[Value, int | None]], count: int
) -> None:
    params = node.params
    operands = [
        _along(mapping[value], axis, count)
        for value, axis in zip(node.operands, params["operand_axes"], strict=True)
    ]
    results = builder.inline(params["body"], operands)
    for value, made, axis in zip(node.results, results, params["result_axes"], strict=True):
        mapping[value] = made, axis


def _along(known: tuple[Value, int | None], wanted: int | None, count: int) -> Value:
    """Return a value cut as it is wanted: gathered from all devices, or a part of it taken."""
    value, axis = known
    if axis == wanted:
        return value
    whole: Value = value if axis is None else ops.concatenate(*[value] * count, dimension=axis)
    if wanted is None:
        return whole
    limit = list(whole.shape)
    limit[wanted] //= count
    part: Value = ops.slice(
        whole, start=(0,) * len(limit), limit=tuple(limit), strides=(1,) * len(limit)
    )
    return part
