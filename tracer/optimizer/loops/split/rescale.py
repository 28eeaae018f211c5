"""Emit references and rescaling factors for streaming loops."""

from __future__ import annotations

from collections.abc import Callable

from tracer import ops
from tracer.ir import ShapeDtype, Value
from tracer.ops.helpers import convert, full, scale, where, zeros_like
from tracer.optimizer.loops.split.response import Places, Reference, Term

States = Callable[[Value], Value]
"""Gives the running maximum for the maximum's value in the graph."""


def reference_value(reference: Reference, running: States) -> Value:
    """Emit what replaces a value in a loop, in the type of the value."""
    type = reference.value.type
    if reference.anchor is None:
        return full(0 if reference.is_shift else 1, type)
    maximum = _finite(running(reference.anchor.maximum))
    return convert(_aligned(maximum, reference.anchor.places, type), type.dtype)


def rescaled(total: Value, terms: tuple[Term, ...], before: States, after: States) -> Value:
    """Change a sum from the running maxima `before` a slice to those `after` it.

    A sum that is zero stays zero: where no finite element came yet, the factor may be infinite.
    """
    changed = total
    for term in terms:
        anchor = term.reference.anchor
        if anchor is None:
            continue
        old, new = (_finite(running(anchor.maximum)) for running in (before, after))
        factor = ops.exponential(_weighted(ops.subtract(new, old), term.weight))
        places = tuple(None if p is None else term.places[p] for p in anchor.places)
        factor = convert(factor, total.dtype)
        changed = ops.multiply(changed, _aligned(factor, places, total.type))
    is_zero = ops.compare(total, zeros_like(total), direction="EQ")
    return ops.select(is_zero, total, changed)  # type: ignore[no-any-return]


def settled(total: Value, terms: tuple[Term, ...], stored: States) -> Value:
    """Change a sum from the references of its loop to the values that they stood in for."""
    for term in terms:
        reference = term.reference
        value = convert(stored(reference.value), total.dtype)
        if reference.is_shift:
            value = ops.exponential(_weighted(_distance(value, reference, stored), term.weight))
        factor = _aligned(value, term.places, total.type)
        reciprocal = term.weight < 0 and not reference.is_shift
        total = ops.divide(total, factor) if reciprocal else ops.multiply(total, factor)
    return total


def _distance(value: Value, reference: Reference, stored: States) -> Value:
    if reference.anchor is None:
        return value
    maximum = convert(_finite(stored(reference.anchor.maximum)), value.dtype)
    start = _aligned(maximum, reference.anchor.places, value.type)
    return ops.subtract(value, start)  # type: ignore[no-any-return]


def _finite(x: Value) -> Value:
    """Put zero where a maximum is infinite or NaN: no differences of infinities."""
    return where(ops.is_finite(x), x)


def _weighted(x: Value, weight: float) -> Value:
    return x if weight == 1 else ops.negate(x) if weight == -1 else scale(x, weight)


def _aligned(x: Value, places: Places, type: ShapeDtype) -> Value:
    """Broadcast to a shape: axis i becomes `places[i]`; axes of one element without place go."""
    kept = [(place, axis) for axis, place in enumerate(places) if place is not None]
    if len(kept) < len(places):
        x = ops.reshape(x, shape=tuple(x.shape[axis] for _, axis in kept))
        kept = [(place, axis) for axis, (place, _) in enumerate(kept)]
    kept.sort()
    order = tuple(axis for _, axis in kept)
    if order != tuple(range(len(order))):
        x = ops.transpose(x, permutation=order)
    dimensions = tuple(place for place, _ in kept)
    return ops.broadcast_in_dim(x, shape=type.shape, dimensions=dimensions)  # type: ignore[no-any-return]


__all__ = ["reference_value", "rescaled", "settled"]
