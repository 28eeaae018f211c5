"""Splitting as a pass."""

from __future__ import annotations

from tracer.ir import Graph
from tracer.optimizer.loops.split.alike import SplitCache
from tracer.optimizer.loops.split.chunk import SplitSettings
from tracer.optimizer.loops.split.distribution import without_unread_carries
from tracer.optimizer.loops.split.driver import LoopRow, split_graph
from tracer.optimizer.loops.split.outline import outlined, written_out
from tracer.optimizer.loops.split.scratch import with_views_of_inputs
from tracer.optimizer.loops.split.search import largest_bytes
from tracer.optimizer.passes import Pass, PassLog


def split_pass(
    settings: SplitSettings, loops: list[LoopRow], alike: SplitCache | None = None
) -> Pass:
    """Return the pass that computes large values in slices; its loops are added to `loops`."""

    def run(graph: Graph, log: PassLog) -> Graph:
        if settings.cut_scratch:
            graph = with_views_of_inputs(graph, settings.threshold_bytes)
        if settings.cut_loops:
            graph = _with_loops_cut(graph, settings, loops, log, alike)
        result, rows = split_graph(graph, settings, log, alike)
        loops.extend(rows)
        return result

    return Pass("split", run, exact=False, bodies=False)


def _with_loops_cut(
    graph: Graph,
    settings: SplitSettings,
    loops: list[LoopRow],
    log: PassLog,
    alike: SplitCache | None,
) -> Graph:
    """Cut what contains loops over steps, along axes that all steps leave alone."""
    calls = outlined(graph, lambda node: largest_bytes(node) > settings.threshold_bytes)
    if calls is graph:
        return graph
    inner = PassLog()
    cut, rows = split_graph(calls, settings, inner, alike, calls_only=True)
    if not rows:
        return graph
    loops.extend(rows)
    log.applied.extend(inner.applied)
    return without_unread_carries(written_out(cut))


__all__ = ["split_pass"]
