"""What a plan says of the program as it was traced."""

from __future__ import annotations

from tracer.compilation.wide_floats import wide_float_notes
from tracer.ir import Graph

_CALLS_PYTHON = (
    "calls Python while it runs: a call returns when all has run, and the program is not kept in "
    "a folder for programs"
)


def notes_on(graph: Graph) -> tuple[str, ...]:
    """Return the plan's notes on a traced program: wide floats, and calls of Python."""
    calls = (_CALLS_PYTHON,) if graph.calls_host else ()
    return (*wide_float_notes(graph), *calls)


__all__ = ["notes_on"]
