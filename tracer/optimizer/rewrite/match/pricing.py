"""What a rewrite saves: the work of the nodes that die, minus that of the new ones.

Work counts operations (those of matrix products run several times as fast as others) and memory
traffic (stored values that are written or read), as in the roofline model (Williams, Waterman,
Patterson 2009). Nodes that the rest of the program needs do not die. Nodes that it computes anyway
cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tracer.ir import Graph, Node, Value
from tracer.optimizer.model.liveness import Liveness, node_cost
from tracer.optimizer.rewrite.match.numbering import Numbering
from tracer.optimizer.rewrite.match.rule import Bound, Rule
from tracer.optimizer.rewrite.match.structure import seen_through
from tracer.target import current_target


@dataclass(frozen=True)
class Candidate:
    """A rule that matches at a place, and the graph of its replacement there."""

    rule: Rule
    bound: Bound
    replacement: Graph


class Pricing:
    """Prices of rewrites of one graph.

    Parameters
    ----------
    graph : Graph
        The program, without common subexpressions.
    """

    def __init__(self, graph: Graph) -> None:
        self.live = Liveness(graph)
        self.numbering = Numbering(graph)

    def dying(self, candidates: Sequence[Candidate]) -> set[Node]:
        """Return the matched nodes that nothing needs once the candidates are applied together."""
        replaced = {candidate.bound.root for candidate in candidates}
        needed = {leaf for candidate in candidates for leaf in candidate.bound.leaves}
        nodes = {value.node for candidate in candidates for value in candidate.bound.inner}
        dead: set[Node] = set()
        for node in sorted(nodes, key=self.live.position.__getitem__, reverse=True):
            if all(
                value in replaced or (value not in needed and self._is_unused(value, dead))
                for value in node.results
            ):
                dead.add(node)
        return dead

    def _is_unused(self, value: Value, dead: set[Node]) -> bool:
        if value in self.live.outputs:
            return False
        return all(
            user in dead
            or (_is_hidden(user) and all(self._is_unused(v, dead) for v in user.results))
            for user in self.live.users.get(value, ())
        )

    def saving(self, candidates: Sequence[Candidate]) -> float:
        """Return the work that is saved when the candidates are applied together."""
        dying = self.dying(candidates)
        added = sum(map(self._added, candidates))
        return _work(dying, self.live) - added + self._no_longer_stored(candidates, dying)

    def _added(self, candidate: Candidate) -> float:
        lacking, _ = self.numbering.missing(candidate.replacement, candidate.bound.leaves)
        return _work(lacking, Liveness(candidate.replacement))

    def _no_longer_stored(self, candidates: Sequence[Candidate], dying: set[Node]) -> float:
        """Return the bytes of leaves that were stored for what dies only, written and read."""
        total = 0
        for candidate in candidates:
            readers = Liveness(candidate.replacement).users
            inputs = zip(candidate.bound.leaves, candidate.replacement.inputs, strict=True)
            for leaf, entry in inputs:
                fusible = leaf.node.op is not None and leaf.node.op.fusion == "loop"
                free = fusible and self.live.is_stored(leaf) and self._is_unused(leaf, dying)
                if free and not any(_reads_memory(user) for user in readers.get(entry, ())):
                    total += 2 * leaf.type.nbytes
        return total


def _reads_memory(node: Node) -> bool:
    assert node.op is not None
    return node.op.fusion in ("opaque", "view")


def _is_hidden(node: Node) -> bool:
    return seen_through(node.results[0]) is not node.results[0]


def _work(nodes: Iterable[Node], live: Liveness) -> float:
    """Return the work of nodes; an element-wise operation takes about as long as a moved byte."""
    total, ratio = 0.0, current_target().prices.product_ratio
    for node in nodes:
        cost = node_cost(node)
        total += cost.flops - cost.product_flops + cost.product_flops / ratio
        stored = [value for value in node.operands if live.is_stored(value)]
        stored += [value for value in node.results if live.is_stored(value)]
        total += min(cost.bytes, sum(value.type.nbytes for value in stored))
    return total
