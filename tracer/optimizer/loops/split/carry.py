"""What a loop over slices carries for each head, and how a slice's part is combined into it.

Slices of a head are written into its full result, combined as its axis rule says, or merged as the
op's record states (`ir.Merge`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tracer import ops
from tracer.ir import Builder, Chunk, Label, Node, ShapeDtype, Value, registry
from tracer.ops.helpers import convert, full
from tracer.ops.rules import is_float
from tracer.optimizer.loops.split.grouping import Loop
from tracer.optimizer.loops.split.region import Subject, merge_of

Resolve = Callable[[Value], Value]


def initial_state(subject: Subject, head: Node, label: Label, outer: Resolve) -> tuple[Value, ...]:
    """Emit a head's state before the first slice.

    Identities of accumulators, zeros for full results, or what the record states. Accumulators of
    8 and 16 bit floats are float32, as they are within one reduction: a sum of many slices would
    otherwise stop growing.
    """
    merge = merge_of(subject, head, label)
    if merge is not None:
        operands = tuple(
            outer(value) if position in merge.replaced else None
            for position, value in enumerate(head.operands)
        )
        return merge.initial(operands, head.operand_types, head.types, **head.params)
    rule = subject.rule(head)
    combiner = rule.reduced.get(label)
    return tuple(
        full(0, type) if combiner is None or label in labels else _accumulator(combiner, type)
        for type, labels in zip(head.types, rule.results, strict=True)
    )


def _accumulator(combiner: str, type: ShapeDtype) -> Value:
    narrow = is_float(type.dtype) and type.dtype.itemsize < 4
    return identity(combiner, type.with_dtype(np.float32) if narrow else type)


def identity(combiner: str, type: ShapeDtype) -> Value:
    """Emit a combiner's identity."""
    # It is what the reduction gives for no elements.
    reduction = registry()[f"reduce_{combiner}"]
    return full(reduction.evaluate(np.empty((0,), type.dtype), axes=(0,)), type)


def state_types(subject: Subject, head: Node, label: Label) -> tuple[ShapeDtype, ...]:
    """Return the types of a head's state."""
    with Builder() as scratch:
        state = initial_state(subject, head, label, lambda value: scratch.input(value.type))
    return tuple(value.type for value in state)


def carry_types(subject: Subject, loop: Loop) -> list[ShapeDtype]:
    """Return the types of a loop's carries: the states of its heads."""
    return [
        type for head, label in loop.heads.items() for type in state_types(subject, head, label)
    ]


def initial_carries(builder: Builder, subject: Subject, loop: Loop, outer: Resolve) -> list[Value]:
    """Emit the carries' initial values, each with the line of what is computed in its place."""
    carries: list[Value] = []
    for head, label in loop.heads.items():
        builder.source = head.source
        carries += initial_state(subject, head, label, outer)
    return carries


def fold_parts(
    subject: Subject, head: Node, chunk: Chunk, state: tuple[Value, ...], parts: tuple[Value, ...]
) -> tuple[Value, ...]:
    """Write a slice of the results in place, or join it with what was accumulated."""
    rule, label = subject.rule(head), chunk.label
    steps = subject.steps(head, label)
    found = []
    for whole, part, labels in zip(state, parts, rule.results, strict=True):
        if label in labels:
            axis = labels.index(label)
            start = slice_starts(multiple(chunk.start, whole.shape[axis] // steps), whole, axis)
            found.append(ops.dynamic_update_slice(whole, part, *start))
        else:
            combine = registry()[rule.reduced[label]]
            found.append(combine(whole, convert(part, whole.dtype)))
    return tuple(found)


def multiple(start: Value, block: int) -> Value:
    """Return where a slice begins in elements, if a step takes a block of them."""
    if block == 1:
        return start
    return ops.multiply(start, ops.constant(value=np.array(block, start.dtype)))  # type: ignore[no-any-return]


def slice_starts(start: Value, value: Value, axis: int) -> list[Value]:
    """Return the start of a slice along one axis, a scalar for each axis."""
    zero = ops.constant(value=np.zeros((), start.dtype))
    return [start if i == axis else zero for i in range(value.type.ndim)]


def finished(
    subject: Subject, head: Node, label: Label, state: tuple[Value, ...]
) -> tuple[Value, ...]:
    """Emit a head's results from its final state."""
    merge = merge_of(subject, head, label)
    results = state if merge is None else merge.finish(state, **head.params)
    return tuple(
        convert(value, type.dtype) for value, type in zip(results, head.types, strict=True)
    )
