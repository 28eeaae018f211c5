"""Splitting as a pass."""

from __future__ import annotations

from tracer.ir import Graph
from tracer.optimizer.loops.split.alike import SplitCache
from tracer.optimizer.loops.split.chunk import SplitSettings
from tracer.optimizer.loops.split.driver import LoopRow, split_graph
from tracer.optimizer.loops.split.scratch import with_views_of_inputs
from tracer.optimizer.passes import Pass, PassLog


def split_pass(
    settings: SplitSettings, loops: list[LoopRow], alike: SplitCache | None = None
) -> Pass:
    """Return the pass that computes large values in slices; its loops are added to `loops`."""

    def run(graph: Graph, log: PassLog) -> Graph:
        if settings.cut_scratch:
            graph = with_views_of_inputs(graph, settings.threshold_bytes)
        result, rows = split_graph(graph, settings, log, alike)
        loops.extend(rows)
        return result

    return Pass("split", run, exact=False, bodies=False)


__all__ = ["split_pass"]
