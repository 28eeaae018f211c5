"""Kirisame et al., "Dynamic Tensor Rematerialization" (ICLR 2021): its heuristic on our programs.

Their runtime drops the value with the smallest `cost / (bytes * staleness)` whenever memory is
full, where the cost is that of the value and of its neighbours that were dropped already
(h_DTR-eq, section 4.1), and staleness is the time since the value was read. Here the same rule
decides about a program that is known beforehand: memory is full at the predicted peak, costs are
the time model's, and time is counted in tasks.
"""

from __future__ import annotations

from dataclasses import replace

from tracer.ir import Node
from tracer.optimizer.remat import RecomputationSearch
from tracer.optimizer.remat.choose import Choice, Peak


class DynamicSearch(RecomputationSearch):
    """Our search with their order of values."""

    def ranked(self, peak: Peak, drops: dict[Node, int], least: int) -> list[Choice]:
        """Return what to drop at a peak, the smallest `cost / (bytes * staleness)` first."""
        found = [self._scored(choice, peak, drops) for choice in super().ranked(peak, drops, least)]
        return sorted(found, key=lambda choice: -choice.score)[:1]

    def _scored(self, choice: Choice, peak: Peak, drops: dict[Node, int]) -> Choice:
        program = self.program
        cost = sum(program.seconds[node] for node in program.run(choice.nodes, drops))
        reads = [
            time
            for node in choice.nodes
            for value in node.results
            for time in (program.time[node], *peak.reads.get(value, ()))
            if time <= peak.time
        ]
        staleness = peak.time - max(reads) + 1
        return replace(choice, score=choice.freed_bytes * staleness / cost)


__all__ = ["DynamicSearch"]
