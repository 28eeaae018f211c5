"""Gather: windows of an array at computed positions. Source: StableHLO specification.

Starts are clamped so that every window lies within the operand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracer import ops
from tracer.errors import DTypeError, ShapeError
from tracer.ir import AxisRule, Chunk, Cost, Label, Op, ShapeDtype, Value
from tracer.ir.op import Types
from tracer.ops import helpers
from tracer.ops.batch_index import batch_gather
from tracer.ops.rules import own_label, require_axes

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]


def index_shape(indices: ShapeDtype | Value, index_vector_dim: int) -> tuple[Sizes, int]:
    """Return the batch shape of an index array and the length of its index vectors."""
    shape = indices.shape
    if index_vector_dim == len(shape):
        return shape, 1
    return (*shape[:index_vector_dim], *shape[index_vector_dim + 1 :]), shape[index_vector_dim]


def require_indices(
    name: str, x: ShapeDtype, indices: ShapeDtype, index_map: Sizes, index_vector_dim: int
) -> None:
    """Raise unless the index array fits the operand's axes that it addresses."""
    if indices.dtype.kind not in "iu":
        raise DTypeError(
            f"{name} needs integer indices, got {indices}", mend="convert the indices to int32"
        )
    require_axes(name, index_map, x.ndim)
    if not 0 <= index_vector_dim <= indices.ndim:
        raise ShapeError(
            f"{name}: index_vector_dim {index_vector_dim} does not fit {indices}",
            mend="name an axis of the indices, or their number of axes for scalar indices",
        )
    _, length = index_shape(indices, index_vector_dim)
    if length != len(index_map):
        raise ShapeError(
            f"{name}: index vectors of length {length} address {len(index_map)} axes {index_map}",
            mend="give one index for each addressed axis",
        )


def remaining_axes(ndim: int, taken: Sequence[int]) -> Sizes:
    """Return the axes below `ndim` that are not among `taken`."""
    return tuple(axis for axis in range(ndim) if axis not in taken)


def require_batching(
    name: str, x: ShapeDtype, indices: ShapeDtype, pairs: tuple[Sizes, Sizes], vector_dim: int
) -> None:
    """Raise unless the batching axes of operand and indices correspond."""
    of_operand, of_indices = pairs
    require_axes(name, of_operand, x.ndim)
    require_axes(name, of_indices, indices.ndim)
    sizes = [x.shape[axis] for axis in of_operand], [indices.shape[axis] for axis in of_indices]
    if sizes[0] != sizes[1] or vector_dim in of_indices:
        raise ShapeError(
            f"{name}: batching axes {of_operand} of {x} and {of_indices} of {indices} differ",
            mend="pair axes of equal size, other than the indices' vector axis",
        )


def batch_positions(axes: Sizes, index_vector_dim: int) -> Sizes:
    """Return the positions of the indices' axes when the vector axis is left out."""
    return tuple(axis - (axis > index_vector_dim) for axis in axes)


def window_places(
    shape: Sizes,
    indices: Array,
    window: Sizes,
    index_map: Sizes,
    index_vector_dim: int,
    batching: tuple[Sizes, Sizes],
) -> tuple[Array, Array]:
    """Return the start of each window in an array of `shape`, and whether the window is inside.

    Returns
    -------
    starts : np.ndarray, shape (*batch, len(shape)), int64
    inside : np.ndarray, shape batch, bool
    """
    if index_vector_dim == indices.ndim:
        indices = indices[..., None]
    vectors = np.moveaxis(indices, index_vector_dim, -1).astype(np.int64)
    starts = np.zeros((*vectors.shape[:-1], len(shape)), np.int64)
    starts[..., list(index_map)] = vectors
    batch_shape = vectors.shape[:-1]
    for axis, place in zip(
        batching[0], batch_positions(batching[1], index_vector_dim), strict=True
    ):
        line = np.arange(batch_shape[place])
        starts[..., axis] = line.reshape([-1 if i == place else 1 for i in range(len(batch_shape))])
    room = np.array(shape, np.int64) - np.array(window, np.int64)
    inside = ((starts >= 0) & (starts <= room)).all(-1)
    return starts, np.asarray(inside)


def element_places(starts: Array, window: Sizes, collapsed: Sizes) -> tuple[Array, ...]:
    """Return the index of every element of every window: for each axis, shape batch + window."""
    kept = remaining_axes(len(window), collapsed)
    batch = starts.ndim - 1
    places = []
    for axis in range(len(window)):
        place = starts[..., axis].reshape((*starts.shape[:-1], *(1 for _ in kept)))
        if axis in kept:
            sizes = [1] * (batch + len(kept))
            sizes[batch + kept.index(axis)] = window[axis]
            place = place + np.arange(window[axis]).reshape(sizes)
        places.append(place)
    return tuple(np.broadcast_arrays(*places)) if places else ()


def _infer_gather(
    x: ShapeDtype,
    indices: ShapeDtype,
    *,
    offset_dims: Sizes,
    collapsed_slice_dims: Sizes,
    start_index_map: Sizes,
    index_vector_dim: int,
    slice_sizes: Sizes,
    operand_batching_dims: Sizes = (),
    start_indices_batching_dims: Sizes = (),
) -> ShapeDtype:
    require_indices("gather", x, indices, start_index_map, index_vector_dim)
    pairs = (operand_batching_dims, start_indices_batching_dims)
    require_batching("gather", x, indices, pairs, index_vector_dim)
    require_axes("gather", (*collapsed_slice_dims, *operand_batching_dims), x.ndim)
    require_axes("gather", (*start_index_map, *operand_batching_dims), x.ndim)
    single = (*collapsed_slice_dims, *operand_batching_dims)
    batch, _ = index_shape(indices, index_vector_dim)
    kept = remaining_axes(x.ndim, single)
    ndim = len(batch) + len(kept)
    require_axes("gather", offset_dims, ndim)
    # Where nothing is read, axes of single elements may be empty.
    may_be_empty = single if 0 in batch else ()
    fits = len(slice_sizes) == x.ndim and all(
        0 <= size <= n or axis in may_be_empty
        for axis, (size, n) in enumerate(zip(slice_sizes, x.shape, strict=True))
    )
    if not fits or any(slice_sizes[axis] != 1 for axis in single):
        raise ShapeError(
            f"gather: windows of sizes {slice_sizes}, collapsed {collapsed_slice_dims}, from {x}",
            mend="one size for each axis, at most the axis' size, and 1 where it is collapsed",
        )
    if len(offset_dims) != len(kept) or list(offset_dims) != sorted(offset_dims):
        raise ShapeError(
            f"gather: offset_dims {offset_dims} do not name {len(kept)} result axes in order",
            mend="name one result axis for each window axis that is not collapsed",
        )
    windows = dict(zip(offset_dims, (slice_sizes[axis] for axis in kept), strict=True))
    rest = iter(batch)
    return x.with_shape(windows[i] if i in windows else next(rest) for i in range(ndim))


def _evaluate_gather(
    x: Array,
    indices: Array,
    *,
    offset_dims: Sizes,
    collapsed_slice_dims: Sizes,
    start_index_map: Sizes,
    index_vector_dim: int,
    slice_sizes: Sizes,
    operand_batching_dims: Sizes = (),
    start_indices_batching_dims: Sizes = (),
) -> Any:
    pairs = (operand_batching_dims, start_indices_batching_dims)
    starts, _ = window_places(
        x.shape, indices, slice_sizes, start_index_map, index_vector_dim, pairs
    )
    starts = np.clip(starts, 0, np.array(x.shape, np.int64) - np.array(slice_sizes, np.int64))
    single = (*collapsed_slice_dims, *operand_batching_dims)
    places = element_places(starts, slice_sizes, single)
    windows = x[places] if places else x
    batch = starts.ndim - 1
    order = [*remaining_axes(windows.ndim, offset_dims), *offset_dims]
    return windows.transpose(np.argsort(order)) if batch + len(offset_dims) else windows


def _gather_vjp(
    g: Value,
    out: Value,
    x: Value,
    indices: Value,
    *,
    offset_dims: Sizes,
    collapsed_slice_dims: Sizes,
    start_index_map: Sizes,
    index_vector_dim: int,
    slice_sizes: Sizes,
    operand_batching_dims: Sizes = (),
    start_indices_batching_dims: Sizes = (),
) -> tuple[Value, None]:
    """Add each window's cotangent where it was read; clamped as gather does, scatter would drop."""
    room = [x.shape[axis] - slice_sizes[axis] for axis in start_index_map]
    bound = helpers.index_bound(indices, room, index_vector_dim)
    clamped = ops.clamp(helpers.zeros_like(indices), indices, bound)
    total = ops.scatter(
        helpers.zeros_like(x),
        clamped,
        g,
        combiner="add",
        update_window_dims=offset_dims,
        inserted_window_dims=collapsed_slice_dims,
        scatter_dims_to_operand_dims=start_index_map,
        index_vector_dim=index_vector_dim,
        unique_indices=False,
        input_batching_dims=operand_batching_dims,
        scatter_indices_batching_dims=start_indices_batching_dims,
    )
    return total, None


def _gather_axes(
    operands: Types,
    results: Types,
    *,
    offset_dims: Sizes,
    collapsed_slice_dims: Sizes,
    start_index_map: Sizes,
    index_vector_dim: int,
    slice_sizes: Sizes,
    operand_batching_dims: Sizes = (),
    start_indices_batching_dims: Sizes = (),
) -> AxisRule:
    x, indices = operands
    kept = remaining_axes(x.ndim, (*collapsed_slice_dims, *operand_batching_dims))
    outside: list[Label] = list(range(results[0].ndim))
    inside: list[Label] = [own_label(0, axis) for axis in range(x.ndim)]
    whole: set[Label] = set(inside)
    for axis, place in zip(kept, offset_dims, strict=True):
        if slice_sizes[axis] == x.shape[axis]:
            whole.discard(inside[axis])
            inside[axis] = place
        else:
            whole.add(place)
    rest = iter(remaining_axes(results[0].ndim, offset_dims))
    rows: list[Label] = [
        own_label(1, axis) if axis == index_vector_dim else next(rest)
        for axis in range(indices.ndim)
    ]
    for axis, place in zip(operand_batching_dims, start_indices_batching_dims, strict=True):
        whole.discard(inside[axis])
        inside[axis] = rows[place]
    whole |= {label for label in rows if isinstance(label, str)}
    return AxisRule((tuple(inside), tuple(rows)), (tuple(outside),), whole=frozenset(whole))


def _slice_gather(
    operands: tuple[Value, ...], chunk: Chunk, *, slice_sizes: Sizes, **params: Any
) -> Any:
    inside = chunk.rule.operands[0]
    batching = params.get("operand_batching_dims", ())
    sizes = tuple(
        chunk.size if label == chunk.label and axis not in batching else slice_sizes[axis]
        for axis, label in enumerate(inside)
    )
    return ops.gather(*operands, slice_sizes=sizes, **params)


def index_scratch(indices: ShapeDtype, batching: Sizes) -> int:
    """Bytes of the index array that XLA writes out for batching axes: one more index for each."""
    return indices.nbytes * (len(batching) + 1) if batching else 0


def _gather_cost(
    operands: Types, results: Types, *, operand_batching_dims: Sizes = (), **_: Any
) -> Cost:
    indices = operands[1]
    moved = indices.nbytes + 2 * results[0].nbytes
    return Cost(0, moved, index_scratch(indices, operand_batching_dims))


gather: Op = Op(
    "gather",
    doc="Windows of an array at computed starts (clamped). Dimension numbers as StableHLO's; the "
    "batching axes of operand and indices run together and may be left out.",
    infer=_infer_gather,
    evaluate=_evaluate_gather,
    lower=lambda b, types, x, indices, **params: b.gather(types[0], x, indices, **params),
    vjp=_gather_vjp,
    axes=_gather_axes,
    cost=_gather_cost,
    slice=_slice_gather,
    fusion="loop",
    batch=batch_gather,
)
