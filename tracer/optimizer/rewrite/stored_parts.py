"""A part of what is in storage is read as such.

`x[i * 100 : (i + 1) * 100]` and `x[indices]` of an argument in storage read all of it and take a
part, as they are traced: a slice and a gather need the axis whole, so nothing could be cut.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tracer import ops
from tracer.ir import Builder, Graph, Label, Node, Value, rebuild
from tracer.ops import helpers
from tracer.ops.gather import index_shape
from tracer.ops.storage import PLACE, kept_axes
from tracer.optimizer.passes import Pass, PassLog


def _read(graph: Graph, log: PassLog) -> Graph:
    def rewrite(
        builder: Builder, node: Node, operands: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        part = _PARTS.get(node.op) if node.op is not None else None
        found = part(node, operands) if part is not None else None
        if found is None:
            return None
        log.applied.append(f"{node.types[0]} of {operands[0].type}")
        return [found]

    return rebuild(graph, rewrite)


READ_STORED_PARTS = Pass("read stored parts", _read)


def _whole_axes(read: Node) -> frozenset[Label]:
    """Return the axes of which all is read: a part of each of many short rows is no gain."""
    return kept_axes(read.params["whole"], read.types[0].dtype)


def _is_part(read: Node, node: Node) -> bool:
    """Tell whether a part of what is read is less along an axis that is cut."""
    if read.op is not ops.read_stored:
        return False
    pairs = enumerate(zip(node.types[0].shape, read.params["shape"], strict=True))
    kept = _whole_axes(read)
    return any(axis not in kept and size < whole for axis, (size, whole) in pairs)


def _sliced(node: Node, operands: Sequence[Value]) -> Value | None:
    """Read from the first element to the last; every so many of them are picked out of that."""
    read = operands[0].node
    if not _is_part(read, node):
        return None
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


def _window(node: Node, operands: Sequence[Value]) -> Value | None:
    """Read a window; one that begins where it would not fit is moved, as `dynamic_slice` does."""
    read = operands[0].node
    if not _is_part(read, node):
        return None
    kept, sizes = _whole_axes(read), list(node.types[0].shape)
    places, rest = [], []
    for axis, (start, whole) in enumerate(zip(operands[1:], read.params["shape"], strict=True)):
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


def _rows(node: Node, operands: Sequence[Value]) -> Value | None:
    """Read the rows that a gather takes from, and take from each what it wants of it."""
    source, indices = operands
    gather, chain = node.params, _by_row(source.node)
    read = chain[-1].operands[0].node if chain else source.node
    if read.op is not ops.read_stored or len(read.operands) > 1:
        return None
    if gather.get("operand_batching_dims"):
        return None
    if 0 not in gather["start_index_map"] or 0 not in gather["collapsed_slice_dims"]:
        return None
    vectors, column = gather["index_vector_dim"], gather["start_index_map"].index(0)
    batch, count = index_shape(indices, vectors)
    places = indices if count == 1 else helpers.slice_axis(indices, vectors, column, column + 1)
    params = {key: read.params[key] for key in ("whole", "dtype")}
    rows = ops.read_stored_rows(read.operands[0], helpers.reshape(places, batch), **params)
    rows = helpers.reshape(rows, (math.prod(batch), *params["whole"][1:]))
    for step in reversed(chain):
        rows = _of_rows(step, rows)
    single = gather["collapsed_slice_dims"]
    kept = [size for axis, size in enumerate(gather["slice_sizes"]) if axis not in single]
    windows = helpers.reshape(_of_each(rows, node, indices), (*batch, *kept))
    return _in_order(windows, gather["offset_dims"])


def _by_row(node: Node) -> list[Node]:
    """Return the ops, from the last one on, that make something of each row by itself."""
    found = []
    while node.op in (ops.slice, ops.reshape, ops.convert):
        first = [type.shape[:1] for type in (node.types[0], node.operand_types[0])]
        if first[0] != first[1]:
            break
        found.append(node)
        node = node.operands[0].node
    return found


def _of_rows(node: Node, rows: Value) -> Value:
    """Do with other rows what such an op does."""
    count = rows.shape[0]
    if node.op is ops.convert:
        return helpers.convert(rows, node.types[0].dtype)
    if node.op is ops.reshape:
        return helpers.reshape(rows, (count, *node.types[0].shape[1:]))
    first = {"start": 0, "limit": count, "strides": 1}
    params = {key: (first[key], *node.params[key][1:]) for key in first}
    return ops.slice(rows, **params)  # type: ignore[no-any-return]


def _of_each(rows: Value, node: Node, indices: Value) -> Value:
    """Return the window that each index vector wants of its row; axes that it leaves out stay."""
    gather = node.params
    sizes, single = gather["slice_sizes"], gather["collapsed_slice_dims"]
    rest = [place for place, axis in enumerate(gather["start_index_map"]) if axis]
    if not rest:
        for axis, size in enumerate(sizes[1:], 1):
            rows = helpers.slice_axis(rows, axis, 0, size)
        return rows
    return ops.gather(  # type: ignore[no-any-return]
        rows,
        _columns(indices, gather["index_vector_dim"], rest, rows.shape[0]),
        offset_dims=tuple(range(1, len(sizes) - len(single) + 1)),
        collapsed_slice_dims=tuple(axis for axis in single if axis),
        start_index_map=tuple(axis for axis in gather["start_index_map"] if axis),
        index_vector_dim=1,
        slice_sizes=sizes,
        operand_batching_dims=(0,),
        start_indices_batching_dims=(0,),
    )


def _columns(indices: Value, vectors: int, wanted: Sequence[int], count: int) -> Value:
    """Return these elements of all index vectors, one vector after the other."""
    order = (*(axis for axis in range(indices.type.ndim) if axis != vectors), vectors)
    flat = ops.transpose(indices, permutation=order)
    flat = helpers.reshape(flat, (count, indices.shape[vectors]))
    parts = [helpers.slice_axis(flat, 1, place, place + 1) for place in wanted]
    return parts[0] if len(parts) == 1 else ops.concatenate(*parts, dimension=1)


def _in_order(windows: Value, offsets: Sequence[int]) -> Value:
    """Put the axes of windows, which are the last ones, where a gather has them."""
    batch = iter(range(windows.type.ndim - len(offsets)))
    order = tuple(
        windows.type.ndim - len(offsets) + offsets.index(axis) if axis in offsets else next(batch)
        for axis in range(windows.type.ndim)
    )
    if order == tuple(range(windows.type.ndim)):
        return windows
    return ops.transpose(windows, permutation=order)  # type: ignore[no-any-return]


def _part(read: Node, places: Sequence[Value], shape: tuple[int, ...]) -> Value:
    handle, *starts = read.operands
    if starts:
        places = [ops.add(start, place) for start, place in zip(starts, places, strict=True)]
    part: Value = ops.read_stored(handle, *places, **{**read.params, "shape": shape})
    return part


_PARTS = {ops.slice: _sliced, ops.dynamic_slice: _window, ops.gather: _rows}


__all__ = ["READ_STORED_PARTS"]
