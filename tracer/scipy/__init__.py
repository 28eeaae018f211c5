"""SciPy's functions on arrays that can be traced: linalg, optimize, sparse, special, stats."""

from tracer.scipy import linalg, optimize, sparse, special, stats

__all__ = ["linalg", "optimize", "sparse", "special", "stats"]
