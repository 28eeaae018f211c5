"""SciPy's functions on arrays that can be traced: `linalg`, `sparse`, `special`, `stats`."""

from tracer.scipy import linalg, sparse, special, stats

__all__ = ["linalg", "sparse", "special", "stats"]
