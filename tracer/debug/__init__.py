"""Look into programs while they run: in loops and branches, and in compiled functions."""

from tracer.control.callbacks import debug_callback as callback
from tracer.control.callbacks import debug_print as print  # noqa: A004 - named as in JAX
from tracer.debug.interruption import interruptible
from tracer.debug.nan_search import nans
from tracer.debug.progress import progress

__all__ = ["callback", "interruptible", "nans", "print", "progress"]
