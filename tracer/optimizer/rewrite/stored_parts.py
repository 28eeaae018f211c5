"""A part of what is in storage is read as such.

`x[i * 100 : (i + 1) * 100]` of an argument in storage reads all of it and takes a part, as it is
traced: a slice needs the axis whole, so nothing could be cut.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracer import ops
from tracer.ir import Builder, Graph, Label, Node, Value, rebuild
from tracer.ops import helpers
from tracer.ops.storage import PLACE, kept_axes
from tracer.optimizer.passes import Pass, PassLog


def _read(graph: Graph, log: PassLog) -> Graph:
    def rewrite(
        builder: Builder, node: Node, operands: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        if node.op not in (ops.slice, ops.dynamic_slice):
            return None
        read = operands[0].node
        if read.op is not ops.read_stored or not _is_part(read, node):
            return None
        log.applied.append(f"{node.types[0]} of {operands[0].type}")
        return [_sliced(read, node) if node.op is ops.slice else _window(read, node, operands[1:])]

    return rebuild(graph, rewrite)


READ_STORED_PARTS = Pass("read stored parts", _read)


def _whole_axes(read: Node) -> frozenset[Label]:
    """Return the axes of which all is read: a part of each of many short rows is no gain."""
    return kept_axes(read.params["whole"], read.types[0].dtype)


def _is_part(read: Node, node: Node) -> bool:
    """Tell whether less is read along an axis that is cut."""
    pairs = enumerate(zip(node.types[0].shape, read.params["shape"], strict=True))
    kept = _whole_axes(read)
    return any(axis not in kept and size < whole for axis, (size, whole) in pairs)


def _sliced(read: Node, node: Node) -> Value:
    """Read from the first element to the last; every so many of them are picked out of that."""
    kept, shape = _whole_axes(read), read.params["shape"]
    start, limit, strides = (list(node.params[key]) for key in ("start", "limit", "strides"))
    places, sizes = [0] * len(shape), list(shape)
    for axis, size in enumerate(node.types[0].shape):
        if axis not in kept:
            places[axis], sizes[axis] = start[axis], max(0, (size - 1) * strides[axis] + 1)
            start[axis], limit[axis] = 0, sizes[axis]
    part = _part(read, [helpers.scalar(place, PLACE) for place in places], tuple(sizes))
    if part.shape == node.types[0].shape:
        return part
    picked: Value = ops.slice(part, start=tuple(start), limit=tuple(limit), strides=tuple(strides))
    return picked


def _window(read: Node, node: Node, starts: Sequence[Value]) -> Value:
    """Read a window; one that begins where it would not fit is moved, as `dynamic_slice` does."""
    kept, sizes = _whole_axes(read), list(node.types[0].shape)
    places, rest = [], []
    for axis, (start, whole) in enumerate(zip(starts, read.params["shape"], strict=True)):
        zero = helpers.scalar(0, start.dtype)
        last = helpers.scalar(whole - sizes[axis], start.dtype)
        inside = zero if axis in kept else ops.clamp(zero, start, last)
        places.append(helpers.convert(inside, PLACE))
        rest.append(start if axis in kept else zero)
        sizes[axis] = whole if axis in kept else sizes[axis]
    part = _part(read, places, tuple(sizes))
    if part.shape == node.types[0].shape:
        return part
    window: Value = ops.dynamic_slice(part, *rest, sizes=node.types[0].shape)
    return window


def _part(read: Node, places: Sequence[Value], shape: tuple[int, ...]) -> Value:
    handle, *starts = read.operands
    if starts:
        places = [ops.add(start, place) for start, place in zip(starts, places, strict=True)]
    part: Value = ops.read_stored(handle, *places, **{**read.params, "shape": shape})
    return part


__all__ = ["READ_STORED_PARTS"]
