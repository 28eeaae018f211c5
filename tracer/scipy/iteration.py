"""Loops within functions: until all is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tracer import ops
from tracer.array.array import Array
from tracer.array.dispatch import apply_many
from tracer.array.recording import Recording
from tracer.ir import Builder, Graph

Carry = Sequence[Array]


def iterate(
    unfinished: Callable[..., Array], step: Callable[..., Carry], carry: Carry
) -> tuple[Array, ...]:
    """Apply a step as long as a scalar condition holds.

    Parameters
    ----------
    unfinished : callable
        `(*carry) -> bool scalar`. It closes over no arrays.
    step : callable
        `(*carry) -> carry`, of the same types. It may close over arrays.
    carry : sequence of Array
        The first carry.
    """
    body, closed = _traced(step, carry)
    condition, none = _traced(lambda *arrays: [unfinished(*arrays)], carry)
    assert not none
    every = [*carry, *closed]
    results = apply_many(
        ops.while_,
        *every,
        condition=_taking(condition, every, 0),
        body=_taking(body, every, len(closed)),
    )
    return results[: len(carry)]


def _traced(function: Callable[..., Any], carry: Carry) -> tuple[Graph, list[Array]]:
    with Recording() as recording:
        results = function(*[recording.argument(x.type) for x in carry])
        return recording.finish(list(results))


def _taking(graph: Graph, every: Carry, closed: int) -> Graph:
    """Return a body that takes the carry and what is closed over, and hands the latter on."""
    with Builder() as builder:
        inputs = [builder.input(x.type) for x in every]
        results = builder.inline(graph, inputs[: len(graph.inputs)])
        return builder.finish([*results, *(inputs[len(every) - closed :] if closed else ())])
