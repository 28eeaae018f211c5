"""SciPy's functions on arrays that can be traced: `linalg` and `special`."""

from tracer.scipy import linalg, special

__all__ = ["linalg", "special"]
