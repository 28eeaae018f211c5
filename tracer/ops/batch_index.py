"""Batching of ops that read or write windows at computed positions.

StableHLO's batching dimensions pair an axis of the operand with one of the indices. A dynamic slice
whose starts differ between elements is a gather, and an update a scatter. Source: the batching of
gather and scatter in JAX (jax/_src/lax/slicing.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracer import ops
from tracer.ir import Batching, Value
from tracer.ops import helpers
from tracer.ops.batch import all_with_axis, behind, spread_leading, with_axis

Sizes = tuple[int, ...]


def batch_gather(
    operands: tuple[Value, ...],
    batching: Batching,
    *,
    offset_dims: Sizes,
    collapsed_slice_dims: Sizes,
    start_index_map: Sizes,
    index_vector_dim: int,
    slice_sizes: Sizes,
    operand_batching_dims: Sizes = (),
    start_indices_batching_dims: Sizes = (),
) -> Value:
    """Take the axis as a window as large as the operand, a batch axis of the indices, or both."""
    x, indices = operands
    from_x, from_indices = batching.batched
    offsets = behind(offset_dims)
    paired: tuple[Sizes, Sizes] = ((), ())
    front: Sizes = ()
    if from_x and from_indices:
        indices = _counting_to(indices, batching.size)
        paired, front = ((0,), (0,)), (1,)
    elif from_x:
        offsets, front = (0, *offsets), (batching.size,)
    step, index_step = int(from_x), int(from_indices)
    return ops.gather(  # type: ignore[no-any-return]
        x,
        indices,
        offset_dims=offsets,
        collapsed_slice_dims=_moved(collapsed_slice_dims, step),
        start_index_map=_moved(start_index_map, step),
        index_vector_dim=index_vector_dim + index_step,
        slice_sizes=(*front, *slice_sizes),
        operand_batching_dims=(*paired[0], *_moved(operand_batching_dims, step)),
        start_indices_batching_dims=(
            *paired[1],
            *_moved(start_indices_batching_dims, index_step),
        ),
    )


def batch_scatter(
    operands: tuple[Value, ...],
    batching: Batching,
    *,
    update_window_dims: Sizes,
    inserted_window_dims: Sizes,
    scatter_dims_to_operand_dims: Sizes,
    index_vector_dim: int,
    input_batching_dims: Sizes = (),
    scatter_indices_batching_dims: Sizes = (),
    **params: Any,
) -> Value:
    """Take the axis as a batch axis of the indices, or as a window as large as the operand."""
    x, indices, updates = operands
    from_indices = batching.batched[1]
    x = with_axis(x, batching.batched[0], batching.size)
    updates = with_axis(updates, batching.batched[2], batching.size)
    window = behind(update_window_dims)
    paired: tuple[Sizes, Sizes] = ((0,), (0,))
    if from_indices:
        indices = _counting_to(indices, batching.size)
    else:
        window, paired = (0, *window), ((), ())
    step = int(from_indices)
    return ops.scatter(  # type: ignore[no-any-return]
        x,
        indices,
        updates,
        update_window_dims=window,
        inserted_window_dims=behind(inserted_window_dims),
        scatter_dims_to_operand_dims=behind(scatter_dims_to_operand_dims),
        index_vector_dim=index_vector_dim + step,
        input_batching_dims=(*paired[0], *behind(input_batching_dims)),
        scatter_indices_batching_dims=(*paired[1], *_moved(scatter_indices_batching_dims, step)),
        **params,
    )


def _moved(axes: Sizes, step: int) -> Sizes:
    return tuple(axis + step for axis in axes)


def _counting_to(indices: Value, size: int) -> Value:
    """Widen indices whose dtype cannot count the batch: XLA writes the batch's number into them."""
    return indices if size <= np.iinfo(indices.dtype).max else _widened(indices)


def _widened(indices: Value) -> Value:
    return helpers.convert(indices, np.dtype(np.int32 if indices.dtype.itemsize < 4 else np.int64))


def batch_dynamic_slice(operands: tuple[Value, ...], batching: Batching, *, sizes: Sizes) -> Value:
    """Take all elements along the axis; gather when the starts have it."""
    x, *starts = operands
    if not any(batching.batched[1:]):
        return ops.dynamic_slice(  # type: ignore[no-any-return]
            x, _zero(starts), *starts, sizes=(batching.size, *sizes)
        )
    shape = x.shape[1:] if batching.batched[0] else x.shape
    addressed = _cut_axes(shape, sizes)
    if not addressed:
        return x
    indices = _indices(starts, batching.batched[1:], addressed, batching.size)
    flags = (batching.batched[0], True)
    return batch_gather(
        (x, indices),
        Batching(ops.gather, batching.size, flags, batching.batch_graph),
        offset_dims=tuple(range(len(sizes))),
        collapsed_slice_dims=(),
        start_index_map=addressed,
        index_vector_dim=0,
        slice_sizes=sizes,
    )


def batch_dynamic_update_slice(operands: tuple[Value, ...], batching: Batching) -> Value:
    """Update all elements along the axis; scatter when the starts have it."""
    starts, flags = operands[2:], batching.batched[2:]
    arrays = Batching(batching.op, batching.size, batching.batched[:2], batching.batch_graph)
    x, update = all_with_axis(operands[:2], arrays)
    if not any(flags):
        return ops.dynamic_update_slice(x, update, _zero(starts), *starts)  # type: ignore[no-any-return]
    shape, sizes = x.shape[1:], update.shape[1:]
    addressed = _cut_axes(shape, sizes)
    if not addressed:
        return update
    indices = _indices(starts, flags, addressed, batching.size)
    # A scatter drops what an update would move inside.
    bound = helpers.index_bound(indices, [shape[i] - sizes[i] for i in addressed], 1)
    clamped = ops.clamp(helpers.zeros_like(indices), indices, bound)
    return _scattered(x, clamped, update, addressed, batching)


def batch_guarded_update_slice(operands: tuple[Value, ...], batching: Batching) -> Value:
    """Update all elements along the axis; scatter, which drops too, when the starts have it."""
    starts, flags = operands[2:], batching.batched[2:]
    arrays = Batching(batching.op, batching.size, batching.batched[:2], batching.batch_graph)
    x, update = all_with_axis(operands[:2], arrays)
    if not any(flags):
        return ops.guarded_update_slice(x, update, _zero(starts), *starts)  # type: ignore[no-any-return]
    cut = _cut_axes(x.shape[1:], update.shape[1:])
    # If the window spans the axis, a start other than zero still drops it.
    addressed = tuple(
        i for i, start in enumerate(starts) if i in cut or not helpers.is_zeros(start)
    )
    indices = _indices(starts, flags, addressed, batching.size)
    return _scattered(x, indices, update, addressed, batching)


def _scattered(
    x: Value, indices: Value, update: Value, addressed: Sizes, batching: Batching
) -> Value:
    """Write one window for each element of the batch."""
    return batch_scatter(
        (x, indices, update),
        Batching(ops.scatter, batching.size, (True, True, True), batching.batch_graph),
        combiner="replace",
        update_window_dims=tuple(range(len(update.shape) - 1)),
        inserted_window_dims=(),
        scatter_dims_to_operand_dims=addressed,
        index_vector_dim=0,
        unique_indices=True,
    )


def _zero(starts: Sequence[Value]) -> Value:
    return helpers.scalar(0, starts[0].dtype if starts else np.dtype(np.int32))


def _cut_axes(shape: Sizes, sizes: Sizes) -> Sizes:
    """Return the axes that a window does not span: only there a clamped start matters."""
    return tuple(axis for axis, n in enumerate(shape) if sizes[axis] != n)


def _indices(starts: Sequence[Value], flags: Sequence[bool], addressed: Sizes, size: int) -> Value:
    """Return the starts along the addressed axes as an index array (batch, axes)."""
    columns = [
        helpers.reshape(
            starts[axis] if flags[axis] else spread_leading(starts[axis], size), (size, 1)
        )
        for axis in addressed
    ]
    if len(columns) == 1:
        return columns[0]
    return ops.concatenate(*columns, dimension=1)  # type: ignore[no-any-return]


__all__ = [
    "batch_dynamic_slice",
    "batch_dynamic_update_slice",
    "batch_gather",
    "batch_guarded_update_slice",
    "batch_scatter",
]
