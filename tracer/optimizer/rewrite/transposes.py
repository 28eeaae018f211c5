"""Transpose sinking: reductions over transposed arrays read them in memory order.

`logsumexp(cost.T, axis=1)` is a reduction over the leading axis of `cost`. XLA finds that too, but
late: the lowering, which cuts reductions over leading axes into blocks (`target/reductions.py`),
sees a last axis. So transposes move down through element-wise ops into the reductions they end in.
Maxima and the like keep their bits; sums are added in another order. A value with any other user
stays: it would be computed twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value
from tracer.optimizer.model.in_order import is_elementwise
from tracer.optimizer.passes import Pass, PassLog
from tracer.target import current_target

Permutation = tuple[int, ...]
"""Axis `i` of a value is axis `permutation[i]` of what it is the transpose of."""


def sink_transposes(graph: Graph, log: PassLog) -> Graph:
    """Move transposes down into reductions."""
    found = _find(graph)
    if not found.reductions:
        return graph
    for node in found.reductions:
        log.applied.append(f"{node.name} of {node.operand_types[0]}, transposed")
    return _Rewriter(found).run(graph)


@dataclass
class _Found:
    """What is written anew.

    Attributes
    ----------
    permutations : dict
        Of the values that are transposes, or are computed from transposes element by element.
    moved : set of Node
        Element-wise nodes that are computed in the layout of the untransposed operands.
    reductions : list of Node
        Those that take over the permutation.
    """

    permutations: dict[Value, Permutation] = field(default_factory=dict)
    moved: set[Node] = field(default_factory=set)
    reductions: list[Node] = field(default_factory=list)


def _find(graph: Graph) -> _Found:
    users: dict[Value, set[Node]] = {}
    for node in graph.nodes:
        for value in node.operands:
            users.setdefault(value, set()).add(node)
    kept: set[Node] = {value.node for value in graph.outputs}
    while True:
        found = _Found(_permutations(graph, kept))
        found.reductions = [node for node in graph.nodes if _is_reduction(node, found)]
        found.moved = _producers(found)
        rewritten = found.moved.union(found.reductions)
        read_elsewhere = {n for n in found.moved if not users[n.results[0]] <= rewritten}
        if not read_elsewhere:
            return found
        kept |= read_elsewhere


def _permutations(graph: Graph, kept: set[Node]) -> dict[Value, Permutation]:
    """Return how values are transposed; nodes in `kept` stay as they are."""
    known: dict[Value, Permutation] = {}
    for node in graph.nodes:
        if node.op is ops.transpose and _is_stored(node.operands[0]):
            known[node.results[0]] = tuple(node.params["permutation"])
        elif node not in kept and is_elementwise(node):
            ways = {known[value] for value in node.operands if value in known}
            if len(ways) == 1 and all(v in known or _turns(v) for v in node.operands):
                known[node.results[0]] = ways.pop()
    return known


def _is_stored(value: Value) -> bool:
    """Tell whether a value is in memory: one computed on the spot has no order."""
    op = value.node.op
    return op is None or op.fusion not in ("loop", "view")


def _turns(value: Value) -> bool:
    """Tell whether a value can be written with its axes in another order at no cost."""
    return value.node.op is ops.broadcast_in_dim or value.node.op is ops.iota


def _is_reduction(node: Node, found: _Found) -> bool:
    is_one = node.op is not None and node.op.fusion == "reduce" and len(node.operands) == 1
    return (
        is_one
        and set(node.params) == {"axes"}
        and node.operands[0] in found.permutations
        and node.operand_types[0].size > current_target().sizes.near_elements
    )


def _producers(found: _Found) -> set[Node]:
    """Return the element-wise nodes that the reductions are computed from."""
    moved: set[Node] = set()
    stack = [node.operands[0] for node in found.reductions]
    while stack:
        value = stack.pop()
        node = value.node
        if value in found.permutations and node.op is not ops.transpose and node not in moved:
            moved.add(node)
            stack.extend(node.operands)
    return moved


class _Rewriter:
    """Copies a graph, with transposes moved."""

    def __init__(self, found: _Found) -> None:
        self.found = found
        self.values: dict[Value, Value] = {}
        self.untransposed: dict[Value, Value] = {}

    def run(self, graph: Graph) -> Graph:
        with Builder() as builder:
            for value in graph.inputs:
                self.values[value] = builder.input(value.type, value.node.source)
            for node in graph.nodes:
                builder.source = node.source
                if node in self.found.moved:
                    self._move(builder, node)
                elif node in self.found.reductions:
                    self.values[node.results[0]] = self._reduce(node)
                else:
                    operands = tuple([self.values[value] for value in node.operands])
                    copied = builder.copy(node, operands)
                    self.values.update(zip(node.results, copied, strict=True))
                if node.op is ops.transpose and node.results[0] in self.found.permutations:
                    self.untransposed[node.results[0]] = self.values[node.operands[0]]
            builder.source = None
            return builder.finish([self.values[value] for value in graph.outputs])

    def _move(self, builder: Builder, node: Node) -> None:
        permutation = self.found.permutations[node.results[0]]
        operands = [
            self.untransposed[value]
            if value in self.found.permutations
            else self._turned(value, permutation)
            for value in node.operands
        ]
        assert node.op is not None
        moved: Value = node.op(*operands, **node.params)
        self.untransposed[node.results[0]] = moved

    def _turned(self, value: Value, permutation: Permutation) -> Value:
        """Write a broadcast or an iota with its axes in the order of the untransposed value."""
        node = value.node
        shape = [0] * value.type.ndim
        for axis, size in zip(permutation, value.type.shape, strict=True):
            shape[axis] = size
        if node.op is ops.iota:
            dimension = permutation[node.params["dimension"]]
            turned: Value = ops.iota(
                shape=tuple(shape), dtype=node.params["dtype"], dimension=dimension
            )
            return turned
        dimensions = [permutation[axis] for axis in node.params["dimensions"]]
        operand = self.values[node.operands[0]]
        order = sorted(range(len(dimensions)), key=dimensions.__getitem__)
        if order != list(range(len(order))):
            operand = ops.transpose(operand, permutation=tuple(order))
        spread: Value = ops.broadcast_in_dim(
            operand, shape=tuple(shape), dimensions=tuple(sorted(dimensions))
        )
        return spread

    def _reduce(self, node: Node) -> Value:
        operand, axes = node.operands[0], node.params["axes"]
        permutation = self.found.permutations[operand]
        assert node.op is not None
        turned = tuple(sorted(permutation[axis] for axis in axes))
        result: Value = node.op(self.untransposed[operand], axes=turned)
        return _in_order(result, [p for i, p in enumerate(permutation) if i not in axes])


def _in_order(result: Value, kept: Sequence[int]) -> Value:
    """Put the axes that a reduction kept into the order in which they are wanted."""
    places = [sorted(kept).index(axis) for axis in kept]
    if places == sorted(places):
        return result
    transposed: Value = ops.transpose(result, permutation=tuple(places))
    return transposed


TRANSPOSES = Pass("sink transposes", sink_transposes, exact=False)

__all__ = ["TRANSPOSES", "sink_transposes"]
