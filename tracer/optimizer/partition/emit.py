"""Write one region as an op that every device runs on its own part.

It is the loop of the split pass, spread: each device computes one long slice. What a loop would
carry from trip to trip, the devices return side by side: parts of results, or partial sums along a
new axis, which are reduced outside. XLA's partitioner turns these into collectives.

If the devices do not divide the axis, every device computes the remaining steps, and the same
combiner joins them with the rest, as for the remainder of a loop. Every element is computed exactly
once. Each device then cuts its slices out of whole operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tracer import ops
from tracer.ir import Builder, Graph, Label, Node, ShapeDtype, Value, registry
from tracer.ops.helpers import convert
from tracer.ops.rules import as_tuple, is_float
from tracer.optimizer.loops.split.carry import fold_parts
from tracer.optimizer.loops.split.grouping import Loop
from tracer.optimizer.loops.split.loop import SliceEmitter, behind
from tracer.optimizer.loops.split.region import Region, Subject


def index_dtype(extent: int, count: int) -> np.dtype[Any]:
    """Return the dtype of the devices' numbers, which places along the axis are computed from."""
    return np.dtype(np.int32 if extent + count < 2**31 else np.int64)


def shares(length: int, count: int) -> str:
    """Describe which device computes which part of an axis."""
    each, remainder = divmod(length, count)
    again = f" and the last {remainder} on all" if remainder else ""
    return f"{count} devices, {each} on each{again}"


class Handed:
    """The operands of the devices' body: outer values, whole or cut along an axis.

    Attributes
    ----------
    values : list of Value
    axes : list of int or None
        Along which each is cut.
    """

    def __init__(self, body: Builder, count: int) -> None:
        self.body, self.count = body, count
        self.values: list[Value] = []
        self.axes: list[int | None] = []
        self._inside: dict[tuple[Value, int | None], Value] = {}

    def __call__(self, value: Value, axis: int | None) -> Value:
        """Return the value, or the device's part of it, inside of the body."""
        key = value, axis
        if key not in self._inside:
            self._inside[key] = self._given(value, axis)
        return self._inside[key]

    def _given(self, value: Value, axis: int | None) -> Value:
        node, part = value.node, value.type
        if node.op is not None and not node.operands and node.types[0].ndim == 0:
            # A scalar constant is cheaper to write again than to hand in.
            return self.body.copy(node, ())[0]
        self.values.append(value)
        self.axes.append(axis)
        if axis is not None:
            part = part.resized(axis, part.shape[axis] // self.count)
        return self.body.input(part, node.source)


class PartEmitter(SliceEmitter):
    """Writes what one device computes: the slice of a loop that has as many trips as devices.

    `read_part` gives its part of a value of outside; None where it cuts parts out of whole values.
    """

    def __init__(
        self,
        subject: Subject,
        region: Region,
        loop: Loop,
        read_part: Callable[[Value, int], Value] | None,
    ) -> None:
        super().__init__(subject, region, loop)
        self.read_part = read_part

    def _slice_of(self, value: Value, axis: int) -> Value:
        if self.read_part is None:
            return super()._slice_of(value, axis)
        return self.read_part(value, axis)

    def _fold(self, head: Node, label: Label) -> tuple[Value, ...]:
        """Return a head's part, or a partial result with one more axis in front."""
        parts = self._emit_slice(head, self._chunk(head, label))
        if label not in self.subject.rule(head).reduced:
            return parts
        return tuple(side_by_side(part) for part in parts)


class RemainderEmitter(SliceEmitter):
    """Writes the remaining steps that the devices do not divide, and joins them with the states."""

    def _fold(self, head: Node, label: Label) -> tuple[Value, ...]:
        chunk, state = self._chunk(head, label), self.before[head]
        parts = self._emit_slice(head, chunk)
        rule = self.subject.rule(head)
        if label in rule.reduced:
            return fold_parts(self.subject, head, chunk, state, parts)
        return tuple(
            ops.concatenate(first, part, dimension=labels.index(label))
            for first, part, labels in zip(state, parts, rule.results, strict=True)
        )


def side_by_side(part: Value) -> Value:
    """Return a device's partial result with an axis in front, along which they are joined."""
    # As within one reduction, narrow floats are added up in float32.
    narrow = is_float(part.dtype) and part.dtype.itemsize < 4
    wide = convert(part, np.dtype(np.float32)) if narrow else part
    result: Value = ops.reshape(wide, shape=(1, *wide.shape))
    return result


def result_axes(subject: Subject, loop: Loop) -> tuple[int, ...]:
    """Return the axis along which the devices' parts of each result are joined."""
    axes: list[int] = []
    for head, label in loop.heads.items():
        rule = subject.rule(head)
        is_reduced = label in rule.reduced
        axes += [0 if is_reduced else labels.index(label) for labels in rule.results]
    return tuple(axes)


def emit_shard(
    builder: Builder,
    subject: Subject,
    region: Region,
    loop: Loop,
    count: int,
    outer: Callable[[Value], Value],
) -> dict[Value, Value]:
    """Write a loop's computation for `count` devices; returns the results of its heads."""
    builder.source = next(iter(loop.heads)).source
    body, handed = _body(subject, region, loop, count)
    found = on_parts(count, body, handed, outer, result_axes(subject, loop))
    joining = [
        (value, subject.rule(head).reduced.get(label))
        for head, label in loop.heads.items()
        for value in head.results
    ]
    states = joined_parts(builder, found, joining)
    if region.length % count:
        states = _with_remainder(builder, subject, region, loop, count, outer, states)
    return converted(builder, states, (value for value, _ in joining))


def on_parts(
    count: int,
    body: Graph,
    handed: Handed,
    outer: Callable[[Value], Value],
    result_axes: tuple[int | None, ...],
) -> tuple[Value, ...]:
    """Make each of `count` devices run a body, whose first operand is the device's number."""
    found = ops.shard(
        ops.iota(shape=(count,), dtype=body.inputs[0].dtype, dimension=0),
        *(outer(value) for value in handed.values),
        body=body,
        count=count,
        operand_axes=(0, *handed.axes),
        result_axes=result_axes,
    )
    return as_tuple(found)


def joined_parts(
    builder: Builder, found: Sequence[Value], joining: Iterable[tuple[Value, str | None]]
) -> list[Value]:
    """Return the values of the devices' results: partial ones are reduced with their combiner."""
    made = []
    for whole, (value, combiner) in zip(found, joining, strict=True):
        builder.source = value.node.source
        if combiner is not None:
            whole = registry()[f"reduce_{combiner}"](whole, axes=(0,))
        made.append(whole)
    return made


def converted(
    builder: Builder, states: Iterable[Value], values: Iterable[Value]
) -> dict[Value, Value]:
    """Return joined results, in the dtypes of the original values."""
    made = {}
    for value, state in zip(values, states, strict=True):
        builder.source = value.node.source
        made[value] = convert(state, value.dtype)
    return made


def _with_remainder(
    builder: Builder,
    subject: Subject,
    region: Region,
    loop: Loop,
    count: int,
    outer: Callable[[Value], Value],
    states: list[Value],
) -> list[Value]:
    """Return the results of the steps that the devices divide, joined with those of the others."""
    remainder = region.length % count
    first = np.array(region.length - remainder, index_dtype(region.extent, count))

    def write(body: Builder, handed: Handed, given: list[Value]) -> list[Value]:
        start, given = behind(ops.constant(value=first), given)
        emitter = RemainderEmitter(subject, region, loop)
        return emitter.emit(body, start, remainder, partial(handed, axis=None), given)

    return on_every_device(builder, count, states, outer, write)


def on_every_device(
    builder: Builder,
    count: int,
    states: list[Value],
    outer: Callable[[Value], Value],
    write: Callable[[Builder, Handed, list[Value]], list[Value]],
) -> list[Value]:
    """Write a computation that every device does in the same way, from states and other values.

    Otherwise XLA's partitioner would cut what follows into uneven parts, at which it may end the
    process (a scatter does: `CreateConstant` of its `PadToShape`).
    """
    with Builder() as body:
        body.source = builder.source
        given = [body.input(state.type, state.node.source) for state in states]
        handed = Handed(body, count)
        graph = body.finish(write(body, handed, given))
    operands = (*states, *(outer(value) for value in handed.values))
    found = ops.shard(
        *operands,
        body=graph,
        count=count,
        operand_axes=(None,) * len(operands),
        result_axes=(None,) * len(states),
    )
    return list(as_tuple(found))


def _body(subject: Subject, region: Region, loop: Loop, count: int) -> tuple[Graph, Handed]:
    """Return the body, and what it is given in addition to its number."""
    with Builder() as body:
        body.source = next(iter(loop.heads)).source
        number = body.input(ShapeDtype((1,), index_dtype(region.extent, count)))
        handed = Handed(body, count)
        whole = partial(handed, axis=None)
        # The part of an axis that the devices do not divide is on none of them.
        emitter = PartEmitter(subject, region, loop, None if region.length % count else handed)
        size = region.length // count
        first = ops.reshape(number, shape=())
        start = ops.multiply(first, ops.constant(value=np.array(size, number.dtype)))
        results = emitter.emit(body, start, size, whole, [])
        return body.finish(results), handed
