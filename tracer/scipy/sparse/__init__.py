"""Solvers that multiply by a matrix only: `tracer.scipy.sparse.linalg`."""

from tracer.scipy.sparse import linalg

__all__ = ["linalg"]
