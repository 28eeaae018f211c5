"""Who is told what a planner is doing, while it does it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[str], None]
_LISTENER: ContextVar[Listener | None] = ContextVar("listener of the planner", default=None)


@contextmanager
def told(listener: Listener) -> Iterator[None]:
    """Tell a listener what is done inside, in this thread and context."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def tell(what: str) -> None:
    """Say what is done next; nobody hears it by default."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(what)


__all__ = ["tell", "told"]
