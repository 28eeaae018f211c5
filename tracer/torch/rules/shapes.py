"""Rules of what moves and joins elements without changing them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import broadcast, convert, reshape, scalar, transpose
from tracer.array.dispatch import apply
from tracer.errors import UnsupportedError
from tracer.ir import ShapeDtype
from tracer.numpy.ufunc import compare, select
from tracer.torch.rules.operands import axis_of, cotangent, filled
from tracer.torch.table import Node, rule


@rule("alias", "clone", "contiguous", "detach", "lift_fresh", "lift_fresh_copy", "lift")
def same(node: Node, x: Array, **_: Any) -> Array:
    """Return the array."""
    return x


@rule("view", "reshape", "_unsafe_view", "_reshape_alias", "unsqueeze", "squeeze")
def reshaped(node: Node, x: Array, *_: Any) -> Array:
    """Give the elements another shape, in the same order."""
    return reshape(x, node.result.shape)


@rule("view.dtype")
def view_as_dtype(node: Node, x: Array, dtype: Any) -> Array:
    """Read the bits as another dtype of the same width."""
    wanted = node.result.dtype
    if "b" in (wanted.kind, x.dtype.kind) or wanted.itemsize != x.dtype.itemsize:
        raise UnsupportedError(
            f"torch's view of {x.dtype} as {wanted}", mend="view dtypes of one width"
        )
    return x if wanted == x.dtype else apply(ops.bitcast_convert, x, dtype=wanted)


@rule("permute")
def permute(node: Node, x: Array, dims: Sequence[int]) -> Array:
    """Permute the axes."""
    return transpose(x, tuple(axis_of(d, x.ndim) for d in dims))


@rule("t", "transpose")
def swap(node: Node, x: Array, first: int = 0, second: int = 1) -> Array:
    """Exchange two axes."""
    order = list(range(x.ndim))
    if x.ndim > 1:
        i, j = axis_of(first, x.ndim), axis_of(second, x.ndim)
        order[i], order[j] = order[j], order[i]
    return transpose(x, tuple(order))


@rule("expand")
def expand(node: Node, x: Array, size: Any, *, implicit: bool = False) -> Array:
    """Repeat along axes of one element, and new ones."""
    return broadcast(x, node.result.shape)


@rule("repeat")
def repeat(node: Node, x: Array, repeats: Sequence[int]) -> Array:
    """Repeat the whole along axes."""
    sizes = (1,) * (len(repeats) - x.ndim) + x.shape
    pairs = tuple(n for pair in zip(repeats, sizes, strict=True) for n in pair)
    dimensions = tuple(range(1, len(pairs), 2))
    x = reshape(x, sizes)
    repeated = apply(ops.broadcast_in_dim, x, shape=pairs, dimensions=dimensions)
    return reshape(repeated, node.result.shape)


def cut(x: Array, axis: int, start: int, end: int, step: int = 1) -> Array:
    """Take a part along one axis."""
    starts, limits, strides = [0] * x.ndim, list(x.shape), [1] * x.ndim
    starts[axis], limits[axis], strides[axis] = start, max(start, end), step
    if (start, end, step) == (0, x.shape[axis], 1):
        return x
    return apply(ops.slice, x, start=tuple(starts), limit=tuple(limits), strides=tuple(strides))


def bounds(size: int, start: int | None, end: int | None) -> tuple[int, int]:
    """Return the bounds of a slice, as torch clamps them."""
    first, last, _ = slice(start, end).indices(size)
    return first, max(first, last)


@rule("slice")
def take_slice(
    node: Node,
    x: Array,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Array:
    """Take every so manyth element between bounds."""
    axis = axis_of(dim, x.ndim)
    return cut(x, axis, *bounds(x.shape[axis], start, end), step)


@rule("narrow")
def narrow(node: Node, x: Array, dim: int, start: int, length: int) -> Array:
    """Take so many elements."""
    axis = axis_of(dim, x.ndim)
    start = start + x.shape[axis] if start < 0 else start
    return cut(x, axis, start, start + length)


@rule("select")
def select_row(node: Node, x: Array, dim: int, index: int) -> Array:
    """Take one element along an axis, which goes."""
    axis = axis_of(dim, x.ndim)
    place = index % x.shape[axis]
    return reshape(cut(x, axis, place, place + 1), node.result.shape)


def put(x: Array, part: Array, axis: int, start: int, end: int, step: int = 1) -> Array:
    """Return an array with a part along one axis replaced."""
    size = x.shape[axis]
    if end <= start:
        return x
    if step == 1:
        pieces = [cut(x, axis, 0, start), part, cut(x, axis, end, size)]
        pieces = [piece for piece in pieces if piece.shape[axis]]
        return pieces[0] if len(pieces) == 1 else apply(ops.concatenate, *pieces, dimension=axis)
    behind = size - start - (part.shape[axis] - 1) * step - 1
    zero, none = scalar(0, x.dtype), (0,) * x.ndim

    def at_axis(value: int) -> tuple[int, ...]:
        return (*none[:axis], value, *none[axis + 1 :])

    layout = {"low": at_axis(start), "high": at_axis(behind), "interior": at_axis(step - 1)}
    spread = apply(ops.pad, part, zero, **layout)
    truth = ShapeDtype(part.shape, "bool")
    is_part = apply(ops.pad, filled(True, truth), scalar(False, np.dtype(bool)), **layout)
    return select(is_part, spread, x)


@rule("slice_scatter")
def slice_scatter(
    node: Node,
    x: Array,
    part: Array,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Array:
    """Replace a slice."""
    axis = axis_of(dim, x.ndim)
    first, last = bounds(x.shape[axis], start, end)
    shape = (*x.shape[:axis], len(range(first, last, step)), *x.shape[axis + 1 :])
    return put(x, broadcast(convert(part, x.dtype), shape), axis, first, last, step)


@rule("select_scatter")
def select_scatter(node: Node, x: Array, part: Array, dim: int, index: int) -> Array:
    """Replace one element along an axis."""
    axis = axis_of(dim, x.ndim)
    place = index % x.shape[axis]
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    row = broadcast(convert(part, x.dtype), (*shape[:axis], *shape[axis + 1 :]))
    return put(x, reshape(row, shape), axis, place, place + 1)


@rule("cat")
def concatenate(node: Node, tensors: Sequence[Array], dim: int = 0) -> Array:
    """Join along an axis; torch leaves out tensors of the shape (0,)."""
    ndim = node.result.ndim
    arrays = [convert(x, node.result.dtype) for x in tensors if x.ndim == ndim and x.size]
    if not arrays:
        return filled(0, node.result)
    if len(arrays) == 1:
        return arrays[0]
    return apply(ops.concatenate, *arrays, dimension=axis_of(dim, ndim))


@rule("stack")
def stack(node: Node, tensors: Sequence[Array], dim: int = 0) -> Array:
    """Join along a new axis."""
    axis, shape = axis_of(dim, node.result.ndim), node.result.shape
    one = (*shape[:axis], 1, *shape[axis + 1 :])
    rows = [reshape(convert(x, node.result.dtype), one) for x in tensors]
    return rows[0] if len(rows) == 1 else apply(ops.concatenate, *rows, dimension=axis)


@rule("split_with_sizes", "split", "chunk")
def split(node: Node, x: Array, sizes: Any, dim: int = 0) -> list[Array]:
    """Take apart, into parts of the sizes that torch says."""
    axis, start, parts = axis_of(dim, x.ndim), 0, []
    for type in node.results:
        assert type is not None
        parts.append(cut(x, axis, start, start + type.shape[axis]))
        start += type.shape[axis]
    return parts


@rule("unbind")
def unbind(node: Node, x: Array, dim: int = 0) -> list[Array]:
    """Take apart along an axis, which goes."""
    axis = axis_of(dim, x.ndim)
    rows = [cut(x, axis, i, i + 1) for i in range(x.shape[axis])]
    return [reshape(row, node.result.shape) for row in rows]


@rule("flip")
def flip(node: Node, x: Array, dims: Sequence[int]) -> Array:
    """Reverse axes."""
    dimensions = tuple(sorted(axis_of(d, x.ndim) for d in dims))
    return apply(ops.reverse, x, dimensions=dimensions) if dimensions and x.ndim else x


@rule("roll")
def roll(node: Node, x: Array, shifts: Sequence[int], dims: Sequence[int] = ()) -> Array:
    """Move elements along axes, in a circle."""
    if not dims:
        return reshape(_rolled(reshape(x, (x.size,)), 0, shifts[0]), x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        x = _rolled(x, axis_of(dim, x.ndim), shift)
    return x


def _rolled(x: Array, axis: int, shift: int) -> Array:
    size = x.shape[axis]
    place = -shift % size if size else 0
    if not place:
        return x
    return apply(ops.concatenate, cut(x, axis, place, size), cut(x, axis, 0, place), dimension=axis)


@rule("constant_pad_nd")
def constant_pad(node: Node, x: Array, pad: Sequence[int], value: Any = 0) -> Array:
    """Pad; what is negative is cut off. torch begins with the last axis."""
    low, high = [0] * x.ndim, [0] * x.ndim
    for i in range(len(pad) // 2):
        low[x.ndim - 1 - i], high[x.ndim - 1 - i] = pad[2 * i], pad[2 * i + 1]
    fill = filled(value, ShapeDtype((), x.dtype))
    return apply(ops.pad, x, fill, low=tuple(low), high=tuple(high), interior=(0,) * x.ndim)


def _padded_by_edges(x: Array, pad: Sequence[int]) -> Array:
    for i in range(len(pad) // 2):
        axis = x.ndim - 1 - i
        low, high = pad[2 * i], pad[2 * i + 1]
        size = x.shape[axis]
        pieces = [
            *([cut(x, axis, 0, 1)] * low),
            cut(x, axis, max(0, -low), size + min(0, high)),
            *([cut(x, axis, size - 1, size)] * high),
        ]
        x = pieces[0] if len(pieces) == 1 else apply(ops.concatenate, *pieces, dimension=axis)
    return x


@rule("replication_pad1d", "replication_pad2d", "replication_pad3d")
def replication_pad(node: Node, x: Array, padding: Sequence[int]) -> Array:
    """Pad with the elements at the edges."""
    return _padded_by_edges(x, padding)


@rule("replication_pad1d_backward", "replication_pad2d_backward", "replication_pad3d_backward")
def replication_pad_backward(node: Node, grad: Array, x: Array, padding: Sequence[int]) -> Array:
    """Add up the cotangents of the copies of each edge."""
    return cotangent(lambda y: _padded_by_edges(y, padding), x, grad)


@rule("diagonal")
def diagonal(node: Node, x: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    """Take a diagonal of two axes; it becomes the last axis."""
    first, second = axis_of(dim1, x.ndim), axis_of(dim2, x.ndim)
    rest = [i for i in range(x.ndim) if i not in (first, second)]
    x = transpose(x, (*rest, first, second))
    count = node.result.shape[-1]
    row, column = max(-offset, 0), max(offset, 0)
    square = cut(cut(x, x.ndim - 2, row, row + count), x.ndim - 1, column, column + count)
    if not count:
        return reshape(square, node.result.shape)
    # The elements of the diagonal are so many apart, row by row.
    flat = reshape(square, (*square.shape[:-2], count * count))
    return cut(flat, flat.ndim - 1, 0, count * count, count + 1)


@rule("diagonal_scatter")
def diagonal_scatter(
    node: Node, x: Array, part: Array, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Array:
    """Replace a diagonal."""
    first, second = axis_of(dim1, x.ndim), axis_of(dim2, x.ndim)
    kept = [i for i in range(x.ndim) if i not in (first, second)]
    count = part.shape[-1]
    row, column = max(-offset, 0), max(offset, 0)
    # Each element of the diagonal is in its row, in all columns; a mask chooses one of these.
    none = (0,) * len(kept)
    line, zero = convert(part, x.dtype), scalar(0, x.dtype)
    high = (*none, x.shape[first] - row - count)
    rows = apply(ops.pad, line, zero, low=(*none, row), high=high, interior=(*none, 0))
    axes = (*kept, first)
    order = tuple(sorted(range(len(axes)), key=axes.__getitem__))
    rows = transpose(rows, order)
    whole = apply(ops.broadcast_in_dim, rows, shape=x.shape, dimensions=tuple(sorted(axes)))
    type = ShapeDtype(x.shape, "int64")
    at_row, at_column = (
        apply(ops.iota, shape=type.shape, dtype=type.dtype, dimension=axis)
        for axis in (first, second)
    )
    moved = apply(ops.add, at_row, filled(column - row, type))
    return select(compare(moved, at_column, "EQ"), whole, x)


@rule("unfold")
def unfold(node: Node, x: Array, dimension: int, size: int, step: int) -> Array:
    """Take windows along an axis; the places in a window are the last axis."""
    axis = axis_of(dimension, x.ndim)
    if x.ndim == 0:
        return reshape(x, node.result.shape)
    count = node.result.shape[axis]
    places = [cut(x, axis, i, i + (count - 1) * step + 1, step) for i in range(size)]
    rows = [reshape(place, (*place.shape, 1)) for place in places]
    return rows[0] if len(rows) == 1 else apply(ops.concatenate, *rows, dimension=x.ndim)


@rule("view_as_real")
def view_as_real(node: Node, x: Array) -> Array:
    """Put real and imaginary parts side by side."""
    parts = [reshape(apply(op, x), (*x.shape, 1)) for op in (ops.real, ops.imag)]
    return apply(ops.concatenate, *parts, dimension=x.ndim)


@rule("view_as_complex")
def view_as_complex(node: Node, x: Array) -> Array:
    """Make complex numbers of neighbours."""
    parts = [reshape(cut(x, x.ndim - 1, i, i + 1), node.result.shape) for i in (0, 1)]
    return apply(ops.complex, *parts)


def where_diagonal(x: Array, offset: int) -> Array:
    """Tell which elements of the last two axes are on a diagonal or below it."""
    type = ShapeDtype(x.shape, "int64")
    row, column = (
        apply(ops.iota, shape=type.shape, dtype=type.dtype, dimension=axis)
        for axis in (x.ndim - 2, x.ndim - 1)
    )
    return compare(column, apply(ops.add, row, filled(offset, type)), "LE")


@rule("tril")
def lower_triangle(node: Node, x: Array, diagonal: int = 0) -> Array:
    """Keep what is on a diagonal or below it."""
    return select(where_diagonal(x, diagonal), x, filled(0, x.type))


@rule("triu")
def upper_triangle(node: Node, x: Array, diagonal: int = 0) -> Array:
    """Keep what is on a diagonal or above it."""
    return select(where_diagonal(x, diagonal - 1), filled(0, x.type), x)
