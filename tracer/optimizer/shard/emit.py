"""Write one region as an op that every device runs on its own part.

It is the loop of the split pass, spread: each device computes one long slice. What a loop carries
from trip to trip, the devices return side by side: parts of results, or partial sums along a new
axis, which are reduced outside. XLA's partitioner makes collectives of these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracer import ops
from tracer.ir import Builder, Graph, Label, Node, ShapeDtype, Value, registry
from tracer.ops.helpers import convert
from tracer.ops.rules import is_float
from tracer.optimizer.split.levels import Loop
from tracer.optimizer.split.loop import SliceEmitter
from tracer.optimizer.split.region import Region, Subject


def _index_dtype(region: Region, count: int) -> np.dtype[Any]:
    """Return the dtype of the devices' numbers, which places along the axis are computed from."""
    return np.dtype(np.int32 if region.extent + count < 2**31 else np.int64)


class PartEmitter(SliceEmitter):
    """Writes what one device computes: the slice of a loop that has as many trips as devices."""

    def __init__(
        self,
        subject: Subject,
        region: Region,
        loop: Loop,
        count: int,
        read_part: Callable[[Value, int], Value],
    ) -> None:
        super().__init__(subject, region, loop)
        self.count = count
        self.read_part = read_part

    def _slice_of(self, value: Value, axis: int) -> Value:
        return self.read_part(value, axis)

    def _fold(self, head: Node, label: Label) -> tuple[Value, ...]:
        """Return a head's part, or a partial result with one more axis in front."""
        parts = self._emit_slice(head, self._chunk(head, label))
        if label not in self.subject.rule(head).reduced:
            return parts
        return tuple(_side_by_side(part) for part in parts)


def _side_by_side(part: Value) -> Value:
    # As within one reduction, narrow floats are added up in float32.
    narrow = is_float(part.dtype) and part.dtype.itemsize < 4
    wide = convert(part, np.dtype(np.float32)) if narrow else part
    result: Value = ops.reshape(wide, shape=(1, *wide.shape))
    return result


def result_axes(subject: Subject, loop: Loop) -> tuple[int, ...]:
    """Return the axis along which the devices' parts of each result stand side by side."""
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
    body, operands, axes = _body(subject, region, loop, count)
    numbers = ops.iota(shape=(count,), dtype=_index_dtype(region, count), dimension=0)
    found = ops.shard(
        numbers,
        *(outer(value) for value in operands),
        body=body,
        count=count,
        operand_axes=(0, *axes),
        result_axes=result_axes(subject, loop),
    )
    results = iter(found if isinstance(found, tuple) else (found,))
    made: dict[Value, Value] = {}
    for head, label in loop.heads.items():
        combiner = subject.rule(head).reduced.get(label)
        builder.source = head.source
        for value in head.results:
            whole = next(results)
            if combiner is not None:
                whole = registry()[f"reduce_{combiner}"](whole, axes=(0,))
            made[value] = convert(whole, value.dtype)
    return made


def _body(
    subject: Subject, region: Region, loop: Loop, count: int
) -> tuple[Graph, list[Value], list[int | None]]:
    """Return the body, the values it is given besides its number, and how these are cut."""
    inputs: dict[tuple[Value, int | None], Value] = {}
    with Builder() as body:
        body.source = next(iter(loop.heads)).source
        number = body.input(ShapeDtype((1,), _index_dtype(region, count)))

        def given(value: Value, axis: int | None) -> Value:
            key = (value, axis)
            if key not in inputs:
                node = value.node
                if node.op is not None and not node.operands and node.types[0].ndim == 0:
                    # A scalar constant is cheaper to write again than to hand in.
                    inputs[key] = body.copy(node, ())[0]
                else:
                    part = value.type
                    if axis is not None:
                        part = part.resized(axis, part.shape[axis] // count)
                    inputs[key] = body.input(part, node.source)
            return inputs[key]

        def whole(value: Value) -> Value:
            return given(value, None)

        emitter = PartEmitter(subject, region, loop, count, given)
        size = region.length // count
        first = ops.reshape(number, shape=())
        start = ops.multiply(first, ops.constant(value=np.array(size, number.dtype)))
        results = emitter.emit(body, start, size, whole, [])
        graph = body.finish(results)
    handed = [key for key, inside in inputs.items() if inside.node.op is None]
    return graph, [value for value, _ in handed], [axis for _, axis in handed]
