"""Splitting: large values are computed slice by slice inside loops."""

from tracer.optimizer.loops.split.alike import Alike
from tracer.optimizer.loops.split.as_pass import split_pass
from tracer.optimizer.loops.split.chunk import SplitSettings
from tracer.optimizer.loops.split.driver import LoopRow, split_graph

__all__ = ["Alike", "LoopRow", "SplitSettings", "split_graph", "split_pass"]
