"""A search over what to cut, and along which axes, for the least memory.

The pass *split* takes one value after the other, the largest first, along the axis that saves about
the most and computes least again. Another axis may leave less alive beside it. Here each value is
cut along each axis, in trips of one step, and of all programs the few that are predicted to take
least are cut again. Source: beam search, Lowerre, "The Harpy speech recognition system" (1976).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tracer.ir import Graph
from tracer.optimizer.budget import may_go_on, spend
from tracer.optimizer.loops.split.alike import SplitCache
from tracer.optimizer.loops.split.chunk import SplitSettings
from tracer.optimizer.loops.split.driver import LoopRow, write_candidates
from tracer.optimizer.loops.split.region import NO_PIECES, Pieces, Subject
from tracer.optimizer.loops.split.search import RegionSearch
from tracer.optimizer.model.costs import node_count
from tracer.optimizer.passes import PassLog

# Cuts in a row, and the programs that are cut again: more found nothing smaller in 100 programs.
_CUTS = 3
_WIDTH = 6


@dataclass(frozen=True)
class Cut:
    """A program with loops, and what wrote them.

    Attributes
    ----------
    graph : Graph
    loops : tuple of LoopRow
    applied : tuple of str
        What the pass tells of each loop.
    """

    graph: Graph
    loops: tuple[LoopRow, ...] = ()
    applied: tuple[str, ...] = ()
    pieces: Pieces = NO_PIECES


def least_cuts(graph: Graph, settings: SplitSettings, peak_of: Callable[[Graph], int]) -> list[Cut]:
    """Return the programs that are predicted to take least, of those that cuts in steps lead to.

    Parameters
    ----------
    graph : Graph
    settings : SplitSettings
        Those of trips in steps.
    peak_of : callable
        Predicts the bytes of a program.

    Returns
    -------
    list of Cut
        At most six, the smallest first; what is left when the search's budget is spent.
    """
    known: dict[str, tuple[int, Cut]] = {}
    front = [Cut(graph)]
    for _ in range(_CUTS):
        found: dict[str, tuple[int, Cut]] = {}
        for cut in front:
            for after in _cut_again(cut, settings):
                if after.graph.fingerprint not in known:
                    item = peak_of(after.graph), after
                    known[after.graph.fingerprint] = found[after.graph.fingerprint] = item
        front = _least(found)
    return _least(known)


def _least(found: dict[str, tuple[int, Cut]]) -> list[Cut]:
    return [cut for _, cut in sorted(found.values(), key=lambda item: item[0])[:_WIDTH]]


def _cut_again(cut: Cut, settings: SplitSettings) -> Iterator[Cut]:
    """Yield a program with one more value cut: each, along each of its axes."""
    search = RegionSearch(Subject(cut.graph, cut.pieces), settings, {})
    for candidate in search.cuts():
        if not may_go_on():
            return
        log = PassLog()
        graph, rows, pieces = write_candidates(search, [candidate], log, SplitCache(), 0)
        spend(node_count(graph))
        loops, applied = (*cut.loops, *rows), (*cut.applied, *log.applied)
        yield replace(cut, graph=graph, loops=loops, applied=applied, pieces=pieces)


__all__ = ["Cut", "least_cuts"]
