"""Whether what is differentiated now is for tangents only.

A pull-back that is made to be transposed is never run: it is read at zero cotangents only. So ops
without a pull-back, such as loops of unknown length, may take part in it if they have a
push-forward. It holds for all bodies within, so it is a context variable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tracer.ir import Graph

_FORWARD: ContextVar[Callable[..., Graph] | None] = ContextVar("forward mode", default=None)


def forward_mode() -> Callable[..., Graph] | None:
    """Return `jvp_graph` where pull-backs are made to be transposed, else None."""
    return _FORWARD.get()


@contextmanager
def in_forward_mode(jvp_graph: Callable[..., Graph]) -> Iterator[None]:
    """Make pull-backs within the context for tangents only.

    Parameters
    ----------
    jvp_graph : callable
        What differentiates bodies.
    """
    token = _FORWARD.set(jvp_graph)
    try:
        yield
    finally:
        _FORWARD.reset(token)


__all__ = ["forward_mode", "in_forward_mode"]
