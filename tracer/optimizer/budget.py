"""How long the search for a program may take, counted in nodes that it looks at.

Not in seconds of a clock: a plan must not depend on how busy the machine is. What every search
needs is done whatever the budget; candidates beyond that are left out when it is spent.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar


class Budget:
    """The nodes that one search may look at.

    Parameters
    ----------
    nodes : float
        How many; infinity for a search to its end.

    Attributes
    ----------
    is_cut : bool
        Something was left out as the budget was spent.
    """

    def __init__(self, nodes: float) -> None:
        self.left = nodes
        self.is_cut = False


_BUDGET: ContextVar[Budget | None] = ContextVar("budget of a search", default=None)


B = TypeVar("B", Budget, None)


@contextmanager
def spending(budget: B) -> Iterator[B]:
    """Let searches inside, in this thread and context, spend a budget; None: as they like."""
    token = _BUDGET.set(budget)
    try:
        yield budget
    finally:
        _BUDGET.reset(token)


def spend(nodes: int) -> None:
    """Take nodes that are looked at from the budget, if there is one."""
    budget = _BUDGET.get()
    if budget is not None:
        budget.left -= nodes


def is_search_cut() -> bool:
    """Tell whether the search has left out candidates."""
    budget = _BUDGET.get()
    return budget is not None and budget.is_cut


def may_go_on() -> bool:
    """Tell whether to look at another candidate; without a budget always."""
    budget = _BUDGET.get()
    if budget is None or budget.left > 0:
        return True
    budget.is_cut = True
    return False


__all__ = ["Budget", "is_search_cut", "may_go_on", "spend", "spending"]
