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

from tracer.ir import Graph
from tracer.ir.verify import verify, verify_same_signature
from tracer.optimizer.liveness import graph_flops, node_count, peak_bytes
from tracer.source import Source


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
    """

    name: str
    run: Callable[[Graph, PassLog], Graph]
    exact: bool = True


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


class PassManager:
    """Runs passes in order, verifies each output and keeps a row for each."""

    def __init__(self) -> None:
        self.rows: list[PassRow] = []

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
        log = PassLog()
        start = time.perf_counter()
        result = item.run(graph, log)
        seconds = time.perf_counter() - start
        if result is not graph:
            verify(result)
            verify_same_signature(graph, result)
        self.rows.append(
            PassRow(
                item.name,
                seconds,
                peak_bytes(graph),
                peak_bytes(result),
                graph_flops(graph),
                graph_flops(result),
                node_count(graph),
                node_count(result),
                tuple(log.applied),
                tuple(log.refusals),
            )
        )
        return result
