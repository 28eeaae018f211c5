"""Unroll reductions over a short axis of a broadcast expression.

`((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)` with three features is, to XLA, a reduction over
rows of three: strided and not vectorised, over an (n, m, 3) expression. Written out feature by
feature it is element-wise arithmetic on (n, m), which vectorises and never has the third axis. The
terms are added in the order of the axis, so no digit is lost. Unlike the expansion into norms and a
product, it is as accurate as the user's code.

Sums that no product can express, such as sums of absolute differences, are written out for more
terms (`Sizes.direct_terms_without_product`), after contractions took theirs. That many adjacent
features per point are a stride that vectors cannot read, so each feature of all points is first
stored in one run, where that takes little memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tracer import ops
from tracer.ir import Chunk, Graph, Label, Node, ShapeDtype, Value, registry
from tracer.ops import helpers
from tracer.ops.rules import as_tuple, is_float
from tracer.optimizer.loops.split.region import Subject
from tracer.optimizer.passes import Pass, PassLog
from tracer.optimizer.rewrite.match.rewrite import Replacement, replace_nodes
from tracer.target import current_target

# Under a limit, how many times the operands it must hold.
OPERANDS_IN_LIMIT = 8
# Features are stored in runs if these are small next to what is computed of them.
READS_OF_RUNS = 16
UNROLL_NAME = "unroll short reductions"


def unroll_short_reductions(graph: Graph, log: PassLog) -> Graph:
    """Replace reductions over at most `Sizes.direct_terms` broadcast terms, one too, by these."""
    return _unroll(graph, log, current_target().sizes.direct_terms)


def unroll_without_product_pass(limit_bytes: int | None = None) -> Pass:
    """Return the pass that writes out reductions over more terms, which no product took.

    Loops read each feature as a value of its own, so that operands are stored twice: those that
    are much next to a limit stay as they are.
    """
    most_bytes = math.inf if limit_bytes is None else limit_bytes / OPERANDS_IN_LIMIT

    def run(graph: Graph, log: PassLog) -> Graph:
        return _unroll(graph, log, current_target().sizes.direct_terms_without_product, most_bytes)

    return Pass(UNROLL_NAME, run, exact=False)


def _unroll(graph: Graph, log: PassLog, maximum: int, most_bytes: float = math.inf) -> Graph:
    subject = Subject(graph)
    matches: dict[Node, Replacement] = {}
    for node in graph.nodes:
        terms = _terms(subject, node)
        if not 0 < terms <= maximum:
            continue
        cone = _cone(subject, node)
        if isinstance(cone, str):
            log.refuse(f"{node.name} of {node.operands[0].type}", cone, node.source)
        elif terms * len(cone) > current_target().sizes.written_operations:
            reason = f"written out, its {terms} terms are {terms * len(cone)} operations"
            log.refuse(f"{node.name} of {node.operands[0].type}", reason, node.source)
        elif _operand_bytes(subject, node, cone) > most_bytes:
            reason = "its operands, stored by features, are much of the limit"
            log.refuse(f"{node.name} of {node.operands[0].type}", reason, node.source)
        else:
            matches[node] = _Unrolled(subject, node, cone)
            log.applied.append(f"{node.name} of {node.operands[0].type}")
    return replace_nodes(graph, matches)


def _terms(subject: Subject, node: Node) -> int:
    """Return how many terms a reduction would be written out in; 0 for what is none, or small."""
    assert node.op is not None
    rule = subject.rule(node)
    if node.op.fusion != "reduce" or len(rule.reduced) != 1 or len(node.operands) != 1:
        return 0
    if registry()[rule.reduced[next(iter(rule.reduced))]].merge is not None:
        return 0  # terms do not simply join
    type = node.operands[0].type
    if is_float(type.dtype) and type.dtype.itemsize < 4:
        return 0  # a reduction adds these in float32; term by term each sum would be rounded
    (label,) = rule.reduced
    is_small = type.size < current_target().sizes.match_elements
    return 0 if is_small else type.shape[rule.operands[0].index(label)]


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


def _operand_bytes(subject: Subject, node: Node, cone: list[tuple[Node, Label]]) -> int:
    """Return the bytes of the smaller operands that hold elements along the reduced axis."""
    size = node.operands[0].type.size
    (label,) = subject.rule(node).reduced
    operands = {
        value
        for item, along in ((node, label), *cone)
        for _, value, axis in subject.sliced_operands(item, along)
        if axis is not None and value.type.size < size
    }
    return sum(value.type.nbytes for value in operands)


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
        features = _Features(
            self.node.operands[0].type.size if terms > current_target().sizes.direct_terms else 0
        )
        total: Value | None = None
        for index in range(terms):
            term = self._term(mapping, label, index, features)
            total = term if total is None else registry()[combiner](total, term)
        assert total is not None
        return (total,)

    def _term(
        self, mapping: Mapping[Value, Value], label: Label, index: int, features: _Features
    ) -> Value:
        slices: dict[tuple[Node, Label], Value] = {}
        start = ops.constant(value=np.array(index, np.int32))
        for item, item_label in self.cone:
            assert item.op is not None
            operands = self._operands(item, item_label, index, slices, mapping, features)
            rule = self.subject.rule(item)
            chunk = Chunk(item.op, item_label, start, 1, item.operand_types, item.types, rule)
            slices[item, item_label] = item.op.slice(operands, chunk, **item.params)
        (term,) = self._operands(self.node, label, index, slices, mapping, features)
        return ops.reshape(term, shape=self.node.types[0].shape)  # type: ignore[no-any-return]

    def _operands(
        self,
        node: Node,
        label: Label,
        index: int,
        slices: dict[tuple[Node, Label], Value],
        mapping: Mapping[Value, Value],
        features: _Features,
    ) -> tuple[Value, ...]:
        operands = []
        for _, value, axis in self.subject.sliced_operands(node, label):
            wanted = None if axis is None else self.subject.label_of(value, axis)
            if axis is None:
                operands.append(mapping[value])
            elif wanted is not None and (value.node, wanted) in slices:
                operands.append(slices[value.node, wanted])
            else:
                operands.append(features.element(mapping[value], axis, index))
        return tuple(operands)


class _Features:
    """Elements of the operands of one reduction along its axis.

    Parameters
    ----------
    reads : int
        How many elements are read of all operands together; 0: none is stored in runs.
    """

    def __init__(self, reads: int) -> None:
        self._reads = reads
        self._runs: dict[Value, Sequence[Value]] = {}

    def element(self, value: Value, axis: int, index: int) -> Value:
        """Return the slice of one element along an axis."""
        if not self._has_runs(value.type, axis):
            return _element(value, axis, index)
        origin = _without_single_axes(value)
        if origin not in self._runs:
            last = origin.type.ndim - 1
            slices = [_element(origin, last, i) for i in range(origin.shape[last])]
            rows = [helpers.reshape(x, _squeezed(x.shape)) for x in slices]
            # Without the barrier XLA would read the original; turned, it would take it for a
            # matter of layout.
            self._runs[origin] = as_tuple(ops.optimization_barrier(*rows))
        return helpers.reshape(self._runs[origin][index], _element_shape(value.type, axis))

    def _has_runs(self, type: ShapeDtype, axis: int) -> bool:
        is_strided = axis > 0 and axis == type.ndim - 1 and type.shape[axis - 1] > 1
        is_small = READS_OF_RUNS * type.size <= self._reads
        return is_strided and is_small and self._reads >= current_target().sizes.run_elements


def _without_single_axes(value: Value) -> Value:
    """Return the array of whose elements a value is a view with more or fewer axes of one."""
    node = value.node
    while node.op is ops.reshape and _is_same_last_axis(value.shape, node.operands[0].shape):
        (value,) = node.operands
        node = value.node
    return value


def _is_same_last_axis(shape: Sequence[int], other: Sequence[int]) -> bool:
    return shape[-1:] == other[-1:] and _squeezed(shape) == _squeezed(other)


def _squeezed(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(size for size in shape if size > 1)


def _element_shape(type: ShapeDtype, axis: int) -> tuple[int, ...]:
    return tuple(1 if i == axis else size for i, size in enumerate(type.shape))


def _element(value: Value, axis: int, index: int) -> Value:
    """Return the slice of one element along an axis.

    Views of one array share it, such as both sides of distances between its rows.
    """
    shape = _element_shape(value.type, axis)
    if axis == value.type.ndim - 1:
        value = _without_single_axes(value)
        axis = value.type.ndim - 1
    return helpers.reshape(helpers.slice_axis(value, axis, index, index + 1), shape)
