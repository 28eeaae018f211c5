"""Drop values at the peak repeatedly until the prediction is within the limit."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from tracer.ir import Graph, Node, Value
from tracer.optimizer.model.costs import node_cost
from tracer.optimizer.model.liveness import Liveness
from tracer.optimizer.model.speed import kernel_seconds
from tracer.optimizer.remat.choose import Choice, Peak, Program, choices, reading
from tracer.optimizer.remat.lineage import Lineage
from tracer.optimizer.remat.replay import Replay, replay
from tracer.optimizer.remat.sums import read_from_memory
from tracer.target import Target

# Values of less than this part of the peak are left alone: each has its own barrier and kernel.
_SMALL_SHARE = 512
# The part of the peak that is freed at a time.
_STEPS = 16
# Choices with at least this share of the best one's score are taken with it.
_ABOUT = 0.7
# Values that are dropped and then tried without, the dearest first.
_MOST_TAKEN_BACK = 24


@dataclass(frozen=True)
class RecomputedProgram:
    """A program with recomputed values.

    Attributes
    ----------
    graph : Graph
    drops : dict of Node to int
        The nodes of the old program, with the last task that reads the first computation.
    peak_bytes : int
        By the peak model.
    """

    graph: Graph
    drops: dict[Node, int]
    peak_bytes: int


class RecomputationSearch:
    """Looks for the values of one program to recompute.

    Parameters
    ----------
    graph : Graph
        The program.
    donated : frozenset of int
        Inputs whose memory may be overwritten.
    machine : Target
        What decides between values.
    is_body : bool
        The graph is the body of a loop or a branch.
    """

    def __init__(
        self, graph: Graph, donated: frozenset[int], machine: Target, *, is_body: bool = False
    ) -> None:
        self.donated = donated
        self.is_body = is_body
        self.live = read_from_memory(Liveness(graph, donated, is_body=is_body))
        graph = self.live.graph
        self._tests_equality = Lineage(graph).is_needed
        self.program = Program(self.live, kernel_seconds(graph, machine))
        self._path = [RecomputedProgram(graph, {}, self.live.peak_bytes)]
        self._is_done = False
        self._latest: tuple[RecomputedProgram, Replay, Liveness] | None = None

    def run(self, limit: int) -> RecomputedProgram:
        """Return the program that keeps the limit at the least cost, or the smallest one found."""
        for found in self._steps():
            if found.peak_bytes <= limit:
                return self._with_less(found, limit)
        return min(self._path, key=lambda found: found.peak_bytes)

    def _steps(self) -> Iterator[RecomputedProgram]:
        """Yield programs with more and more dropped, the same for every limit, each found once."""
        for step in itertools.count():
            while step >= len(self._path):
                more = None if self._is_done else self._more(self._path[-1])
                if more is None:
                    self._is_done = True
                    return
                self._path.append(more)
            yield self._path[step]

    def flops(self, node: Node) -> int:
        """Return the operations of recomputing a value."""
        return sum(node_cost(inner).flops for inner in self.live.kernels(node))

    def refusals(self, found: RecomputedProgram) -> dict[Node, str]:
        """Return the large values alive at a program's peak, and why they are left alone."""
        _, made, live = self._written(found.drops)
        if not live.timeline:
            return {}
        peak = _peak(made, live)
        least = found.peak_bytes // _SMALL_SHARE
        return {
            node: reason
            for node, reason in self.program.refused.items()
            if sum(type.nbytes for type in node.types) > least
            and self.program.time[node] <= peak.time
            and any(max(peak.reads.get(value, [0])) > peak.time for value in node.results)
        }

    def _written(self, drops: dict[Node, int]) -> tuple[RecomputedProgram, Replay, Liveness]:
        # Each step begins with the program that the last one ended with.
        if self._latest is None or self._latest[0].drops is not drops:
            made = replay(self.live, drops)
            live = Liveness(made.graph, self.donated, is_body=self.is_body)
            self._latest = RecomputedProgram(made.graph, drops, live.peak_bytes), made, live
        return self._latest

    def _more(self, found: RecomputedProgram) -> RecomputedProgram | None:
        """Drop values that free some of what is alive at the peak; None if there are none.

        Only some: the peak moves to where they are computed again, where others free more.
        """
        _, made, live = self._written(found.drops)
        if not live.timeline:
            return None
        peak = _peak(made, live)
        least = max(1, found.peak_bytes // _SMALL_SHARE)
        excess = max(1, found.peak_bytes // _STEPS)
        drops = dict(found.drops)
        while excess > 0:
            freed = self._drop(self.ranked(peak, drops, least), peak, drops, excess)
            if freed is None:
                break
            excess -= freed
        return self._written(drops)[0] if len(drops) > len(found.drops) else None

    def ranked(self, peak: Peak, drops: dict[Node, int], least: int) -> list[Choice]:
        """Return what to drop at a peak to free at least that many bytes each, best first."""
        return choices(self.program, peak, drops, least)

    def _drop(
        self, ranked: list[Choice], peak: Peak, drops: dict[Node, int], excess: int
    ) -> int | None:
        """Drop the best choices, as long as they are about as good and no part of one run.

        Returns
        -------
        int or None
            The bytes freed; None if there is no choice.
        """
        freed = 0
        taken: set[Node] = set()
        for choice in ranked:
            if freed >= excess or choice.score < _ABOUT * ranked[0].score:
                break
            if self.program.touches(choice.nodes, taken):
                continue
            nodes = sorted(choice.nodes, key=self.program.time.__getitem__)
            chosen = dict.fromkeys(nodes, peak.time)
            if self._meets_itself({**drops, **chosen}):
                why = "it is compared for equality with what its first computation gave"
                self.program.refused.update(dict.fromkeys(choice.nodes, why))
                continue
            drops |= chosen
            taken |= choice.nodes
            freed += choice.freed_bytes
        return freed if ranked else None

    def _meets_itself(self, drops: dict[Node, int]) -> bool:
        return self._tests_equality and replay(self.live, drops).meets_itself

    def _with_less(self, found: RecomputedProgram, limit: int) -> RecomputedProgram:
        """Undo unnecessary drops, the most expensive first."""
        seconds, time = self.program.seconds, self.program.time
        drops = sorted(found.drops, key=lambda node: (-seconds[node], time[node]))
        dearest = drops[:_MOST_TAKEN_BACK]
        _, kept, live = self._written(found.drops)
        for node in dearest:
            if not _has_room(node, kept, live, found.drops[node], limit):
                continue
            fewer = {other: time for other, time in found.drops.items() if other is not node}
            tried, made, less = self._written(fewer)
            if tried.peak_bytes <= limit and not made.meets_itself:
                found, kept, live = tried, made, less
        return found


def _has_room(node: Node, made: Replay, live: Liveness, dropped: int, limit: int) -> bool:
    """Tell whether there is room to keep a dropped value after all, as far as that is plain.

    Only writing the program without the drop tells for certain, which is slow if there are many.
    """
    again = made.copied.get(node, len(made.times))
    between = [
        moment.live_bytes for moment in live.timeline if dropped < made.times[moment.node] < again
    ]
    nbytes = sum(type.nbytes for type in node.types)
    # What is kept for the value to be made of may go then: much less than itself.
    return max(between, default=0) + nbytes // 2 <= limit


def _peak(made: Replay, live: Liveness) -> Peak:
    """Find the peak, and when the first computations are read."""
    moment = max(live.timeline, key=lambda moment: moment.live_bytes)
    reads: dict[Value, list[int]] = {}
    for node in live.schedule:
        for name in reading(live, node):
            value = made.origin.get(name)
            if value is not None:
                reads.setdefault(value, []).append(made.times[node])
    return Peak(made.times[moment.node], reads)


__all__ = ["RecomputationSearch", "RecomputedProgram"]
