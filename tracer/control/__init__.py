"""Loops and branches whose bodies are functions: traced once, then one op each.

Bodies may close over arrays, traced or not; those become operands of the op. The names, the
argument order and the meaning are those of `jax.lax`.
"""

from tracer.control.associative import associative_scan
from tracer.control.branches import cond, switch
from tracer.control.loops import fori_loop, while_loop
from tracer.control.mapping import map  # noqa: A004 - named as in JAX
from tracer.control.scanning import scan

__all__ = ["associative_scan", "cond", "fori_loop", "map", "scan", "switch", "while_loop"]
