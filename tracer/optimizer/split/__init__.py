"""Splitting: large values are computed slice by slice inside loops."""

from tracer.optimizer.split.alike import Alike
from tracer.optimizer.split.chunk import SplitSettings
from tracer.optimizer.split.driver import LoopRow, split_graph

__all__ = ["Alike", "LoopRow", "SplitSettings", "split_graph"]
