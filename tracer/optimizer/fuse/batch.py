"""Compute a group of equal lanes at once: one op on packed operands for each of their nodes."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value
from tracer.ir.graph import copy_nodes
from tracer.ir.op import Batching
from tracer.optimizer.fuse.flat import cut, flatten, join_parts, pack, shaped
from tracer.optimizer.fuse.lanes import Group, Lane, splat_of


def fuse_group(graph: Graph, group: Group) -> Graph:
    """Return the graph in which the group's lanes are computed at once.

    Nodes that wait for a lane come after all lanes; the others keep their order.
    """
    members = {node for lane in group for node in lane.nodes}
    wanted = {value for lane in group for value in lane.leaves} | {
        scalar for lane in group for scalar in _splats(lane)
    }
    others = [node for node in graph.nodes if node not in members]
    read = {value for node in others for value in node.operands}.union(graph.outputs)
    with Builder() as builder:
        values = {value: builder.input(value.type, value.node.source) for value in graph.inputs}
        wanted.difference_update(values)
        later: list[Node] | None = []
        for node in others:
            if later is not None and not wanted:
                _emit(builder, group, read, values)
                copy_nodes(builder, later, values)
                later = None
            if later is None or all(value in values for value in node.operands):
                copy_nodes(builder, [node], values)
                wanted.difference_update(node.results)
            else:
                later.append(node)
        if later is not None:
            _emit(builder, group, read, values)
            copy_nodes(builder, later, values)
        return join_parts(builder.finish([values[value] for value in graph.outputs]))


def _splats(lane: Lane) -> list[Value]:
    found = [splat_of(value) for node in lane.nodes for value in node.operands]
    return [scalar for scalar in found if scalar is not None]


def _emit(builder: Builder, group: Group, read: Set[Value], values: dict[Value, Value]) -> None:
    """Emit the group, and the parts of its results that others read."""
    builder.source = group[0].nodes[0].source
    emit = _emit_products if group[0].is_product else _emit_elementwise
    for position, flat in enumerate(emit(group, values)):
        old = [lane.nodes[position].results[0] for lane in group]
        start = 0
        for value in old:
            if value in read:
                part = cut(flat, start, start + value.type.size)
                values[value] = shaped(part, value.shape)
            start += value.type.size
    builder.source = None


def _emit_elementwise(group: Group, values: dict[Value, Value]) -> list[Value]:
    first = group[0]
    flat: dict[Value, Value] = {}
    for position, leaf in enumerate(first.leaves):
        given = [lane.leaves[position] for lane in group]
        flat[leaf] = _packed(given, values)
    size = sum(lane.size for lane in group)
    for node in first.nodes:
        operands = [_flat_operand(value, flat, values, size) for value in node.operands]
        assert node.op is not None
        flat[node.results[0]] = node.op(*operands, **node.params)
    return [flat[node.results[0]] for node in first.nodes]


def _packed(given: Sequence[Value], values: dict[Value, Value]) -> Value:
    first = given[0]
    if all(value is first for value in given):
        shape, axes = (len(given), *first.shape), range(1, first.type.ndim + 1)
        rows = ops.broadcast_in_dim(values[first], shape=shape, dimensions=tuple(axes))
        return flatten(rows)
    return pack([values[value] for value in given])


def _flat_operand(
    value: Value, flat: dict[Value, Value], values: dict[Value, Value], size: int
) -> Value:
    scalar = splat_of(value)
    if value in flat or scalar is None:
        return flat[value]
    result: Value = ops.broadcast_in_dim(values[scalar], shape=(size,), dimensions=())
    return result


def _emit_products(group: Group, values: dict[Value, Value]) -> list[Value]:
    node, count = group[0].nodes[0], len(group)
    operands, batched = [], []
    for position, first in enumerate(node.operands):
        given = [lane.leaves[position] for lane in group]
        is_shared = all(value is first for value in given)
        batched.append(not is_shared)
        new = [values[value] for value in given]
        operands.append(new[0] if is_shared else shaped(pack(new), (count, *first.shape)))
    op = node.op
    assert op is not None
    assert op.batch is not None
    batching = Batching(op, count, tuple(batched), _no_bodies)
    return [flatten(op.batch(tuple(operands), batching, **node.params))]


def _no_bodies(*_: Any) -> Any:
    raise AssertionError("lanes hold no bodies")


__all__ = ["fuse_group"]
