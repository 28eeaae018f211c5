"""The trail of a program: the graphs on its way through the passes to the compiled one.

A planner tries many candidates. While a trail is kept, every pass that changes a graph adds a step.
The steps of one program lead from its final graph back to the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from tracer.ir import Graph


@dataclass(frozen=True, eq=False)
class Step:
    """One pass that changed a graph.

    Attributes
    ----------
    name : str
        The pass.
    before, after : Graph
        What it was given, and what it made of it.
    applied : tuple of str
        What it says that it did.
    """

    name: str
    before: Graph
    after: Graph
    applied: tuple[str, ...]


_STEPS: ContextVar[list[Step] | None] = ContextVar("steps of passes", default=None)


@contextmanager
def kept_trail() -> Iterator[list[Step]]:
    """Keep what passes change, in this thread and context, in the list that is yielded."""
    steps: list[Step] = []
    token = _STEPS.set(steps)
    try:
        yield steps
    finally:
        _STEPS.reset(token)


def leave_step(name: str, before: Graph, after: Graph, applied: Sequence[str]) -> None:
    """Keep a step, if a trail is kept."""
    steps = _STEPS.get()
    if steps is not None:
        steps.append(Step(name, before, after, tuple(applied)))


def steps_to(graph: Graph, steps: Sequence[Step]) -> list[Step]:
    """Return the steps that led to a graph, the first one first.

    A graph that several steps made is that of the first one: the others found it again.
    """
    made: dict[str, Step] = {}
    for step in steps:
        made.setdefault(step.after.fingerprint, step)
    found: list[Step] = []
    seen: set[str] = set()
    key = graph.fingerprint
    while key in made and key not in seen:
        seen.add(key)
        found.insert(0, made[key])
        key = made[key].before.fingerprint
    return found


__all__ = ["Step", "kept_trail", "leave_step", "steps_to"]
