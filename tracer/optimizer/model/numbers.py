"""Numbers that were worked out for programs, found again for equal ones.

Planning asks the same of many graphs that are the same program: of equal layers, of slices of the
same size under other settings, before and after a pass that changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from tracer.ir import Graph
from tracer.target import Target, current_target

T = TypeVar("T")

_MOST = 20_000
"""Programs that are remembered; a few megabytes."""


class Numbers(Generic[T]):
    """What a function gives for a program on the current target, by the program's fingerprint.

    Parameters
    ----------
    find : callable
        `(graph, *others) -> result`, determined by the program, the target and the others.
    """

    def __init__(self, find: Callable[..., T]) -> None:
        self.find = find
        self._known: dict[tuple[str, Target, tuple[Hashable, ...]], T] = {}

    def __call__(self, graph: Graph, *others: Hashable) -> T:
        """Return what is known for the program, or find it."""
        key = graph.fingerprint, current_target(), others
        found = self._known.get(key)
        if found is None:
            found = self.find(graph, *others)
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[key] = found
        return found


__all__ = ["Numbers"]
