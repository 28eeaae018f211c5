"""Splitting: large values are computed slice by slice inside loops."""

from tracer.optimizer.loops.split.alike import SplitCache
from tracer.optimizer.loops.split.as_pass import split_pass
from tracer.optimizer.loops.split.beam import Cut, least_cuts
from tracer.optimizer.loops.split.chunk import SplitSettings
from tracer.optimizer.loops.split.driver import LoopRow, split_graph

__all__ = [
    "Cut",
    "LoopRow",
    "SplitCache",
    "SplitSettings",
    "least_cuts",
    "split_graph",
    "split_pass",
]
