"""Loops within functions: until all is done, or a known number of times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracer import ops, tree
from tracer.array.array import Array
from tracer.array.dispatch import apply, apply_many
from tracer.array.recording import Recording, recorded
from tracer.ir import Builder, Graph

Carry = Sequence[Array]
_INT32 = np.dtype(np.int32)


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


def iterate_nested(unfinished: Callable[..., Array], step: Callable[..., Any], carry: Any) -> Any:
    """Apply a step as `iterate` does, to a carry that is nested: a tuple, whose parts it takes.

    Parameters
    ----------
    unfinished : callable
        `(*carry) -> bool scalar`. It closes over no arrays.
    step : callable
        `(*carry) -> carry`, nested alike. It may close over arrays.
    carry : tuple
        The first carry: arrays in any nesting.
    """
    leaves, structure = tree.flatten(carry)

    def flat(*arrays: Array) -> Any:
        return tree.leaves(step(*tree.unflatten(structure, arrays)))

    found = iterate(lambda *arrays: unfinished(*tree.unflatten(structure, arrays)), flat, leaves)
    return tree.unflatten(structure, found)


def repeat(
    count: int, step: Callable[..., Carry], carry: Carry, *, reverse: bool = False
) -> tuple[Array, ...]:
    """Apply a step for every number below `count`, which reverse mode goes through.

    Parameters
    ----------
    count : int
        How often.
    step : callable
        `(number, *carry) -> carry`, of the same types; the number is int32. It may close over
        arrays.
    carry : sequence of Array
        The first carry.
    reverse : bool
        Count down to 0.
    """
    if not count:
        return tuple(carry)
    numbers = apply(ops.iota, shape=(count,), dtype=_INT32, dimension=0)
    number = numbers.type.with_shape(())

    def record(recording: Recording) -> tuple[Graph, list[Array]]:
        *first, place = [recording.argument(t) for t in (*(x.type for x in carry), number)]
        return recording.finish(list(step(place, *first)))

    traced, closed = recorded(record)
    with Builder() as builder:
        types = (*(x.type for x in (*closed, *carry)), number)
        inputs = [builder.input(type) for type in types]
        body = builder.finish(
            builder.inline(traced, [*inputs[len(closed) :], *inputs[: len(closed)]])
        )
    return apply_many(
        ops.scan,
        *closed,
        *carry,
        numbers,
        body=body,
        length=count,
        num_consts=len(closed),
        num_carry=len(carry),
        reverse=reverse,
    )


def _traced(function: Callable[..., Any], carry: Carry) -> tuple[Graph, list[Array]]:
    def record(recording: Recording) -> tuple[Graph, list[Array]]:
        return recording.finish(list(function(*[recording.argument(x.type) for x in carry])))

    return recorded(record)


def _taking(graph: Graph, every: Carry, closed: int) -> Graph:
    """Return a body that takes the carry and what is closed over, and hands the latter on."""
    with Builder() as builder:
        inputs = [builder.input(x.type) for x in every]
        results = builder.inline(graph, inputs[: len(graph.inputs)])
        return builder.finish([*results, *(inputs[len(every) - closed :] if closed else ())])
