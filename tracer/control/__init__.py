"""Loops and branches whose bodies are functions. Each body is traced once; each call is one op.

Bodies may close over arrays, traced or not; these become operands of the op. Names, argument order
and semantics are those of `jax.lax`.
"""

from tracer.control.associative import associative_scan
from tracer.control.branches import cond, switch
from tracer.control.callbacks import pure_callback
from tracer.control.loops import fori_loop, while_loop
from tracer.control.mapping import map  # noqa: A004 - named as in JAX
from tracer.control.scanning import scan

__all__ = [
    "associative_scan",
    "cond",
    "fori_loop",
    "map",
    "pure_callback",
    "scan",
    "switch",
    "while_loop",
]
