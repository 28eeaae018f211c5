"""Reduce through concatenate: reduce the parts, so that the whole is never written.

XLA fuses a concatenation only into a single reader, and not into a reduction in stages
(`optimizer/legalize/`). Otherwise it writes it to memory, with everything computed from it. If
every reader ends in a reduction, each part is reduced separately. Over the joined axis the partial
results are combined, which reorders a sum. Over other axes they are joined, which is exact.
Measured: 2 to 45 times faster (docs/fusion.md).

Source: Snider & Liang, "Operator Fusion in XLA" (2023), III-B and IV-A: "a concatenate operation
with more than one user cannot be fused". Left out: readers that write element-wise results of the
concatenation's size, where it gains nothing (measured: 0.7).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value, registry
from tracer.ir.graph import copy_nodes
from tracer.ops.helpers import splat_of
from tracer.optimizer.model.in_order import is_elementwise
from tracer.optimizer.passes import Pass, PassLog
from tracer.target import current_target

MOST_COPIES = 32
"""Bound on the nodes that one concatenation becomes, for each node that reads it."""


def reduce_parts(graph: Graph, log: PassLog) -> Graph:
    """Reduce concatenations part by part, as long as that pays."""
    refused: set[Node] = set()
    while True:
        found = _find(graph, refused, log)
        if found is None:
            return graph
        log.applied.append(str(found))
        graph = _Distributed(graph, found).run()
        refused = set()


@dataclass(frozen=True)
class _Found:
    """A concatenation and all that is computed from it: element-wise nodes, then reductions."""

    node: Node
    between: frozenset[Node]
    reductions: frozenset[Node]

    @property
    def axis(self) -> int:
        axis: int = self.node.params["dimension"]
        return axis

    def __str__(self) -> str:
        parts = len(self.node.operands)
        return f"{self.node.types[0]} of {parts} parts, read by {len(self.reductions)} reductions"


def _find(graph: Graph, refused: set[Node], log: PassLog) -> _Found | None:
    outputs, smallest = set(graph.outputs), current_target().sizes.part_bytes
    for node in graph.nodes:
        if node.op is not ops.concatenate or node.types[0].nbytes < smallest:
            continue
        if node in refused or len(node.operands) < 2:
            continue
        found = _readers(graph, node, outputs)
        if isinstance(found, _Found):
            return found
        refused.add(node)
        log.refuse(f"{node.types[0]} of {node.name}", found, node.source)
    return None


def _readers(graph: Graph, node: Node, outputs: set[Value]) -> _Found | str:
    """Return what is computed from a concatenation, or why it is needed whole."""
    between: dict[Node, None] = {}
    reductions: dict[Node, None] = {}
    stack = [node]
    while stack:
        current = stack.pop()
        if any(value in outputs for value in current.results):
            return "it, or what has its size, is a result"
        for user, _, _ in graph.users(current):
            if is_elementwise(user):
                if user not in between:
                    between[user] = None
                    stack.append(user)
            elif _can_reduce(user, node.params["dimension"]):
                reductions[user] = None
            else:
                return f"{user.name} reads it whole"
    if len(node.operands) * (len(between) + len(reductions)) > MOST_COPIES:
        return f"its parts would become more than {MOST_COPIES} nodes"
    return _Found(node, frozenset(between), frozenset(reductions))


def _can_reduce(node: Node, axis: int) -> bool:
    """Tell whether a node reduces one operand, and can do so part by part along an axis."""
    op = node.op
    assert op is not None
    if op.fusion != "reduce" or len(node.operands) != 1 or len(node.types) != 1:
        return False
    rule = node.axes
    label = rule.operands[0][axis]
    if label in rule.reduced:
        # Narrow floats are summed in a wider type; parts would be rounded one by one.
        combiner = registry()[rule.reduced[label]]
        return combiner.merge is None and node.types[0].dtype.itemsize >= 4
    return rule.is_parallel(label) and label in rule.results[0] and not rule.steps


class _Distributed:
    """Copies the graph with the parts in place of the whole."""

    def __init__(self, graph: Graph, found: _Found) -> None:
        self.graph = graph
        self.found = found
        self.values: dict[Value, Value] = {}
        self.parts: dict[Value, list[Value]] = {}
        sizes = [type.shape[found.axis] for type in found.node.operand_types]
        self.cuts = list(itertools.pairwise(itertools.accumulate(sizes, initial=0)))

    def run(self) -> Graph:
        found = self.found
        with Builder() as builder:
            for value in self.graph.inputs:
                self.values[value] = builder.input(value.type, value.node.source)
            for node in self.graph.nodes:
                builder.source = node.source
                if node is found.node:
                    self.parts[node.results[0]] = [self.values[v] for v in node.operands]
                elif node in found.between:
                    self.parts[node.results[0]] = self._each(node)
                elif node in found.reductions:
                    self.values[node.results[0]] = self._joined(node, self._each(node))
                else:
                    copy_nodes(builder, [node], self.values)
            return builder.finish([self.values[value] for value in self.graph.outputs])

    def _each(self, node: Node) -> list[Value]:
        """Emit a node for each part."""
        assert node.op is not None
        operands = [self._parts_of(value) for value in node.operands]
        return [node.op(*given, **node.params) for given in zip(*operands, strict=True)]

    def _parts_of(self, value: Value) -> Sequence[Value]:
        if value not in self.parts:
            self.parts[value] = [self._part(value, start, stop) for start, stop in self.cuts]
        return self.parts[value]

    def _part(self, value: Value, start: int, stop: int) -> Value:
        """Emit the elements of a value that go with one part."""
        axis, shape = self.found.axis, value.shape
        scalar = splat_of(value)
        result: Value
        if scalar is not None:
            sizes = (*shape[:axis], stop - start, *shape[axis + 1 :])
            result = ops.broadcast_in_dim(self.values[scalar], shape=sizes, dimensions=())
            return result
        first = tuple(start if i == axis else 0 for i in range(len(shape)))
        last = tuple(stop if i == axis else size for i, size in enumerate(shape))
        ones = (1,) * len(shape)
        result = ops.slice(self.values[value], start=first, limit=last, strides=ones)
        return result

    def _joined(self, node: Node, results: Sequence[Value]) -> Value:
        rule = node.axes
        label = rule.operands[0][self.found.axis]
        if label in rule.reduced:
            return reduce(registry()[rule.reduced[label]], results)
        joined: Value = ops.concatenate(*results, dimension=rule.results[0].index(label))
        return joined


REDUCE_THROUGH_CONCATENATE = Pass("reduce through concatenate", reduce_parts, exact=False)

__all__ = ["REDUCE_THROUGH_CONCATENATE", "reduce_parts"]
