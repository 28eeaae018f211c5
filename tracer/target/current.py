"""The target that programs are planned for now."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

from tracer.target.host import host_target
from tracer.target.record import Target

_CURRENT: ContextVar[Target | None] = ContextVar("_CURRENT", default=None)


@contextmanager
def planned_for(target: Target) -> Iterator[None]:
    """Predict what a target stores, inside of the context."""
    token = _CURRENT.set(target)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current_target() -> Target:
    """Return the target that programs are planned for; this processor outside of a context."""
    return _CURRENT.get() or _host()


@cache
def _host() -> Target:
    return host_target()


__all__ = ["current_target", "planned_for"]
