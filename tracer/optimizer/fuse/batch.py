"""Compute a pack of equal subgraphs at once: one op on packed operands for each of their nodes."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value
from tracer.ir.graph import copy_nodes
from tracer.ir.op import Batching
from tracer.ops.helpers import splat_of
from tracer.optimizer.fuse.flat import cut, flatten, join_parts, pack_values, shaped
from tracer.optimizer.fuse.packs import Pack, Subgraph


def fuse_group(graph: Graph, pack: Pack) -> Graph:
    """Return the graph in which the pack's subgraphs are computed at once.

    Nodes that wait for a subgraph come after all subgraphs; the others keep their order.
    """
    members = {node for subgraph in pack for node in subgraph.nodes}
    wanted = {value for subgraph in pack for value in subgraph.leaves} | {
        scalar for subgraph in pack for scalar in _splats(subgraph)
    }
    others = [node for node in graph.nodes if node not in members]
    read = {value for node in others for value in node.operands}.union(graph.outputs)
    with Builder() as builder:
        values = {value: builder.input(value.type, value.node.source) for value in graph.inputs}
        wanted.difference_update(values)
        later: list[Node] | None = []
        for node in others:
            if later is not None and not wanted:
                _emit(builder, pack, read, values)
                copy_nodes(builder, later, values)
                later = None
            if later is None or all(value in values for value in node.operands):
                copy_nodes(builder, [node], values)
                wanted.difference_update(node.results)
            else:
                later.append(node)
        if later is not None:
            _emit(builder, pack, read, values)
            copy_nodes(builder, later, values)
        return join_parts(builder.finish([values[value] for value in graph.outputs]))


def _splats(subgraph: Subgraph) -> list[Value]:
    found = [splat_of(value) for node in subgraph.nodes for value in node.operands]
    return [scalar for scalar in found if scalar is not None]


def _emit(builder: Builder, pack: Pack, read: Set[Value], values: dict[Value, Value]) -> None:
    """Emit the pack, and the parts of its results that others read."""
    builder.source = pack[0].nodes[0].source
    emit = _emit_products if pack[0].is_product else _emit_elementwise
    for position, flat in enumerate(emit(pack, values)):
        old = [subgraph.nodes[position].results[0] for subgraph in pack]
        start = 0
        for value in old:
            if value in read:
                part = cut(flat, start, start + value.type.size)
                values[value] = shaped(part, value.shape)
            start += value.type.size
    builder.source = None


def _emit_elementwise(pack: Pack, values: dict[Value, Value]) -> list[Value]:
    first = pack[0]
    flat: dict[Value, Value] = {}
    for position, leaf in enumerate(first.leaves):
        given = [subgraph.leaves[position] for subgraph in pack]
        flat[leaf] = _packed(given, values)
    size = sum(subgraph.size for subgraph in pack)
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
    return pack_values([values[value] for value in given])


def _flat_operand(
    value: Value, flat: dict[Value, Value], values: dict[Value, Value], size: int
) -> Value:
    scalar = splat_of(value)
    if value in flat or scalar is None:
        return flat[value]
    result: Value = ops.broadcast_in_dim(values[scalar], shape=(size,), dimensions=())
    return result


def _emit_products(pack: Pack, values: dict[Value, Value]) -> list[Value]:
    node, count = pack[0].nodes[0], len(pack)
    operands, batched = [], []
    for position, first in enumerate(node.operands):
        given = [subgraph.leaves[position] for subgraph in pack]
        is_shared = all(value is first for value in given)
        batched.append(not is_shared)
        new = [values[value] for value in given]
        operands.append(new[0] if is_shared else shaped(pack_values(new), (count, *first.shape)))
    op = node.op
    assert op is not None
    assert op.batch is not None
    batching = Batching(op, count, tuple(batched), _no_bodies)
    return [flatten(op.batch(tuple(operands), batching, **node.params))]


def _no_bodies(*_: Any) -> Any:
    raise AssertionError("subgraphs hold no bodies")


__all__ = ["fuse_group"]
