"""The named axes of the calls of `vmap` that a function is traced within."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from tracer.array.array import Array
from tracer.errors import ArgumentError


@dataclass(frozen=True)
class NamedAxis:
    """One axis.

    Attributes
    ----------
    name : hashable
        What `vmap` calls it.
    size : int
        Elements along it.
    index : Array, int32
        The number of the element that is traced.
    """

    name: Hashable
    size: int
    index: Array


_AXES: ContextVar[tuple[NamedAxis, ...]] = ContextVar("named axes", default=())


@contextmanager
def within(axis: NamedAxis) -> Iterator[None]:
    """Let functions that are traced here find an axis."""
    token = _AXES.set((*_AXES.get(), axis))
    try:
        yield
    finally:
        _AXES.reset(token)


def named_axis(what: str, name: Hashable) -> NamedAxis:
    """Return the innermost axis of a name.

    Raises
    ------
    ArgumentError
        There is none.
    """
    known = _AXES.get()
    for axis in reversed(known):
        if axis.name == name:
            return axis
    names = ", ".join(repr(axis.name) for axis in known) or "none"
    raise ArgumentError(
        f"{what}: no axis is named {name!r} here; there are: {names}",
        mend="call it in a function that vmap(..., axis_name=...) maps",
    )
