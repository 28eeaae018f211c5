"""A loop that counts its trips, and rows at a place that is counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tracer import ops
from tracer.ir import Value
from tracer.ops import helpers

INT32 = np.dtype(np.int32)
State = list[Value]
Step = Callable[[Value, State, State], State]
"""Takes the count, what stays and what changes, and returns what changes."""


def counted_loop(count: int, kept: Sequence[Value], start: Sequence[Value], step: Step) -> State:
    """Write a loop that counts from 0, and return what it changes."""
    state = [helpers.scalar(0, INT32), *kept, *start]
    types = [value.type for value in state]
    with helpers.builder_at_source() as builder:
        place, *_ = (builder.input(type) for type in types)
        end = helpers.scalar(count, INT32)
        condition = builder.finish([ops.compare(place, end, direction="LT")])
    with helpers.builder_at_source() as builder:
        place, *inner = (builder.input(type) for type in types)
        same = inner[: len(kept)]
        found = step(place, same, inner[len(kept) :])
        body = builder.finish([helpers.shift(place, 1), *same, *found])
    return list(ops.while_(*state, condition=condition, body=body)[1 + len(kept) :])


def places_along(x: Value, place: Value, axis: int) -> State:
    """Return where a slice begins that is at a place of one axis and has the others whole."""
    return [place if i == axis else helpers.scalar(0, INT32) for i in range(x.type.ndim)]


__all__ = ["INT32", "State", "counted_loop", "places_along"]
