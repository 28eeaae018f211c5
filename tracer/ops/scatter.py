"""Scatter: combine updates into an array at computed places. Source: StableHLO specification.

A window that does not lie inside of the operand is dropped entirely. Gradients: `add` is linear;
where `maximum` and `minimum` tie, all that reach the value share equally; `replace` gives the
gradient to the update that was written last; `multiply` needs unique indices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer import ops
from tracer.errors import ArgumentError, NotDifferentiableError, ShapeError
from tracer.ir import AxisRule, Cost, Label, Op, ShapeDtype, Value
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
    is_inexact,
    own_label,
    require_axes,
    require_kind,
    require_same_dtypes,
    widened,
)

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]
_COMBINERS = {
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "replace": None,
}
_KINDS = {"replace": "biufc", "maximum": "biuf", "minimum": "biuf"}


def _window_sizes(updates: ShapeDtype | Value, windows: Sizes, inserted: Sizes) -> Sizes:
    """Return the window's size along every axis of the operand: 1 along inserted ones."""
    sizes = iter(updates.shape[axis] for axis in windows)
    ndim = len(windows) + len(inserted)
    return tuple(1 if axis in inserted else next(sizes) for axis in range(ndim))


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
    if not fits or any(
        size > n
        for size, n in zip(_window_sizes(updates, update_window_dims, single), x.shape, strict=True)
    ):
        raise ShapeError(
            f"scatter: updates {updates} with window axes {update_window_dims} do not fit "
            f"indices {indices} and {x}",
            mend="updates have the batch axes of the indices and windows no larger than the array",
        )
    return x


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
    window = _window_sizes(type, update_window_dims, single)
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

    found = b.scatter(types[0], x, indices, updates, combine, **params)
    if _COMBINERS[combiner] not in (np.maximum, np.minimum):
        return found

    def find_nan() -> Any:
        flags, given = b.compare("NE", x, x), b.compare("NE", updates, updates)
        return b.scatter(flags.type, flags, indices, given, lambda b, *both: b.or_(*both), **params)

    return b.keep_nan(found, find_nan)


class _Places:
    """The places of one scatter, for its gradient: reading them, and which windows lie inside."""

    def __init__(self, x: Value, indices: Value, updates: Value, params: dict[str, Any]) -> None:
        self.x, self.indices, self.updates, self.params = x, indices, updates, params
        self.batching = params.get("input_batching_dims", ())
        single = (*params["inserted_window_dims"], *self.batching)
        self.window = _window_sizes(updates, params["update_window_dims"], single)

    def read(self, x: Value) -> Value:
        """Gather what lies at the places of the updates; only what is inside means something."""
        return ops.gather(  # type: ignore[no-any-return]
            x,
            self.indices,
            offset_dims=self.params["update_window_dims"],
            collapsed_slice_dims=self.params["inserted_window_dims"],
            start_index_map=self.params["scatter_dims_to_operand_dims"],
            index_vector_dim=self.params["index_vector_dim"],
            slice_sizes=self.window,
            operand_batching_dims=self.batching,
            start_indices_batching_dims=self.params.get("scatter_indices_batching_dims", ()),
        )

    def write(self, x: Value, updates: Value, combiner: str) -> Value:
        """Scatter other updates to the same places."""
        return ops.scatter(  # type: ignore[no-any-return]
            x, self.indices, updates, combiner=combiner, **self.params
        )

    def inside(self) -> Value:
        """Tell for each element of the updates whether its window lies inside of the operand."""
        axis = self.params["index_vector_dim"]
        addressed = self.params["scatter_dims_to_operand_dims"]
        room = [self.x.shape[i] - self.window[i] for i in addressed]
        bound = helpers.index_bound(self.indices, room, axis)
        fits = ops.and_(
            ops.compare(self.indices, helpers.zeros_like(self.indices), direction="GE"),
            ops.compare(self.indices, bound, direction="LE"),
        )
        if axis < len(self.indices.shape):
            fits = ops.reduce_and(fits, axes=(axis,))
        shape = self.updates.shape
        batch = remaining_axes(len(shape), self.params["update_window_dims"])
        return ops.broadcast_in_dim(fits, shape=shape, dimensions=batch)  # type: ignore[no-any-return]


def _add_vjp(g: Value, out: Value, places: _Places) -> tuple[Value, Value]:
    return g, helpers.where(places.inside(), places.read(g))


def _multiply_vjp(g: Value, out: Value, places: _Places) -> tuple[Value, Value]:
    if not places.params["unique_indices"]:
        raise NotDifferentiableError(
            "scatter with multiply has no gradient here when indices may repeat",
            mend="pass unique_indices=True if they do not, or multiply step by step",
        )
    factors = places.write(helpers.ones_like(places.x), places.updates, "multiply")
    others = places.read(ops.multiply(g, places.x))
    return ops.multiply(g, factors), helpers.where(places.inside(), others)


def _extremum_vjp(g: Value, out: Value, places: _Places) -> tuple[Value, Value]:
    kept = ops.compare(places.x, out, direction="EQ")
    reached = ops.compare(places.updates, places.read(out), direction="EQ")
    reached = ops.and_(reached, places.inside())
    count = places.write(helpers.convert(kept, g.dtype), helpers.convert(reached, g.dtype), "add")
    share = ops.divide(g, count)
    return helpers.where(kept, share), helpers.where(reached, places.read(share))


def _replace_vjp(g: Value, out: Value, places: _Places) -> tuple[Value, Value]:
    """Zero the operand's cotangent where it was overwritten; the winner of each place gets it."""
    updates = places.updates
    outside = places.write(g, helpers.zeros_like(updates), "replace")
    won = places.inside()
    if not places.params["unique_indices"]:
        size = ShapeDtype(updates.shape, bool).size
        dtype = np.dtype(np.int32 if size < 2**31 else np.int64)
        numbers = helpers.reshape(ops.iota(shape=(size,), dtype=dtype, dimension=0), updates.shape)
        empty = helpers.full(-1, ShapeDtype(places.x.shape, dtype))
        last = places.read(places.write(empty, numbers, "replace"))
        won = ops.and_(won, ops.compare(last, numbers, direction="EQ"))
    return outside, helpers.where(won, places.read(g))


_VJPS = {
    "add": _add_vjp,
    "multiply": _multiply_vjp,
    "maximum": _extremum_vjp,
    "minimum": _extremum_vjp,
    "replace": _replace_vjp,
}


def _vjp(
    g: Value, out: Value, x: Value, indices: Value, updates: Value, *, combiner: str, **params: Any
) -> tuple[Value | None, None, Value | None]:
    if not is_inexact(x.dtype):
        return None, None, None
    for_x, for_updates = _VJPS[combiner](g, out, _Places(x, indices, updates, params))
    return for_x, None, for_updates


def _axes(
    operands: Types,
    results: Types,
    *,
    update_window_dims: Sizes,
    inserted_window_dims: Sizes,
    index_vector_dim: int,
    input_batching_dims: Sizes = (),
    scatter_indices_batching_dims: Sizes = (),
    **_: Any,
) -> AxisRule:
    """Axes that every window covers entirely are parallel, and so are batching axes.

    Slices of the updates, with their indices, go into the operand one after the other.
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
    reduced: dict[Label, str] = {}
    addressing = remaining_axes(indices.ndim, (index_vector_dim,))
    for axis, place in zip(addressing, batch, strict=True):
        if index_labels[axis] in whole:
            whole -= {index_labels[axis], update_labels[place]}
            index_labels[axis] = update_labels[place]
            reduced[update_labels[place]] = "scatter"
    rows = (labels, tuple(index_labels), tuple(update_labels))
    return AxisRule(rows, (labels,), reduced, whole=frozenset(whole))


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
    vjp=_vjp,
    axes=_axes,
    cost=_cost,
    reuses=(0,),
    fusion="opaque",
    batch=batch_scatter,
    merge=INTO_OPERAND,
)
