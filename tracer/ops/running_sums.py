"""What a loop adds up from zero, and of which sums: slices of them add up to a part of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cached_property
from typing import Any

import numpy as np

from tracer.ir import Graph, Node, Value
from tracer.ir.combining import NEGATION, SAME_ELEMENTS
from tracer.ops.binary import add, divide, multiply, subtract
from tracer.ops.compare import convert
from tracer.ops.helpers import is_zeros, number_of
from tracer.ops.index import dynamic_update_slice
from tracer.ops.join import pad
from tracer.ops.rules import dtype_kind, is_inexact


def running_sums(loop: Node) -> dict[Value, list[Node]]:
    """Return the results of a loop that are sums of what some nodes of its body give.

    Such a carry begins as zeros and is in each step linear in itself and in these terms: a sum of
    them, negated, moved, beside zeros, scaled by what the loop knows otherwise, or written into it,
    as the sums of all steps are. Nothing else reads the carry or the terms. What a loop of known
    length tests is its counter.
    """
    body = _Body(loop.params["body"])
    found = {}
    for place, carry in enumerate(body.graph.inputs):
        if is_zeros(loop.operands[place]):
            terms = body.terms(carry, body.graph.outputs[place])
            if terms:
                found[loop.results[place]] = terms
    return found


class _Body:
    """Finds sums in the body of a loop."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._readers: dict[Value, list[Node]] = defaultdict(list)
        for node in graph.nodes:
            for value in node.operands:
                self._readers[value].append(node)
        self._uses = Counter(graph.outputs)
        self._uses.update({value: len(nodes) for value, nodes in self._readers.items()})

    def terms(self, carry: Value, total: Value) -> list[Node] | None:
        """Return the terms of a sum that has all there is of the carry; None if it is no sum."""
        stack, terms, carries, own = [total], [], 0, self._made_linearly_of([carry])
        while stack:
            value = stack.pop()
            if value is carry:
                carries += 1
                continue
            node = value.node
            if node.op is None or self._uses[value] != 1 or len(node.results) != 1:
                return None
            parts = _linear_in(node)
            if node.op is multiply:  # In one of two, and the other is no sum, or it would be lost.
                parts = [x for x in parts if x in own or x in self._sums][:1]
            stack += parts
            if not parts:
                terms.append(node)
        return terms if carries == self._uses[carry] else None

    @cached_property
    def _sums(self) -> set[Value]:
        """What is linear in sums over axes, each by itself."""
        adding = (node for node in self.graph.nodes if "add" in node.axes.reduced.values())
        return self._made_linearly_of([value for node in adding for value in node.results])

    def _made_linearly_of(self, values: list[Value]) -> set[Value]:
        found, stack = set(values), [*values]
        while stack:
            value = stack.pop()
            for node in self._readers.get(value, ()):
                if value in _linear_in(node) and node.results[0] not in found:
                    found.add(node.results[0])
                    stack.append(node.results[0])
        return found


def _linear_in(node: Node) -> list[Value]:
    """Return the operands that a node is linear in: all together, but each of a product."""
    if node.op in (add, subtract, multiply):
        return [*node.operands]
    if node.op is dynamic_update_slice:
        return [*node.operands[:2]]
    is_linear = _is_scaled(node) if node.op is divide else _keeps_sums(node)
    return [node.operands[0]] if is_linear else []


def _is_scaled(node: Node) -> bool:
    """Tell whether a quotient is one by a number that is known, of what is not cut off.

    Parts over zero may be infinities of both signs, whose sum is none.
    """
    number = number_of(node.operands[1])
    if number is None or not is_inexact(node.types[0].dtype):
        return False
    return bool(np.all(np.isfinite(number) & (number != 0)))


def _keeps_sums(node: Node) -> bool:
    """Tell whether a node gives, of a sum, the sum of what it gives of the terms."""
    if node.op is pad:
        return is_zeros(node.operands[1])
    if node.op is convert:
        return _converts_sums(node.operands[0].dtype, node.types[0].dtype)
    assert node.op is not None
    return node.op.response in (SAME_ELEMENTS, NEGATION) and len(node.operands) == 1


def _converts_sums(before: np.dtype[Any], after: np.dtype[Any]) -> bool:
    """Tell whether a sum is converted to the sum of the converted terms, but for rounding.

    Fractions are cut off, and what wrapped around in few bits is another number in more.
    """
    if is_inexact(before) or is_inexact(after):
        return is_inexact(before) and is_inexact(after)
    are_integers = dtype_kind(before) in "iu" and dtype_kind(after) in "iu"
    return are_integers and after.itemsize <= before.itemsize
