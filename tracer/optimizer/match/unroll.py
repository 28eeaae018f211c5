"""Unroll reductions over a short axis of a broadcast expression.

`((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)` with three features is, to XLA, a reduction over
rows of three: strided and not vectorised, over an (n, m, 3) expression. Written out feature by
feature it is plain element-wise arithmetic on (n, m), which vectorises and never has the third
axis. The terms are added in the order of the axis, so no digit is lost: unlike the expansion into
norms and a product, it is as accurate as the code the user wrote.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tracer import ops
from tracer.ir import Chunk, Graph, Label, Node, Value, registry
from tracer.ops.rules import is_float
from tracer.optimizer.match.rewrite import Replacement, replace_nodes
from tracer.optimizer.passes import PassLog
from tracer.optimizer.split.region import Subject

# Measured on CPU, n = 20,000: at 8 features the direct form costs about 1.6 times the product form
# and keeps all digits; at 16 it costs 3 times as much (docs/memory-model.md).
MAXIMUM_TERMS = 8
# A smaller tensor is cheap in any form.
MINIMUM_ELEMENTS = 1 << 14


def unroll_short_reductions(graph: Graph, log: PassLog) -> Graph:
    """Replace reductions over at most `MAXIMUM_TERMS` broadcast terms by their terms."""
    subject = Subject(graph)
    matches: dict[Node, Replacement] = {}
    for node in graph.nodes:
        if not _is_candidate(subject, node):
            continue
        cone = _cone(subject, node)
        if isinstance(cone, str):
            log.refuse(f"{node.name} of {node.operands[0].type}", cone, node.source)
        else:
            matches[node] = _Unrolled(subject, node, cone)
            log.applied.append(f"{node.name} of {node.operands[0].type}")
    return replace_nodes(graph, matches)


def _is_candidate(subject: Subject, node: Node) -> bool:
    assert node.op is not None
    rule = subject.rule(node)
    if node.op.fusion != "reduce" or len(rule.reduced) != 1 or len(node.operands) != 1:
        return False
    if registry()[rule.reduced[next(iter(rule.reduced))]].merge is not None:
        return False  # terms do not simply join
    type = node.operands[0].type
    if is_float(type.dtype) and type.dtype.itemsize < 4:
        return False  # a reduction adds these in float32; term by term each sum would be rounded
    (label,) = rule.reduced
    terms = type.shape[rule.operands[0].index(label)]
    return 1 < terms <= MAXIMUM_TERMS and type.size >= MINIMUM_ELEMENTS


def _cone(subject: Subject, node: Node) -> list[tuple[Node, Label]] | str:
    """Return the element-wise nodes between smaller operands and the reduction, in order."""
    size = node.operands[0].type.size
    (label,) = subject.rule(node).reduced
    found: dict[tuple[Node, Label], None] = {}
    stack = [(node, label)]
    while stack:
        current, label = stack.pop()
        for _, value, axis in subject.sliced_operands(current, label):
            producer = value.node
            if value.type.size < size or axis is None:
                continue
            if producer.op is None or producer.op.fusion != "loop":
                return f"{producer.name} stores the array that is reduced"
            wanted = subject.rule(producer).results[value.index][axis]
            if not subject.rule(producer).is_parallel(wanted):
                return f"{producer.name} needs the axis whole"
            if (producer, wanted) not in found:
                found[producer, wanted] = None
                stack.append((producer, wanted))
    return sorted(found, key=lambda item: subject.position[item[0]])


@dataclass(frozen=True)
class _Unrolled:
    """The replacement of one reduction: its terms, combined in the order of the axis."""

    subject: Subject
    node: Node
    cone: list[tuple[Node, Label]]

    def __call__(self, mapping: Mapping[Value, Value]) -> Sequence[Value]:
        rule = self.subject.rule(self.node)
        ((label, combiner),) = rule.reduced.items()
        terms = self.node.operands[0].type.shape[rule.operands[0].index(label)]
        total: Value | None = None
        for index in range(terms):
            term = self._term(mapping, label, index)
            total = term if total is None else registry()[combiner](total, term)
        assert total is not None
        return (total,)

    def _term(self, mapping: Mapping[Value, Value], label: Label, index: int) -> Value:
        slices: dict[tuple[Node, Label], Value] = {}
        start = ops.constant(value=np.array(index, np.int32))
        for item, item_label in self.cone:
            assert item.op is not None
            operands = self._operands(item, item_label, index, slices, mapping)
            rule = self.subject.rule(item)
            chunk = Chunk(item.op, item_label, start, 1, item.operand_types, item.types, rule)
            slices[item, item_label] = item.op.slice(operands, chunk, **item.params)
        (term,) = self._operands(self.node, label, index, slices, mapping)
        return ops.reshape(term, shape=self.node.types[0].shape)  # type: ignore[no-any-return]

    def _operands(
        self,
        node: Node,
        label: Label,
        index: int,
        slices: dict[tuple[Node, Label], Value],
        mapping: Mapping[Value, Value],
    ) -> tuple[Value, ...]:
        operands = []
        for _, value, axis in self.subject.sliced_operands(node, label):
            wanted = None if axis is None else self.subject.label_of(value, axis)
            if axis is None:
                operands.append(mapping[value])
            elif wanted is not None and (value.node, wanted) in slices:
                operands.append(slices[value.node, wanted])
            else:
                operands.append(_element(mapping[value], axis, index))
        return tuple(operands)


def _element(value: Value, axis: int, index: int) -> Value:
    shape = value.type.shape
    start = tuple(index if i == axis else 0 for i in range(len(shape)))
    limit = tuple(index + 1 if i == axis else n for i, n in enumerate(shape))
    return ops.slice(value, start=start, limit=limit, strides=(1,) * len(shape))  # type: ignore[no-any-return]
