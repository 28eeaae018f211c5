"""Many arrays as one flat array: where each value's part is, joining parts, extracting them.

Extracting a part and joining it with its neighbours again costs nothing: `pack_values` finds that
the values are already adjacent in an existing array.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tracer import ops
from tracer.ir import Builder, Graph, Node, ShapeDtype, Value, rebuild


@dataclass(frozen=True)
class Range:
    """Elements `start` to `stop` of `root`, in row-major order."""

    root: Value
    start: int
    stop: int


def flat_range(value: Value) -> Range:
    """Return the largest known array of which a value is a contiguous part."""
    root, start = value, 0
    while root.node.op is not None:
        node = root.node
        if node.op is ops.reshape:
            offset: int | None = 0
        elif node.op is ops.slice:
            offset = _offset(node)
        else:
            break
        if offset is None:
            break
        root, start = node.operands[0], start + offset
    return Range(root, start, start + value.type.size)


def _offset(node: Node) -> int | None:
    """Return the first element of a slice that is contiguous, else None."""
    sizes, start = node.operands[0].shape, node.params["start"]
    cut = node.types[0].shape
    if any(stride != 1 for stride in node.params["strides"]) or 0 in cut:
        return None
    partial = [
        axis for axis, (kept, size) in enumerate(zip(cut, sizes, strict=True)) if kept < size
    ]
    if any(size != 1 for size in cut[: max(partial, default=0)]):
        return None
    strides = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    return int(sum(map(operator.mul, start, strides)))


def adjoining(values: Sequence[Value]) -> Range | None:
    """Return the range that the values form, one after the other, or None."""
    ranges = [flat_range(value) for value in values]
    first = ranges[0]
    for before, after in itertools.pairwise(ranges):
        if after.root is not first.root or after.start != before.stop:
            return None
    return Range(first.root, first.start, ranges[-1].stop)


def pack_values(values: Sequence[Value]) -> Value:
    """Emit one flat array of all elements of the values, in order."""
    whole = adjoining(values)
    if whole is not None:
        return cut(flatten(whole.root), whole.start, whole.stop)
    result: Value = ops.concatenate(*map(flatten, values), dimension=0)
    return result


def flatten(value: Value) -> Value:
    """Emit the value as an array of one axis."""
    return shaped(value, (value.type.size,))


def cut(flat: Value, start: int, stop: int) -> Value:
    """Emit elements `start` to `stop` of a flat array."""
    if (start, stop) == (0, flat.type.size):
        return flat
    result: Value = ops.slice(flat, start=(start,), limit=(stop,), strides=(1,))
    return result


def shaped(value: Value, shape: tuple[int, ...]) -> Value:
    """Emit the value with another shape."""
    if value.shape == shape:
        return value
    result: Value = ops.reshape(value, shape=shape)
    return result


def unpack(flat: Value, types: Sequence[ShapeDtype]) -> Iterator[Value]:
    """Emit the parts of a flat array, with their shapes, one after the other."""
    start = 0
    for type in types:
        yield shaped(cut(flat, start, start + type.size), type.shape)
        start += type.size


def join_parts(graph: Graph) -> Graph:
    """Replace concatenations of adjacent parts by the array they are parts of."""

    def rewrite(
        builder: Builder, node: Node, operands: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        if node.op is not ops.concatenate or len(operands) < 2:
            return None
        shape = node.types[0].shape
        whole = adjoining(operands)
        if whole is None or math.prod(shape[: node.params["dimension"]]) != 1:
            return None
        return [shaped(cut(flatten(whole.root), whole.start, whole.stop), shape)]

    return rebuild(graph, rewrite)


__all__ = [
    "Range",
    "adjoining",
    "cut",
    "flat_range",
    "flatten",
    "join_parts",
    "pack_values",
    "shaped",
    "unpack",
]
