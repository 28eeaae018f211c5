"""Patterns for any sizes: match the tree of ops first, then the exact expression.

A pattern is traced once for each sample of its leaves' types. Where that skeleton of ops fits, the
pattern is traced again with the types found there. It matches only if the program computes exactly
this: every op, parameter, constant and type.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from tracer.errors import TracerError
from tracer.ir import Graph, Op, Value
from tracer.optimizer.passes import PassLog
from tracer.optimizer.rewrite.expand import expand_calls
from tracer.optimizer.rewrite.match.normal_form import normalize_products
from tracer.optimizer.rewrite.match.rule import Bound, Numbers, Spelling, Types
from tracer.optimizer.rewrite.match.structure import Binding, bindings, root_of
from tracer.optimizer.rewrite.simplify import eliminate_common_subexpressions, fold_constants

# A pattern of commuting ops on equal operands fits in many ways that bind the same leaves.
_MAXIMUM_BINDINGS = 16


def normal_form(graph: Graph) -> Graph:
    """Return a graph in the form in which patterns and programs are compared."""
    log = PassLog()
    graph = normalize_products(expand_calls(graph, log))
    return fold_constants(eliminate_common_subexpressions(graph, log), log)


@dataclass(frozen=True, eq=False)
class Skeleton:
    """A pattern, and which op reads which in it at one rank."""

    pattern: Spelling
    graph: Graph

    @property
    def op(self) -> Op:
        """The op at the root."""
        op = root_of(self.graph).node.op
        assert op is not None, "a pattern is no variable"
        return op

    def loose_leaves(self, root: Value) -> Iterator[tuple[Value, ...]]:
        """Yield what the variables would be, where the ops fit."""
        for found in islice(bindings(self.graph, root, exact=False), _MAXIMUM_BINDINGS):
            leaves = _leaves(self.graph, found)
            if leaves is not None:
                yield leaves

    def bound(self, root: Value, leaves: tuple[Value, ...], numbers: Numbers) -> Bound | None:
        """Return the place where the pattern matches with these leaves; None if it does not.

        Raises
        ------
        TracerError
            The expression does not exist for the leaves' types.
        """
        types = tuple([leaf.type for leaf in leaves])
        wanted = self.pattern(types, numbers)
        for found in islice(bindings(wanted, root, exact=True), _MAXIMUM_BINDINGS):
            if _leaves(wanted, found) == leaves:
                inner = tuple([v for k, v in found.items() if k.node.op is not None])
                return Bound(root, leaves, numbers, inner)
        return None


def skeletons(
    patterns: Sequence[Spelling], samples: Sequence[Types], numbers: Sequence[Numbers]
) -> Iterator[Skeleton]:
    """Yield the skeletons of patterns at the samples, each once.

    Raises
    ------
    TracerError
        A pattern exists at no sample; one that needs another rank is left out at that sample.
    """
    for pattern in patterns:
        found: dict[object, Skeleton] = {}
        errors = []
        for types in samples:
            for chosen in numbers:
                try:
                    graph = pattern(types, chosen)
                except TracerError as error:
                    errors.append(error)
                else:
                    found.setdefault(_shape_of(graph), Skeleton(pattern, graph))
        if not found:
            raise errors[0]
        yield from found.values()


def _leaves(pattern: Graph, found: Binding) -> tuple[Value, ...] | None:
    """Return what the leaves are, None when the pattern does not use them all."""
    values = [found.get(value) for value in pattern.inputs]
    return None if None in values else tuple([value for value in values if value is not None])


def _shape_of(graph: Graph) -> tuple[object, ...]:
    """Return which op reads which: patterns that agree in it have the same skeleton."""
    number = {value: i for i, value in enumerate(graph.inputs)}
    rows: list[object] = []
    for node in graph.nodes:
        rows.append((node.op, tuple([number[value] for value in node.operands])))
        for value in node.results:
            number[value] = len(number)
    return (*rows, number[graph.outputs[0]])
