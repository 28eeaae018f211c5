"""SciPy's functions on arrays that can be traced, one module for each of SciPy's."""

from tracer.errors import missing_name as _missing_name
from tracer.scipy import linalg, ndimage, optimize, signal, sparse, special, stats

__all__ = ["linalg", "ndimage", "optimize", "signal", "sparse", "special", "stats"]

_ELSEWHERE = {
    "fft": "use tracer.numpy.fft",
    "integrate": "use tracer.numpy.trapezoid for samples, and steps of your own in tracer.scan for "
    "differential equations",
    "interpolate": "use tracer.numpy.interp, or tracer.scipy.ndimage.map_coordinates on grids",
    "spatial": "write distances out, ((x[:, None] - y[None]) ** 2).sum(-1): under a memory_limit "
    "the large array is not stored",
}
"""Modules of SciPy's that are something else here, and what."""


def __getattr__(name: str) -> object:
    """Say what to use instead of a module of SciPy's that is not here."""
    raise _missing_name("tracer.scipy", name, _ELSEWHERE.get(name))
