"""Rules of gather and scatter. What torch refuses as out of bounds is clamped or dropped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import broadcast, convert, reshape
from tracer.array.dispatch import apply
from tracer.errors import UnsupportedError
from tracer.ir import ShapeDtype
from tracer.numpy.ufunc import compare, full_like, select
from tracer.torch.rules.operands import axis_of, filled, operand
from tracer.torch.rules.shapes import cut
from tracer.torch.table import Node, rule

_INT64 = np.dtype("int64")


def _positive(index: Array, size: int) -> Array:
    """Count negative indices from the end."""
    index = convert(index, _INT64)
    is_negative = compare(index, full_like(index, 0), "LT")
    return select(is_negative, apply(ops.add, index, full_like(index, size)), index)


def _joined(columns: Sequence[Array]) -> Array:
    """Make one vector of each place of indices."""
    shape = columns[0].shape
    rows = [reshape(column, (*shape, 1)) for column in columns]
    return rows[0] if len(rows) == 1 else apply(ops.concatenate, *rows, dimension=len(shape))


class _Index:
    """An index of torch: an array or None for each axis; arrays meet in one shape."""

    def __init__(self, node: Node, x: Array, indices: Sequence[Array | None]) -> None:
        given = [(axis, index) for axis, index in enumerate(indices) if index is not None]
        if any(index.dtype.kind == "b" for _, index in given):
            raise UnsupportedError(
                f"torch's {node.name} with a mask, whose shape depends on values",
                mend="use torch.where",
            )
        self.axes = [axis for axis, _ in given]
        self.shape = np.broadcast_shapes(*(index.shape for _, index in given))
        wide = [broadcast(_positive(index, x.shape[axis]), self.shape) for axis, index in given]
        self.vectors = _joined(wide)
        self.rest = [axis for axis in range(x.ndim) if axis not in self.axes]
        together = self.axes == list(range(self.axes[0], self.axes[-1] + 1))
        self.first = self.axes[0] if together else 0
        """Where the axes of the indices are in the result."""

    @property
    def offsets(self) -> tuple[int, ...]:
        """The axes of the result that are not those of the indices."""
        count = len(self.shape)
        total = count + len(self.rest)
        return tuple(i for i in range(total) if not self.first <= i < self.first + count)

    def result_shape(self, x: Array) -> tuple[int, ...]:
        """Return the shape of the elements that are indexed."""
        rest = [x.shape[axis] for axis in self.rest]
        return (*rest[: self.first], *self.shape, *rest[self.first :])


@rule("index", "_unsafe_index")
def index(node: Node, x: Array, indices: Sequence[Array | None]) -> Array:
    """Take elements by arrays of indices."""
    found = _Index(node, x, indices)
    sizes = tuple(1 if axis in found.axes else n for axis, n in enumerate(x.shape))
    if 0 in node.result.shape:
        return filled(0, node.result)
    return apply(
        ops.gather,
        x,
        found.vectors,
        offset_dims=found.offsets,
        collapsed_slice_dims=tuple(found.axes),
        start_index_map=tuple(found.axes),
        index_vector_dim=found.vectors.ndim - 1,
        slice_sizes=sizes,
    )


@rule("index_put", "_unsafe_index_put")
def index_put(
    node: Node,
    x: Array,
    indices: Sequence[Array | None],
    values: Array,
    accumulate: bool = False,
    unsafe: bool = False,
) -> Array:
    """Replace elements by arrays of indices, or add to them."""
    masks = [i for i in indices if i is not None]
    if len(masks) == 1 and masks[0].dtype.kind == "b" and values.size == 1:
        return _put_where(x, masks[0], values, indices, accumulate)
    found = _Index(node, x, indices)
    updates = broadcast(convert(values, x.dtype), found.result_shape(x))
    if not updates.size:
        return x
    return apply(
        ops.scatter,
        x,
        found.vectors,
        updates,
        combiner="add" if accumulate else "replace",
        update_window_dims=found.offsets,
        inserted_window_dims=tuple(found.axes),
        scatter_dims_to_operand_dims=tuple(found.axes),
        index_vector_dim=found.vectors.ndim - 1,
        unique_indices=False,
    )


def _put_where(
    x: Array, mask: Array, value: Array, indices: Sequence[Array | None], accumulate: bool
) -> Array:
    """Put one number where a mask holds."""
    first = next(i for i, item in enumerate(indices) if item is not None)
    dimensions = tuple(range(first, first + mask.ndim))
    whole = apply(ops.broadcast_in_dim, mask, shape=x.shape, dimensions=dimensions)
    number = broadcast(reshape(convert(value, x.dtype), ()), x.shape)
    return select(whole, apply(ops.add, x, number) if accumulate else number, x)


@rule("index_select")
def index_select(node: Node, x: Array, dim: int, places: Array) -> Array:
    """Take rows along an axis."""
    if x.ndim == 0:
        return x
    axis = axis_of(dim, x.ndim)
    indices = [None] * axis + [reshape(places, (places.size,))]
    return index(node, x, indices)


@rule("embedding")
def embedding(
    node: Node,
    weight: Array,
    indices: Array,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Array:
    """Take rows."""
    return index(node, weight, [indices])


@rule("embedding_dense_backward")
def embedding_dense_backward(
    node: Node,
    grad: Array,
    indices: Array,
    num_weights: int,
    padding_idx: int,
    scale_grad_by_freq: bool,
) -> Array:
    """Add up the cotangents of each row; that of the padding is zero."""
    if scale_grad_by_freq:
        raise UnsupportedError(
            "torch's embedding with scale_grad_by_freq", mend="leave scale_grad_by_freq out"
        )
    if padding_idx >= 0:
        is_padding = compare(indices, full_like(indices, padding_idx), "EQ")
        dimensions = tuple(range(indices.ndim))
        mask = apply(ops.broadcast_in_dim, is_padding, shape=grad.shape, dimensions=dimensions)
        grad = select(mask, full_like(grad, 0), grad)
    return index_put(node, filled(0, node.result), [indices], grad, True)


def _scatter_vectors(indices: Array, axis: int) -> Array:
    """Return for each index the whole place that it means."""
    columns = [
        apply(ops.iota, shape=indices.shape, dtype=_INT64, dimension=i)
        if i != axis
        else convert(indices, _INT64)
        for i in range(indices.ndim)
    ]
    return _joined(columns)


@rule("gather")
def gather(node: Node, x: Array, dim: int, indices: Array, *, sparse_grad: bool = False) -> Array:
    """Take along an axis: element i, j is x[indices[i, j], j]."""
    if not indices.size or x.ndim == 0:
        return broadcast(x, node.result.shape) if x.ndim == 0 else filled(0, node.result)
    axis = axis_of(dim, x.ndim)
    for i, size in enumerate(indices.shape):
        x = cut(x, i, 0, size) if i != axis else x
    others = tuple(i for i in range(x.ndim) if i != axis)
    return apply(
        ops.gather,
        x,
        reshape(convert(indices, _INT64), (*indices.shape, 1)),
        offset_dims=(),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
        index_vector_dim=indices.ndim,
        slice_sizes=(1,) * x.ndim,
        operand_batching_dims=others,
        start_indices_batching_dims=others,
    )


def _scattered(x: Array, dim: int, indices: Array, updates: Array, combiner: str) -> Array:
    """Combine updates at places along an axis."""
    if x.ndim == 0:
        shape = (1,)
        found = _scattered(
            reshape(x, shape), 0, reshape(indices, shape), reshape(updates, shape), combiner
        )
        return reshape(found, ())
    if not indices.size:
        return x
    axis = axis_of(dim, x.ndim)
    for i, size in enumerate(indices.shape):
        updates = cut(updates, i, 0, size)
    others = tuple(i for i in range(x.ndim) if i != axis)
    is_whole = all(indices.shape[i] == x.shape[i] for i in others)
    if is_whole and indices.shape[axis] == 1:
        return _placed(x, axis, indices, updates, combiner)
    if is_whole:
        vectors = reshape(convert(indices, _INT64), (*indices.shape, 1))
    else:
        vectors = _scatter_vectors(indices, axis)
    return apply(
        ops.scatter,
        x,
        vectors,
        updates,
        combiner=combiner,
        update_window_dims=(),
        inserted_window_dims=(axis,) if is_whole else tuple(range(x.ndim)),
        scatter_dims_to_operand_dims=(axis,) if is_whole else tuple(range(x.ndim)),
        index_vector_dim=indices.ndim,
        unique_indices=False,
        input_batching_dims=others if is_whole else (),
        scatter_indices_batching_dims=others if is_whole else (),
    )


def _placed(x: Array, axis: int, indices: Array, updates: Array, combiner: str) -> Array:
    """Combine one element of each line with an update, element by element.

    So is the gradient of `x.min(dim)`: unlike a scatter, it can be computed in slices of any axis.
    """
    places = apply(ops.iota, shape=x.shape, dtype=_INT64, dimension=axis)
    is_here = compare(places, broadcast(convert(indices, _INT64), x.shape), "EQ")
    spread = broadcast(updates, x.shape)
    op = _ELEMENTWISE[combiner]
    return select(is_here, spread if op is None else apply(op, x, spread), x)


_ELEMENTWISE = {
    "replace": None,
    "add": ops.add,
    "multiply": ops.multiply,
    "maximum": ops.maximum,
    "minimum": ops.minimum,
}
_COMBINERS = {
    None: "replace",
    "add": "add",
    "sum": "add",
    "mean": "add",
    "multiply": "multiply",
    "prod": "multiply",
    "amax": "maximum",
    "amin": "minimum",
}


@rule("scatter")
def scatter(
    node: Node, x: Array, dim: int, indices: Array, source: Any, *, reduce: str | None = None
) -> Array:
    """Put elements along an axis, or combine them with what is there."""
    is_array = isinstance(source, Array)
    updates = source if is_array else filled(source, x.type.with_shape(indices.shape))
    return _scattered(x, dim, indices, updates, _COMBINERS[reduce])


@rule("scatter_add")
def scatter_add(node: Node, x: Array, dim: int, indices: Array, source: Array) -> Array:
    """Add elements along an axis."""
    return _scattered(x, dim, indices, source, "add")


def _neutral(x: Array, combiner: str) -> Array:
    """Return what a reduction without the first operand begins with."""
    if combiner in ("add", "multiply"):
        return full_like(x, int(combiner == "multiply"))
    if x.dtype.kind == "f":
        return full_like(x, np.inf if combiner == "minimum" else -np.inf)
    limits = np.iinfo(x.dtype)
    return full_like(x, int(limits.max if combiner == "minimum" else limits.min))


@rule("scatter_reduce")
def scatter_reduce(
    node: Node,
    x: Array,
    dim: int,
    indices: Array,
    source: Array,
    reduce: str,
    *,
    include_self: bool = True,
) -> Array:
    """Reduce elements along an axis, with or without what is there."""
    combiner = _COMBINERS[reduce]
    ones = filled(1, ShapeDtype(indices.shape, _INT64))
    start = filled(int(include_self), ShapeDtype(x.shape, _INT64))
    found = _scattered(x if include_self else _neutral(x, combiner), dim, indices, source, combiner)
    if include_self and reduce != "mean":
        return found
    counts = _scattered(start, dim, indices, ones, "add")
    if reduce == "mean":
        at_least_one = apply(ops.maximum, counts, full_like(counts, 1))
        found = _mean(found, at_least_one)
    return select(compare(counts, full_like(counts, 0), "EQ"), x, found)


def _mean(total: Array, counts: Array) -> Array:
    if total.dtype.kind == "f":
        return apply(ops.divide, total, convert(counts, total.dtype))
    whole = convert(total, _INT64)
    quotient = apply(ops.divide, whole, counts)
    rest = apply(ops.remainder, whole, counts)
    is_below = compare(rest, full_like(rest, 0), "LT")
    floored = apply(ops.subtract, quotient, convert(is_below, _INT64))
    return convert(floored, total.dtype)


@rule("index_add")
def index_add(
    node: Node, x: Array, dim: int, places: Array, source: Array, *, alpha: Any = 1
) -> Array:
    """Add rows along an axis."""
    if alpha != 1:
        source = apply(ops.multiply, source, full_like(source, alpha))
    return _with_rows(node, x, dim, places, source, True)


@rule("index_copy")
def index_copy(node: Node, x: Array, dim: int, places: Array, source: Array) -> Array:
    """Replace rows along an axis."""
    return _with_rows(node, x, dim, places, source, False)


def _with_rows(
    node: Node, x: Array, dim: int, places: Array, source: Array, accumulate: bool
) -> Array:
    if x.ndim == 0:
        shape = (1,)
        one = _with_rows(node, reshape(x, shape), 0, places, reshape(source, shape), accumulate)
        return reshape(one, ())
    axis = axis_of(dim, x.ndim)
    indices = [None] * axis + [reshape(places, (places.size,))]
    return index_put(node, x, indices, source, accumulate)


@rule("index_fill")
def index_fill(node: Node, x: Array, dim: int, places: Array, value: Any) -> Array:
    """Fill rows along an axis."""
    axis = axis_of(dim, x.ndim)
    shape = (*x.shape[:axis], places.size, *x.shape[axis + 1 :])
    return _with_rows(node, x, dim, places, operand(value, x.type.with_shape(shape)), False)
