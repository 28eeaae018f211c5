"""SciPy's functions on arrays that can be traced: `linalg`, `signal`, `special`, `stats`, ..."""

from tracer.scipy import linalg, ndimage, signal, sparse, special, stats

__all__ = ["linalg", "ndimage", "signal", "sparse", "special", "stats"]
