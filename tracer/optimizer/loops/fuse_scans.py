"""Loop fusion for scans: a scan over what another scan stacks is merged with it.

So a forward-mode derivative of a scan, a second scan over the residuals of the first, stacks
nothing. Exact: every step computes the same. Source: loop fusion, Allen & Kennedy, "Optimizing
Compilers for Modern Architectures" (2001), section 6.2.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value, keeps_order
from tracer.optimizer.passes import Pass, PassLog


def fuse_scans(graph: Graph, log: PassLog) -> Graph:
    """Fuse pairs of scans until there is none left."""
    while (pair := _find_pair(graph)) is not None:
        log.applied.append(f"scan of {pair.first.params['length']} steps with the scan after it")
        graph = _fused(graph, pair)
    return graph


@dataclass(frozen=True)
class _Pair:
    """Two scans of a graph, and the nodes that need results of the first.

    `kept` are the stacked results of the first that are read by others than the second.
    """

    first: Node
    second: Node
    dependent: frozenset[Node]
    kept: tuple[Value, ...]


def _find_pair(graph: Graph) -> _Pair | None:
    scans = [node for node in graph.nodes if node.op is ops.scan]
    for first in scans:
        users = [node for node in scans if set(_stacks(first)) & set(_slices(node))]
        alike = [node for node in users if _steps(node) == _steps(first)]
        if keeps_order(first):  # the calls of all its steps come before those of another loop
            alike = [node for node in alike if not keeps_order(node)]
        dependent = _dependent(graph, first) if alike else frozenset()
        for second in alike:
            others = {v for v in second.operands if v not in _stacks(first)}
            fixed = set(_fixed(second))
            reached = any(value.node in dependent or value.node is first for value in others)
            if not reached and not fixed & set(first.results):
                read = {v for n in dependent if n is not second for v in n.operands}
                read.update(graph.outputs)
                kept = tuple(value for value in _stacks(first) if value in read)
                return _Pair(first, second, dependent, kept)
    return None


def _steps(node: Node) -> tuple[int, bool]:
    return node.params["length"], node.params["reverse"]


def _fixed(node: Node) -> Sequence[Value]:
    return node.operands[: node.params["num_consts"] + node.params["num_carry"]]


def _slices(node: Node) -> Sequence[Value]:
    return node.operands[len(_fixed(node)) :]


def _stacks(node: Node) -> Sequence[Value]:
    return node.results[node.params["num_carry"] :]


def _dependent(graph: Graph, first: Node) -> frozenset[Node]:
    reached = {first}
    for node in graph.nodes:
        if any(value.node in reached for value in node.operands):
            reached.add(node)
    return frozenset(reached - {first})


def _fused(graph: Graph, pair: _Pair) -> Graph:
    """Copy the graph with one scan in the place of two: what does not need it comes before it."""
    first, second = pair.first, pair.second
    with Builder() as builder:
        values = {value: builder.input(value.type, value.node.source) for value in graph.inputs}

        def copy(nodes: Sequence[Node]) -> None:
            for node in nodes:
                operands = tuple([values[value] for value in node.operands])
                values.update(zip(node.results, builder.copy(node, operands), strict=True))

        copy([n for n in graph.nodes if n is not first and n not in pair.dependent])
        builder.source = first.source
        values.update(_emit(pair, values))
        builder.source = None
        copy([n for n in graph.nodes if n in pair.dependent and n is not second])
        return builder.finish([values[value] for value in graph.outputs])


def _emit(pair: _Pair, values: dict[Value, Value]) -> dict[Value, Value]:
    """Emit the fused scan; returns which of its results replace those of the two."""
    first, second = pair.first, pair.second
    own = [i for i, value in enumerate(_slices(second)) if value not in _stacks(first)]
    parts = [_parted(node) for node in (first, second)]
    consts, carry = ([v for part in parts for v in part[kind]] for kind in (0, 1))
    slices = [*_slices(first), *(_slices(second)[i] for i in own)]
    results = ops.scan(
        *(values[value] for value in [*consts, *carry, *slices]),
        body=_body(pair, own),
        length=first.params["length"],
        num_consts=len(consts),
        num_carry=len(carry),
        reverse=first.params["reverse"],
    )
    carried = [v for node in (first, second) for v in node.results[: node.params["num_carry"]]]
    return dict(zip([*carried, *pair.kept, *_stacks(second)], results, strict=True))


def _parted(node: Node) -> tuple[Sequence[Value], Sequence[Value]]:
    count = node.params["num_consts"]
    return node.operands[:count], _fixed(node)[count:]


def _body(pair: _Pair, own: Sequence[int]) -> Graph:
    """Return a step of both: the second's slices are what the first would have stacked."""
    first, second = pair.first, pair.second
    bodies = first.params["body"], second.params["body"]
    with Builder() as builder:
        fixed: list[list[list[Value]]] = [[], []]
        for kind in (0, 1):
            for which, node in enumerate((first, second)):
                types = [value.type for value in _parted(node)[kind]]
                fixed[which].append([builder.input(type) for type in types])
        rows = bodies[0].input_types[len(_fixed(first)) :]
        slices = [builder.input(type) for type in rows]
        later = bodies[1].input_types[len(_fixed(second)) :]
        given = {i: builder.input(later[i]) for i in own}
        found = builder.inline(bodies[0], [*fixed[0][0], *fixed[0][1], *slices])
        carried = first.params["num_carry"]
        stacked = dict(zip(_stacks(first), found[carried:], strict=True))
        seen = [given[i] if i in given else stacked[v] for i, v in enumerate(_slices(second))]
        more = builder.inline(bodies[1], [*fixed[1][0], *fixed[1][1], *seen])
        count = second.params["num_carry"]
        kept = [stacked[value] for value in pair.kept]
        return builder.finish([*found[:carried], *more[:count], *kept, *more[count:]])


FUSE_SCANS = Pass("fuse scans", fuse_scans)

__all__ = ["FUSE_SCANS", "fuse_scans"]
