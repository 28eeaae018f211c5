"""Which values to recompute: those that free the most bytes at the peak per second of arithmetic.

A value can be dropped at the peak if it is stored there but read only before and after. Its price
is its kernel's seconds by the time model, plus those of operands that are dead by then and too
large to keep instead. Dropped values that depend on each other form a *run*, which is recomputed,
and alive, at once, so what a value frees is discounted by what its run takes.

This is the size over cost of Kirisame et al., "Dynamic Tensor Rematerialization" (2021), with the
time model's seconds for the measured cost, the bytes at the predicted peak for staleness, and the
run's bytes for the cost of the evicted neighbourhood. On a chain of equal layers it drops runs of
equal length, as Chen et al., "Training Deep Nets with Sublinear Memory Cost" (2016), do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from tracer.ir import Node, Value
from tracer.optimizer.model.liveness import Liveness
from tracer.optimizer.model.storage import is_fused
from tracer.optimizer.remat.replay import Drops

# Of what a dropped value is made of, things of at most this share of its bytes are kept for it.
_KEPT_SHARE = 4


@dataclass(frozen=True)
class Choice:
    """Values to drop together, what that frees at the peak, and what it costs.

    Attributes
    ----------
    nodes : frozenset of Node
        Stored nodes.
    freed_bytes : int
    seconds : float
        By the time model.
    score : float
        Bytes a second, discounted by the bytes of the run.
    """

    nodes: frozenset[Node]
    freed_bytes: int
    seconds: float
    score: float


class Program:
    """What stays the same while values are chosen.

    Parameters
    ----------
    live : Liveness
        The program as it is.
    seconds : dict of Node to float
        What each of its kernels takes.
    """

    def __init__(self, live: Liveness, seconds: dict[Node, float]) -> None:
        self.live = live
        self.seconds = seconds
        self.time = {node: time for time, node in enumerate(live.schedule)}
        self.leaves = {node: tuple(live.buffers_read(node)) for node in live.schedule}
        self.refused: dict[Node, str] = {}
        self._neighbours: dict[Node, list[Node]] = {node: [] for node in live.schedule}
        for node in live.schedule:
            for value in self.leaves[node]:
                if value.node in self._neighbours:
                    self._neighbours[value.node].append(node)
                    self._neighbours[node].append(value.node)
            reason = self._why_once(node)
            if reason is not None:
                self.refused[node] = reason

    def _why_once(self, node: Node) -> str | None:
        """Return why a value must not be recomputed."""
        assert node.op is not None
        if any(value in self.live.outputs for value in node.results):
            return "it is a result of the program"
        if not all(inner.is_pure for inner in self.live.kernels(node)):
            return f"{node.op.name} must not run again"
        if node.body_graphs:
            return f"it is the result of a {node.op.name}"
        if node in self.live.again:
            return "the kernels that read it compute it again as it is"
        if not self.leaves[node]:
            return "it is made of nothing that a barrier could hold back"
        return None

    def touches(self, nodes: Iterable[Node], others: set[Node]) -> bool:
        """Tell whether nodes are among others, depend on them, or the others on these."""
        return any(
            node in others or any(other in others for other in self._neighbours[node])
            for node in nodes
        )

    def run(self, nodes: Iterable[Node], drops: Drops) -> set[Node]:
        """Return nodes with all dropped ones that depend on them, or they on those."""
        found = set(nodes)
        stack = list(found)
        while stack:
            for other in self._neighbours[stack.pop()]:
                if other in drops and other not in found:
                    found.add(other)
                    stack.append(other)
        return found


@dataclass(frozen=True)
class Peak:
    """When the bytes alive are the most, and when values are read.

    Attributes
    ----------
    time : int
        The task at the peak.
    reads : dict of Value to list of int
        For each stored value of the old program the tasks that read its first computation.
    """

    time: int
    reads: dict[Value, list[int]]


def choices(program: Program, peak: Peak, drops: Drops, least: int) -> list[Choice]:
    """Return what can be dropped at a peak to free at least that many bytes each, best first."""
    found = []
    for node in program.live.schedule[: peak.time]:
        if node in drops or _nbytes(node) < least:
            continue
        choice = _choice(program, peak, drops, node)
        if choice is not None and choice.freed_bytes >= least:
            found.append(choice)
    return sorted(found, key=lambda choice: -choice.score)


def _choice(program: Program, peak: Peak, drops: Drops, node: Node) -> Choice | None:
    later = _next_read(peak, node)
    if later is None or node in program.refused:
        return None
    freed = sum(v.type.nbytes for v in node.results if max(peak.reads.get(v, [0])) > peak.time)
    nodes, kept = _made_of(program, peak, drops, node)
    # Exact, whatever the order of a set: equal layers must come out equal.
    seconds = math.fsum(program.seconds[item] for item in nodes)
    freed -= kept
    run = sum(map(_nbytes, program.run(nodes, drops)))
    return Choice(nodes, freed, seconds, freed * freed / (seconds * max(1, run)))


def _next_read(peak: Peak, node: Node) -> int | None:
    """Return the first read after the peak; None if there is none, or one at the peak itself."""
    reads = [time for value in node.results for time in peak.reads.get(value, ())]
    if peak.time in reads:
        return None
    return min((time for time in reads if time > peak.time), default=None)


def _made_of(program: Program, peak: Peak, drops: Drops, node: Node) -> tuple[frozenset[Node], int]:
    """Return the nodes to recompute for one, and the bytes to keep for them over the peak."""
    nodes, kept = {node}, dict[Value, int]()
    stack = list(program.leaves[node])
    while stack:
        value = stack.pop()
        maker = value.node
        if maker in drops or maker in nodes or not _is_dead(program, peak, value):
            continue
        is_small = _KEPT_SHARE * value.type.nbytes <= _nbytes(node)
        if is_small or maker.op is None or maker in program.refused:
            kept[value] = value.type.nbytes
        else:
            nodes.add(maker)
            stack += program.leaves[maker]
    return frozenset(nodes), sum(kept.values())


def _is_dead(program: Program, peak: Peak, value: Value) -> bool:
    """Tell whether the memory of a value is free, or another's, by the peak."""
    live = program.live
    if value in live.outputs or (value in live.inputs and live.inputs[value] not in live.donated):
        return False
    return max(peak.reads.get(value, [0])) <= peak.time


def reading(live: Liveness, node: Node) -> set[Value]:
    """Return the stored values that a kernel reads, also for those that it recomputes."""
    found = set(live.buffers_read(node))
    if is_fused(node):
        stack = [value for value in found if value.node in live.again]
        while stack:
            for value in live.buffers_read(stack.pop().node):
                if value not in found and value.node in live.again:
                    stack.append(value)
                found.add(value)
    return found


def _nbytes(node: Node) -> int:
    return sum(type.nbytes for type in node.types)


__all__ = ["Choice", "Peak", "Program", "choices", "reading"]
