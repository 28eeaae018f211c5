"""The gradients of extremes that one cut cannot serve get a matrix of their own each."""

from tracer.optimizer.loops.extremes.as_pass import separate_extremes_pass

__all__ = ["separate_extremes_pass"]
