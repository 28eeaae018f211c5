"""Loops whose state is taken apart, and loops that change places with another one."""

from tracer.optimizer.loop_fusion.scalar_replacement import scalar_replacement_pass

__all__ = ["scalar_replacement_pass"]
