"""Minima of functions, as `jax.scipy.optimize`: `minimize`."""

from tracer.scipy.optimize.minimization import OptimizeResults, minimize

__all__ = ["OptimizeResults", "minimize"]
