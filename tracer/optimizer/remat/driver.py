"""The pass: recompute values that are stored across the peak until the limit is kept.

If the peak is inside a loop or branch, as in a split program, values of its body are recomputed in
every trip first. Then values of the program itself follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tracer.ir import Builder, Graph, Node, Value, rebuild
from tracer.optimizer.model.liveness import Liveness, body_extra_bytes
from tracer.optimizer.passes import Pass, PassLog
from tracer.optimizer.remat.search import RecomputationSearch, RecomputedProgram
from tracer.optimizer.schedule.control_dependences import add_control_dependences
from tracer.optimizer.schedule.schedule import schedule
from tracer.target import Target
from tracer.units import format_bytes

REMATERIALISE_NAME = "rematerialise"

# Loops whose bodies are written again, one after the other, as each of them is at the peak.
_MOST_LOOPS = 8


@dataclass
class Rematerialiser:
    """Recomputes values until a limit is kept, in programs and in the bodies of their loops.

    Attributes
    ----------
    machine : Target
        The device whose prices decide between values.
    order : bool
        Programs may be brought into an order with a smaller peak, which XLA is made to keep.
    """

    machine: Target
    order: bool = True
    _searches: dict[tuple[str, frozenset[int], bool], RecomputationSearch] = field(
        default_factory=dict
    )

    def as_pass(self, limit: int, donated: frozenset[int]) -> Pass:
        """Return the pass for a limit; a program that cannot keep it is made small."""

        def run(graph: Graph, log: PassLog) -> Graph:
            return self.run(graph, limit, donated, log)

        # The same operations: a kernel that is fused otherwise may round otherwise.
        return Pass(REMATERIALISE_NAME, run, exact=False, bodies=False)

    def run(
        self,
        graph: Graph,
        limit: int,
        donated: frozenset[int],
        log: PassLog,
        *,
        is_body: bool = False,
    ) -> Graph:
        """Return the graph with values recomputed; the graph itself if nothing was gained."""
        graph = self._with_smaller_bodies(graph, limit, donated, log, is_body)
        peak = Liveness(graph, donated, is_body=is_body).peak_bytes
        if peak <= limit:
            return graph
        search = self._search(graph, donated, is_body)
        found = search.run(limit)
        _report(search, found, limit, log)
        if found.peak_bytes >= peak:
            return graph
        made = found.graph
        return (
            add_control_dependences(made, PassLog(), donated, is_body=is_body)
            if self.order
            else made
        )

    def _search(self, graph: Graph, donated: frozenset[int], is_body: bool) -> RecomputationSearch:
        key = (graph.fingerprint, donated, is_body)
        if key not in self._searches:
            if self.order:
                graph = schedule(graph, PassLog(), donated, is_body=is_body, bodies=False)
            self._searches[key] = RecomputationSearch(graph, donated, self.machine, is_body=is_body)
        return self._searches[key]

    def _with_smaller_bodies(
        self, graph: Graph, limit: int, donated: frozenset[int], log: PassLog, is_body: bool
    ) -> Graph:
        """Rewrite the bodies of the loop at the peak, while the peak is in one that shrinks."""
        for _ in range(_MOST_LOOPS):
            live = Liveness(graph, donated, is_body=is_body)
            excess = live.peak_bytes - limit
            if excess <= 0 or not live.timeline:
                break
            node = max(live.timeline, key=lambda moment: moment.live_bytes).node
            smaller = self._smaller(node, excess, log)
            if smaller is None:
                break
            graph = _replaced(graph, node, smaller)
        return graph

    def _smaller(self, node: Node, excess: int, log: PassLog) -> dict[str, Any] | None:
        """Return the parameters of a node with smaller bodies; None if the largest stays."""
        most = max(map(body_extra_bytes, node.body_graphs), default=0)
        room = most - excess
        changed: dict[str, Any] = {}
        for key, bodies in node.bodies.items():
            many = bodies if isinstance(bodies, tuple) else (bodies,)
            new = tuple([self._smaller_body(body, room, log) for body in many])
            changed[key] = new if isinstance(bodies, tuple) else new[0]
        after = [body for new in changed.values() for body in _as_graphs(new)]
        return changed if max(map(body_extra_bytes, after), default=0) < most else None

    def _smaller_body(self, body: Graph, room: int, log: PassLog) -> Graph:
        inputs = frozenset(range(len(body.inputs)))
        excess = body_extra_bytes(body) - room
        if excess <= 0:
            return body
        limit = Liveness(body, inputs, is_body=True).peak_bytes - excess
        return self.run(body, limit, inputs, log, is_body=True)


def _as_graphs(bodies: Any) -> tuple[Graph, ...]:
    return bodies if isinstance(bodies, tuple) else (bodies,)


def _replaced(graph: Graph, node: Node, params: dict[str, Any]) -> Graph:
    def rewrite(
        builder: Builder, other: Node, operands: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        return builder.copy(other, operands, **params) if other is node else None

    return rebuild(graph, rewrite)


def _report(
    search: RecomputationSearch, found: RecomputedProgram, limit: int, log: PassLog
) -> None:
    for node in found.drops:
        place = f"  ({node.source})" if node.source else ""
        log.applied.append(
            f"{_named(node)} computed again: {format_bytes(_nbytes(node))} less over the peak, "
            f"{search.flops(node):,} operations more{place}"
        )
    if found.peak_bytes > limit:
        for node, reason in search.refusals(found).items():
            log.refuse(_named(node), reason, node.source)


def _named(node: Node) -> str:
    return f"{node.types[0]} of {node.name}"


def _nbytes(node: Node) -> int:
    return sum(type.nbytes for type in node.types)


__all__ = ["REMATERIALISE_NAME", "Rematerialiser"]
