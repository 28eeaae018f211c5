"""SciPy's functions on arrays that can be traced, one module for each of SciPy's."""

from tracer.scipy import linalg, ndimage, optimize, signal, sparse, special, stats

__all__ = ["linalg", "ndimage", "optimize", "signal", "sparse", "special", "stats"]
