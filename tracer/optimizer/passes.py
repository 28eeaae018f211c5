"""What a pass is, and the manager that runs a pipeline of them.

The contract (after xdsl's passes and cubed's plan): a pass takes a frozen graph that is valid and
returns a valid one with the same signature, or the same object when it did nothing. It never
mutates, never prints, and keeps every refusal with its reason. The manager, not the pass, checks
this and measures what the pass bought.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tracer.errors import Source
from tracer.ir import Graph, effects_of, map_bodies
from tracer.ir.verify import verify, verify_same_signature
from tracer.optimizer.budget import spend
from tracer.optimizer.model.liveness import graph_flops, node_count, peak_bytes
from tracer.optimizer.model.numbers import Numbers
from tracer.optimizer.progress import tell
from tracer.optimizer.trail import leave_step


@dataclass(frozen=True)
class Refusal:
    """Something a pass looked at and left alone, and why."""

    subject: str
    reason: str
    source: Source | None = None

    def __str__(self) -> str:
        place = f"  ({self.source})" if self.source else ""
        return f"{self.subject}: {self.reason}{place}"


@dataclass
class PassLog:
    """What one run of a pass reports: rewrites applied and refusals."""

    applied: list[str] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)

    def refuse(self, subject: str, reason: str, source: Source | None = None) -> None:
        """Keep a refusal."""
        self.refusals.append(Refusal(subject, reason, source))


@dataclass(frozen=True)
class Pass:
    """A named rewrite of a graph.

    Parameters
    ----------
    name : str
        The pass's textbook name.
    run : callable
        `(graph, log) -> graph`.
    exact : bool
        True when the result is bit for bit the same; otherwise the pass's module says how far
        results may differ.
    bodies : bool
        True when the bodies of loops and branches are rewritten like any graph; a pass that is
        False looks after them itself.
    writes_out_cost : bool
        True when the result spells out what the cost of the nodes that it replaces has already, or
        stores no more than a few hundred kilobytes: the model knows the forms before, and would
        count those behind twice, so it is not asked again.
    """

    name: str
    run: Callable[[Graph, PassLog], Graph]
    exact: bool = True
    bodies: bool = True
    writes_out_cost: bool = False

    @property
    def option(self) -> str:
        """The name that switches the pass off."""
        return "-".join(self.name.split())


@dataclass(frozen=True)
class PassRow:
    """One line of the plan's table: a pass and what it changed."""

    name: str
    seconds: float
    peak_bytes_before: int
    peak_bytes_after: int
    flops_before: int
    flops_after: int
    nodes_before: int
    nodes_after: int
    applied: tuple[str, ...]
    refusals: tuple[Refusal, ...]


@dataclass(frozen=True)
class _Measure:
    """What the manager compares before and after a pass."""

    graph: Graph
    peak_bytes: int
    flops: int
    nodes: int


class PassManager:
    """Runs passes in order, bodies before what holds them, and keeps a row for each pass.

    Every output is verified against the input's signature.
    """

    def __init__(self) -> None:
        self.rows: list[PassRow] = []
        self._last: _Measure | None = None

    def run(self, graph: Graph, passes: Sequence[Pass]) -> Graph:
        """Run `passes` over `graph` and return the last result.

        Raises
        ------
        VerifyError
            A pass broke the graph: a bug of ours.
        """
        for item in passes:
            graph = self._run_one(graph, item)
        return graph

    def _run_one(self, graph: Graph, item: Pass) -> Graph:
        tell(item.name)
        log = PassLog()
        before = self._measure(graph)
        spend(before.nodes)
        start = time.perf_counter()
        result = _Run(item).run(graph, log)
        if result is not graph and effects_of(result) != effects_of(graph):
            # A body that is cut runs more often; one without a result is easily left out.
            result, log = graph, _refused(item, graph)
        seconds = time.perf_counter() - start
        if result is not graph:
            verify(result)
            verify_same_signature(graph, result)
            leave_step(item.name, graph, result, log.applied)
        known = before.peak_bytes if item.writes_out_cost else None
        after = self._measure(result, known)
        self.rows.append(
            PassRow(
                name=item.name,
                seconds=seconds,
                peak_bytes_before=before.peak_bytes,
                peak_bytes_after=after.peak_bytes,
                flops_before=before.flops,
                flops_after=after.flops,
                nodes_before=before.nodes,
                nodes_after=after.nodes,
                applied=tuple(log.applied),
                refusals=tuple(log.refusals),
            )
        )
        return result

    def _measure(self, graph: Graph, peak: int | None = None) -> _Measure:
        if self._last is None or self._last.graph is not graph:
            peak = peak_bytes(graph) if peak is None else peak
            flops, nodes = _COUNTS(graph)
            self._last = _Measure(graph, peak, flops, nodes)
        return self._last


def _refused(item: Pass, graph: Graph) -> PassLog:
    """Return what is said of a rewrite that would change how often a program calls Python."""
    log = PassLog()
    node = next(node for node in graph.nodes if node.has_effect)
    log.refuse(
        item.name,
        f"{node.name} would run in other loops, more or less often, or in another order",
        node.source,
    )
    return log


_COUNTS = Numbers(lambda graph: (graph_flops(graph), node_count(graph)))


class _Run:
    """One run of a pass; a body that several loops share is rewritten once."""

    def __init__(self, item: Pass) -> None:
        self.item = item
        self.bodies: dict[Graph, tuple[Graph, PassLog]] = {}

    def run(self, graph: Graph, log: PassLog) -> Graph:
        if self.item.bodies:
            graph = map_bodies(graph, lambda body: self._run_body(body, log))
        return self.item.run(graph, log)

    def _run_body(self, body: Graph, log: PassLog) -> Graph:
        if body not in self.bodies:
            own = PassLog()
            self.bodies[body] = self.run(body, own), own
        found, own = self.bodies[body]
        log.applied.extend(own.applied)
        log.refusals.extend(own.refusals)
        return found
