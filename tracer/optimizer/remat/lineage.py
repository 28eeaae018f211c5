"""Whether a value is compared for equality with a value from another computation of it.

A recomputed value may differ in its last digit, and then `x == max(x)`, the gradient of a maximum,
holds nowhere. So no test may have a copy on one side and something derived from the original on the
other.
"""

from __future__ import annotations

from tracer.ir import Graph, Node
from tracer.ops.rules import is_inexact
from tracer.ops.sink_guard import tests_floats


class Lineage:
    """What the nodes of a new program were computed from: first computations and copies, as bits.

    Parameters
    ----------
    graph : Graph
        The old program.
    """

    def __init__(self, graph: Graph) -> None:
        self.is_needed = any(map(_tests_equality, graph.nodes))
        self._bits: dict[Node, int] = {}
        self._firsts: dict[Node, int] = {}
        self._copies: dict[Node, int] = {}

    def add(self, old: Node, new: Node, *, is_copy: bool) -> bool:
        """Enter a new node; return whether it tests for equality what may differ.

        Parameters
        ----------
        old, new : Node
            What it is a copy of, and the node itself.
        is_copy : bool
            It computes again what another node of the new program has computed.
        """
        if not self.is_needed:
            return False
        firsts = copies = 0
        for value in new.operands:
            firsts |= self._firsts.get(value.node, 0)
            copies |= self._copies.get(value.node, 0)
        may_differ = any(is_inexact(type.dtype) for type in new.types)
        bit = 1 << self._bits.setdefault(old, len(self._bits)) if may_differ else 0
        self._firsts[new] = firsts | (0 if is_copy else bit)
        self._copies[new] = copies | (bit if is_copy else 0)
        return _tests_equality(new) and self._differ(new)

    def _differ(self, new: Node) -> bool:
        sides = [(self._firsts.get(v.node, 0), self._copies.get(v.node, 0)) for v in new.operands]
        return any(
            firsts & copies
            for i, (firsts, _) in enumerate(sides)
            for k, (_, copies) in enumerate(sides)
            if i != k
        )


def _tests_equality(node: Node) -> bool:
    """Tell whether a node, or one in its bodies, depends on floats being equal."""
    if node.body_graphs:
        return any(_tests_equality(inner) for body in node.body_graphs for inner in body.nodes)
    return tests_floats(node)


__all__ = ["Lineage"]
