"""A part of what is in storage is read as such.

`x[i * 100 : (i + 1) * 100]` of an argument in storage reads all of it and takes a part, as it is
traced: a slice needs the axis whole, so nothing could be cut.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value, rebuild
from tracer.ops import helpers
from tracer.optimizer.passes import Pass, PassLog


def _read(graph: Graph, log: PassLog) -> Graph:
    def rewrite(
        builder: Builder, node: Node, operands: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        if node.op not in (ops.slice, ops.dynamic_slice):
            return None
        read = operands[0].node
        if read.op is not ops.read_stored or read.params["shape"] == node.types[0].shape:
            return None
        log.applied.append(f"{node.types[0]} of {operands[0].type}")
        return [_sliced(read, node) if node.op is ops.slice else _window(read, node, operands[1:])]

    return rebuild(graph, rewrite)


READ_STORED_PARTS = Pass("read stored parts", _read)


def _sliced(read: Node, node: Node) -> Value:
    """Read from the first element to the last; every so many of them are picked out of that."""
    start, strides = node.params["start"], node.params["strides"]
    shape = tuple(
        max(0, (size - 1) * stride + 1)
        for size, stride in zip(node.types[0].shape, strides, strict=True)
    )
    handle = read.operands[0]
    part = _part(read, [helpers.scalar(place, handle.dtype) for place in start], shape)
    if math.prod(strides) == 1:
        return part
    picked: Value = ops.slice(part, start=(0,) * len(shape), limit=shape, strides=strides)
    return picked


def _window(read: Node, node: Node, starts: Sequence[Value]) -> Value:
    """Read a window; one that begins where it would not fit is moved, as `dynamic_slice` does."""
    handle, sizes = read.operands[0], node.types[0].shape
    places = []
    for start, size, whole in zip(starts, sizes, read.params["shape"], strict=True):
        last = helpers.scalar(whole - size, start.dtype)
        inside = ops.clamp(helpers.scalar(0, start.dtype), start, last)
        places.append(helpers.convert(inside, handle.dtype))
    return _part(read, places, sizes)


def _part(read: Node, places: Sequence[Value], shape: tuple[int, ...]) -> Value:
    handle, *starts = read.operands
    if starts:
        places = [ops.add(start, place) for start, place in zip(starts, places, strict=True)]
    part: Value = ops.read_stored(handle, *places, **{**read.params, "shape": shape})
    return part


__all__ = ["READ_STORED_PARTS"]
