"""Give the gradients of extremes a copy each of what they are computed from.

A *context* is one of the copies of the large values; `BASE` is what all others read. The gradient
of an extreme is computed in a context of its own: the matrix, the extreme, the test and its count
all come of one copy, so that one loop over slices computes them. Where the gradients of several
contexts are added, the sum is a value of several *terms*, one for each context. What is linear in
it is computed of each term, and added up where it is small.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value
from tracer.ops.rules import is_inexact
from tracer.optimizer.loops.extremes.pattern import (
    ExtremeGradient,
    LargeTest,
    is_zero,
    spread_from,
)

Terms = frozenset[int]
NONE: Terms = frozenset()
BASE = 0


class NotLinear(Exception):
    """Terms meet where they cannot be told apart."""

    def __init__(self, node: Node) -> None:
        super().__init__(f"{node.name} is not linear in gradients of extremes")
        self.node = node


class Contexts:
    """A graph whose gradients of extremes are to be computed apart.

    Parameters
    ----------
    graph : Graph
    gradients : sequence of (ExtremeGradient, bool)
        Those of one matrix and the same axes share a context. True: it computes its extremes
        again, as a weight waits for what the program computes from large values.
    is_large : callable
        Which values are copied; all others are computed once.

    Raises
    ------
    NotLinear
        Something else than sums and products is computed from a sum of several terms.
    """

    def __init__(
        self,
        graph: Graph,
        gradients: Sequence[tuple[ExtremeGradient, bool]],
        is_large: LargeTest,
    ) -> None:
        self.graph = graph
        self.is_large = is_large
        self._home: dict[Node, int] = {}
        self._again: dict[Node, set[int]] = {}
        self._terms: dict[Node, Terms] = {}
        groups: dict[Hashable, list[tuple[ExtremeGradient, bool]]] = {}
        for gradient, waits in gradients:
            groups.setdefault((gradient.operand, gradient.axes), []).append((gradient, waits))
        for number, group in enumerate(groups.values(), BASE + 1):
            is_again = any(waits for _, waits in group)
            for gradient, _ in group:
                self._enter(gradient, number, is_again)
        for node in graph.nodes:
            if node not in self._terms:
                self._terms[node] = self._terms_of(node)

    def _enter(self, gradient: ExtremeGradient, number: int, is_again: bool) -> None:
        own = frozenset([number])
        self._terms.update(dict.fromkeys((gradient.test, *gradient.weights), own))
        for node in (gradient.extreme, *gradient.spread):
            if is_again:
                self._again.setdefault(node, set()).add(number)
            elif not self.is_large(node):
                self._home[node] = number

    def separated(self) -> Graph:
        """Return the graph with every context written out."""
        needed = self._needed()
        done: dict[tuple[Value, int], Value] = {}
        with Builder() as builder:
            for value in self.graph.inputs:
                done[value, BASE] = builder.input(value.type, value.node.source)
            for node in self.graph.nodes:
                builder.source = node.source
                for context in sorted(needed.get(node, ())):
                    results = self._written(builder, node, context, done)
                    done.update(
                        ((v, context), r) for v, r in zip(node.results, results, strict=True)
                    )
            outputs = [
                _added([done[value, context] for context in self._of_output(value)])
                for value in self.graph.outputs
            ]
        return builder.finish(outputs)

    def _written(
        self, builder: Builder, node: Node, context: int, done: dict[tuple[Value, int], Value]
    ) -> Sequence[Value]:
        """Write a node in a context; one that adds the terms of its operand up, for each term."""
        each = [
            builder.copy(node, tuple([done[read] for read in reads]))
            if len(reads) == len(node.operands)
            else [done[reads[0]]]  # A sum of which one addend is of this context.
            for reads in self._reads(node, context)
        ]
        return each[0] if len(each) == 1 else [_added([results[0] for results in each])]

    def _needed(self) -> dict[Node, set[int]]:
        """Return the contexts in which each node is computed."""
        needed: dict[Node, set[int]] = {}
        for value in self.graph.outputs:
            needed.setdefault(value.node, set()).update(self._of_output(value))
        for node in reversed(self.graph.nodes):
            for context in needed.get(node, ()):
                for reads in self._reads(node, context):
                    for value, where in reads:
                        needed.setdefault(value.node, set()).add(where)
        return needed

    def _of_output(self, value: Value) -> list[int]:
        return sorted(self._terms_of_value(value) or {self._home.get(value.node, BASE)})

    def _reads(self, node: Node, context: int) -> Iterator[list[tuple[Value, int]]]:
        """Yield the operands of a node, and their contexts, for each time that it is computed."""
        if self._is_sum(node):
            addends = [v for v in node.operands if context in (self._terms_of_value(v) or {BASE})]
            yield [(value, self._where(value.node, context)) for value in addends]
            return
        terms = NONE.union(*map(self._terms_of_value, node.operands))
        is_copied = self.is_large(node) or context in self._again.get(node, ())
        for term in [context] if is_copied else sorted(terms or {context}):
            yield [(value, self._where(value.node, term)) for value in node.operands]

    def _where(self, node: Node, context: int) -> int:
        """Return the context in which a node is computed that is read in a context."""
        if node.op is None:
            return BASE
        if context in self._again.get(node, ()):
            return context
        if node in self._home:
            return self._home[node]
        if not self.is_large(node):
            return BASE
        terms = self._terms[node]
        return next(iter(terms)) if len(terms) == 1 else context

    def _is_sum(self, node: Node) -> bool:
        """Tell whether a node adds values of several terms."""
        return len(self._terms[node]) > 1 and node.op is ops.add

    def _terms_of_value(self, value: Value) -> Terms:
        return self._terms.get(value.node, NONE)

    def _terms_of(self, node: Node) -> Terms:
        """Return the terms of a node's result; a small one has none, as they are added up."""
        each = [self._terms_of_value(value) for value in node.operands]
        found = NONE.union(*each)
        if not found:
            return NONE
        if node.op is ops.add and self.is_large(node):
            # A number is no gradient: the sum was meant to cancel some places exactly, as 1 - mask.
            if any(map(_is_number, node.operands)):
                raise NotLinear(node)
            return NONE.union(*(terms or {BASE} for terms in each))
        if len(found) > 1 and not _is_linear(node, each, found):
            raise NotLinear(node)
        return found if self.is_large(node) else NONE


def _is_number(value: Value) -> bool:
    """Tell whether a value is a constant that is repeated."""
    return spread_from(value)[1].op is ops.constant


def _added(values: Sequence[Value]) -> Value:
    total = values[0]
    for value in values[1:]:
        total = ops.add(total, value)
    return total


def _is_linear(node: Node, each: Sequence[Terms], found: Terms) -> bool:
    """Tell whether a node's result is linear in its operands that have several terms."""
    if len(node.types) != 1 or not is_inexact(node.types[0].dtype):
        return False
    assert node.op is not None
    if node.op is ops.select:
        branches = zip(node.operands[1:], each[1:], strict=True)
        return not each[0] and all(terms == found or is_zero(value) for value, terms in branches)
    powers = () if node.op.response is None else node.op.response.powers
    places = [place for place, terms in enumerate(each) if terms]
    return len(places) == 1 and len(powers) == len(each) and powers[places[0]] == 1


__all__ = ["Contexts", "NotLinear"]
