"""Scatter: combine updates into an array at computed positions. Source: StableHLO specification.

A window that is not entirely within the operand is dropped.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer import ops
from tracer.errors import ArgumentError, ShapeError
from tracer.ir import AxisRule, Chunk, Cost, Label, Op, ShapeDtype, Value
from tracer.ir.op import Types
from tracer.ops import helpers
from tracer.ops.batch_index import batch_scatter
from tracer.ops.gather import (
    batch_positions,
    element_places,
    index_scratch,
    index_shape,
    remaining_axes,
    require_batching,
    require_indices,
    window_places,
)
from tracer.ops.merges import INTO_OPERAND
from tracer.ops.rules import (
    own_label,
    require_axes,
    require_kind,
    require_same_dtypes,
    widened,
)
from tracer.ops.scatter_gradient import scatter_vjp, window_sizes

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]
_COMBINERS = {
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "replace": None,
}
_FEW_UPDATES = 4096
"""Updates are few when the array has so many elements for each."""
_KINDS = {"replace": "biufc", "maximum": "biuf", "minimum": "biuf"}


def _infer(
    x: ShapeDtype,
    indices: ShapeDtype,
    updates: ShapeDtype,
    *,
    combiner: str,
    update_window_dims: Sizes,
    inserted_window_dims: Sizes,
    scatter_dims_to_operand_dims: Sizes,
    index_vector_dim: int,
    unique_indices: bool,
    input_batching_dims: Sizes = (),
    scatter_indices_batching_dims: Sizes = (),
) -> ShapeDtype:
    if combiner not in _COMBINERS:
        raise ArgumentError(
            f"scatter knows no combiner {combiner!r}", mend=f"use one of {list(_COMBINERS)}"
        )
    require_kind(f"scatter with {combiner}", x, _KINDS.get(combiner, "iufc"))
    require_same_dtypes("scatter", (x, updates))
    require_indices("scatter", x, indices, scatter_dims_to_operand_dims, index_vector_dim)
    pairs = (input_batching_dims, scatter_indices_batching_dims)
    require_batching("scatter", x, indices, pairs, index_vector_dim)
    single = (*inserted_window_dims, *input_batching_dims)
    require_axes("scatter", single, x.ndim)
    require_axes("scatter", (*scatter_dims_to_operand_dims, *input_batching_dims), x.ndim)
    require_axes("scatter", update_window_dims, updates.ndim)
    batch, _ = index_shape(indices, index_vector_dim)
    rest = remaining_axes(updates.ndim, update_window_dims)
    fits = (
        len(update_window_dims) + len(single) == x.ndim
        and list(update_window_dims) == sorted(update_window_dims)
        and tuple(updates.shape[axis] for axis in rest) == batch
    )
    # Axes of single elements may be empty: batching ones, and all where nothing is written.
    may_be_empty = single if 0 in updates.shape else pairs[0]
    if not fits or _is_larger(window_sizes(updates, update_window_dims, single), x, may_be_empty):
        raise ShapeError(
            f"scatter: updates {updates} with window axes {update_window_dims} do not fit "
            f"indices {indices} and {x}",
            mend="updates have the batch axes of the indices and windows no larger than the array",
        )
    return x


def _is_larger(window: Sizes, x: ShapeDtype, may_be_empty: Sizes) -> bool:
    """Tell whether a window exceeds the array along another axis than those that may be empty."""
    sizes = enumerate(zip(window, x.shape, strict=True))
    return any(size > n for axis, (size, n) in sizes if axis not in may_be_empty)


def _evaluate(
    x: Array,
    indices: Array,
    updates: Array,
    *,
    combiner: str,
    update_window_dims: Sizes,
    inserted_window_dims: Sizes,
    scatter_dims_to_operand_dims: Sizes,
    index_vector_dim: int,
    unique_indices: bool,
    input_batching_dims: Sizes = (),
    scatter_indices_batching_dims: Sizes = (),
) -> Any:
    type = ShapeDtype(updates.shape, updates.dtype)
    single = (*inserted_window_dims, *input_batching_dims)
    window = window_sizes(type, update_window_dims, single)
    pairs = (input_batching_dims, scatter_indices_batching_dims)
    starts, inside = window_places(
        x.shape, indices, window, scatter_dims_to_operand_dims, index_vector_dim, pairs
    )
    places = element_places(starts, window, single)
    order = (*remaining_axes(updates.ndim, update_window_dims), *update_window_dims)
    ordered = widened(updates).transpose(order)
    result = np.array(widened(x))
    where = tuple(place[inside] for place in places) if places else ()
    combine = _COMBINERS[combiner]
    values = ordered[inside]
    if not places:
        values = values.reshape(-1)
        where = (np.zeros(values.shape, int),)
        result = result.reshape(1)
    if combine is None:
        result[where] = values
    else:
        with np.errstate(all="ignore"):
            combine.at(result, where, values)
    return result.reshape(x.shape).astype(x.dtype, copy=False)


def _lower(
    b: Any, types: Types, x: Any, indices: Any, updates: Any, *, combiner: str, **params: Any
) -> Any:
    def combine(b: Any, old: Any, new: Any) -> Any:
        return new if combiner == "replace" else getattr(b, combiner)(old, new)

    return b.scatter(types[0], x, indices, updates, combine, **params)


def _axes(
    operands: Types,
    results: Types,
    *,
    update_window_dims: Sizes,
    inserted_window_dims: Sizes,
    scatter_dims_to_operand_dims: Sizes,
    index_vector_dim: int,
    input_batching_dims: Sizes = (),
    scatter_indices_batching_dims: Sizes = (),
    **_: Any,
) -> AxisRule:
    """Axes that every window covers entirely are parallel, and so are batching axes.

    Slices of the updates, with their indices, go into the operand one after the other. Where
    updates are few, the axes that they look for their places on are parallel too: each slice of the
    operand takes all of them, and drops those outside.
    """
    x, indices, updates = operands
    labels: tuple[Label, ...] = tuple(range(x.ndim))
    index_labels: list[Label] = [own_label(1, axis) for axis in range(indices.ndim)]
    update_labels: list[Label] = [own_label(2, axis) for axis in range(updates.ndim)]
    kept = remaining_axes(x.ndim, (*inserted_window_dims, *input_batching_dims))
    whole: set[Label] = {*labels, *index_labels, *update_labels}
    for axis, place in zip(kept, update_window_dims, strict=True):
        if updates.shape[place] == x.shape[axis]:
            whole -= {axis, update_labels[place]}
            update_labels[place] = axis
    batch = remaining_axes(updates.ndim, update_window_dims)
    positions = batch_positions(scatter_indices_batching_dims, index_vector_dim)
    for axis, place, position in zip(
        input_batching_dims, scatter_indices_batching_dims, positions, strict=True
    ):
        whole -= {axis, index_labels[place], update_labels[batch[position]]}
        index_labels[place] = update_labels[batch[position]] = axis
    if updates.size * _FEW_UPDATES <= x.size:
        whole -= set(_searched(inserted_window_dims, scatter_dims_to_operand_dims))
    reduced: dict[Label, str] = {}
    addressing = remaining_axes(indices.ndim, (index_vector_dim,))
    for axis, place in zip(addressing, batch, strict=True):
        if index_labels[axis] in whole:
            whole -= {index_labels[axis], update_labels[place]}
            index_labels[axis] = update_labels[place]
            reduced[update_labels[place]] = "scatter"
    rows = (labels, tuple(index_labels), tuple(update_labels))
    return AxisRule(rows, (labels,), reduced, whole=frozenset(whole))


def _searched(inserted_window_dims: Sizes, scatter_dims_to_operand_dims: Sizes) -> Sizes:
    """Return the axes on which each update has one place, which its index says."""
    return tuple(axis for axis in inserted_window_dims if axis in scatter_dims_to_operand_dims)


def _slice(operands: tuple[Value, ...], chunk: Chunk, **params: Any) -> Any:
    x, indices, updates = operands
    addressed = params["scatter_dims_to_operand_dims"]
    if chunk.label in _searched(params["inserted_window_dims"], addressed):
        place = addressed.index(chunk.label)
        indices = _counted_from(chunk.start, indices, place, params["index_vector_dim"])
    return ops.scatter(x, indices, updates, **params)


def _counted_from(start: Value, indices: Value, place: int, index_vector_dim: int) -> Value:
    """Return indices one component of which counts from `start`: what comes before is negative.

    Or, where that is unsigned, larger than any array: both are out of bounds.
    """
    common = np.promote_types(indices.dtype, start.dtype)
    dtype = indices.dtype if common.kind == "f" else common  # uint64 and int64 have none
    indices, start = helpers.convert(indices, dtype), helpers.convert(start, dtype)
    shape = indices.shape
    moved = ops.broadcast_in_dim(start, shape=shape, dimensions=())
    if index_vector_dim < len(shape):
        numbers = ops.iota(shape=shape, dtype=np.dtype(np.int32), dimension=index_vector_dim)
        is_it = ops.compare(numbers, helpers.full_like(numbers, place), direction="EQ")
        moved = helpers.where(is_it, moved)
    return ops.subtract(indices, moved)  # type: ignore[no-any-return]


def _cost(operands: Types, results: Types, *, input_batching_dims: Sizes = (), **_: Any) -> Cost:
    _x, indices, updates = operands
    moved = indices.nbytes + 3 * updates.nbytes
    return Cost(updates.size, moved, index_scratch(indices, input_batching_dims))


scatter: Op = Op(
    "scatter",
    doc="Combine updates into an array at computed places: add, multiply, maximum, minimum or "
    "replace. Dimension numbers as StableHLO's; what is out of bounds is dropped.",
    infer=_infer,
    evaluate=_evaluate,
    lower=_lower,
    vjp=scatter_vjp,
    axes=_axes,
    slice=_slice,
    cost=_cost,
    reuses=(0,),
    fusion="opaque",
    batch=batch_scatter,
    merge=INTO_OPERAND,
)
