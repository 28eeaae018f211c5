"""Loops whose state is taken apart, and loops that run as one function."""

from tracer.optimizer.loop_fusion.scalar_replacement import scalar_replacement_pass
from tracer.optimizer.loop_fusion.small_calls import SMALL_CALLS_NAME, small_calls_pass

__all__ = ["SMALL_CALLS_NAME", "scalar_replacement_pass", "small_calls_pass"]
