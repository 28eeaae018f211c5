"""Carry many equal arrays of a loop as one, such as a training loop's parameters and their state.

Then nothing is joined or cut apart inside the loop, where that would cost what it saves: XLA writes
each extracted part with its own kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

from tracer import ops
from tracer.ir import Builder, Graph, Node, ShapeDtype, Value
from tracer.optimizer.fuse.flat import pack_values, unpack
from tracer.optimizer.fuse.packs import Pack, find_isomorphic
from tracer.target import Sizes

Packs = tuple[tuple[int, ...], ...]


def find_packs(body: Graph, sizes: Sizes, may_pay: Callable[[Pack, Set[Value]], bool]) -> Packs:
    """Return which carries of a loop's body to carry as one array, by their positions.

    These are leaves of a pack whose next values are made at one place in all its subgraphs, or
    which stay as they are from trip to trip. `may_pay` is asked for each pack of subgraphs, given
    those of its leaves that would be packed.
    """
    found: list[tuple[int, ...]] = []
    taken: set[int] = set()
    for pack in find_isomorphic(body, sizes):
        packs = _packs_of(pack, body)
        leaves = {body.inputs[index] for indices in packs for index in indices}
        if not packs or not may_pay(pack, leaves):
            continue
        for pack_ in packs:
            if len(set(pack_)) == len(pack_) and taken.isdisjoint(pack_):
                taken.update(pack_)
                found.append(pack_)
    return tuple(found)


def _packs_of(pack: Pack, body: Graph) -> list[tuple[int, ...]]:
    carries = {value: index for index, value in enumerate(body.inputs)}
    place = {
        subgraph.nodes[position].results[0]: (index, position)
        for index, subgraph in enumerate(pack)
        for position in range(len(subgraph.nodes))
    }
    found = []
    for position in range(len(pack[0].leaves)):
        leaves = [subgraph.leaves[position] for subgraph in pack]
        if not all(leaf in carries for leaf in leaves):
            continue
        indices = tuple(carries[leaf] for leaf in leaves)
        after = [body.outputs[index] for index in indices]
        made = [place.get(value) for value in after]
        is_kept = all(value is leaf for value, leaf in zip(after, leaves, strict=True))
        subgraphs = [where and where[0] for where in made]
        places = {where and where[1] for where in made}
        if is_kept or (subgraphs == list(range(len(pack))) and len(places) == 1):
            found.append(indices)
    return found


def pack_loop(
    operands: Sequence[Value], condition: Graph, body: Graph, packs: Packs
) -> list[Value]:
    """Emit the loop with packed carries; returns what replaces its results."""
    packed = {index for indices in packs for index in indices}
    rest = [index for index in range(len(operands)) if index not in packed]
    start = [operands[index] for index in rest]
    start.extend(pack_values([operands[index] for index in indices]) for indices in packs)
    results = ops.while_(*start, condition=packed_graph(condition, packs, False), body=body)
    return unpacked(results, packs, [value.type for value in operands])


def unpacked(values: Sequence[Value], packs: Packs, types: Sequence[ShapeDtype]) -> list[Value]:
    """Emit the original carries from those with packed ones at the end."""
    packed = {index for indices in packs for index in indices}
    found = {}
    given = iter(values)
    for index in range(len(types)):
        if index not in packed:
            found[index] = next(given)
    for indices in packs:
        parts = unpack(next(given), [types[index] for index in indices])
        found.update(zip(indices, parts, strict=True))
    return [found[index] for index in range(len(types))]


def packed_graph(graph: Graph, packs: Packs, is_body: bool) -> Graph:
    """Return a loop's body or condition with packed carries behind the others."""
    types = graph.input_types
    packed = {index for indices in packs for index in indices}
    rest = [index for index in range(len(types)) if index not in packed]
    with Builder() as builder:
        inputs = [builder.input(types[index]) for index in rest]
        for indices in packs:
            size = sum(types[index].size for index in indices)
            inputs.append(builder.input(types[indices[0]].with_shape((size,))))
        outputs = builder.inline(graph, unpacked(inputs, packs, types))
        if is_body:
            after = [outputs[index] for index in rest]
            after.extend(pack_values([outputs[index] for index in indices]) for indices in packs)
            outputs = after
        return builder.finish(outputs)


def is_loop(node: Node) -> bool:
    """Tell whether a node is a loop whose operands are all carries."""
    return node.op is ops.while_


__all__ = ["Packs", "find_packs", "is_loop", "pack_loop", "packed_graph", "unpacked"]
