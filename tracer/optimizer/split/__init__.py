"""Splitting: large values are computed slice by slice inside loops."""

from tracer.optimizer.split.chunk import SplitSettings
from tracer.optimizer.split.driver import LoopRow, split_graph

__all__ = ["LoopRow", "SplitSettings", "split_graph"]
