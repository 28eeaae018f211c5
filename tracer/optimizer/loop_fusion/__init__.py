"""Loops over the parts of a state, written out, as one function, and in lanes."""

from tracer.optimizer.loop_fusion.interchange import INTERCHANGE_NAME, Lanes, interchange_row
from tracer.optimizer.loop_fusion.scalar_replacement import scalar_replacement_pass
from tracer.optimizer.loop_fusion.small_calls import SMALL_CALLS_NAME, small_calls_pass
from tracer.optimizer.loop_fusion.unrolling import unrolling_pass

__all__ = [
    "INTERCHANGE_NAME",
    "SMALL_CALLS_NAME",
    "Lanes",
    "interchange_row",
    "scalar_replacement_pass",
    "small_calls_pass",
    "unrolling_pass",
]
