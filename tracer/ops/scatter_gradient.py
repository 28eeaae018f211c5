"""The gradient of scatter.

`add` is linear. Ties of `maximum` and `minimum` share the gradient equally. `replace` gives it to
the update that was written last. `multiply` needs unique indices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer import ops
from tracer.errors import NotDifferentiableError
from tracer.ir import ShapeDtype, Value
from tracer.ops import helpers
from tracer.ops.gather import remaining_axes
from tracer.ops.rules import is_inexact

Sizes = tuple[int, ...]


def window_sizes(updates: ShapeDtype | Value, windows: Sizes, inserted: Sizes) -> Sizes:
    """Return the window's size along every axis of the operand: 1 along inserted ones."""
    sizes = iter(updates.shape[axis] for axis in windows)
    ndim = len(windows) + len(inserted)
    return tuple(1 if axis in inserted else next(sizes) for axis in range(ndim))


class _Places:
    """The positions of one scatter, for its gradient: read them, and tell which are inside."""

    def __init__(self, x: Value, indices: Value, updates: Value, params: dict[str, Any]) -> None:
        self.x, self.indices, self.updates, self.params = x, indices, updates, params
        self.batching = params.get("input_batching_dims", ())
        single = (*params["inserted_window_dims"], *self.batching)
        self.window = window_sizes(updates, params["update_window_dims"], single)

    def read(self, x: Value) -> Value:
        """Gather the elements at the positions of the updates; only those inside are meaningful."""
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
        """Tell for each element of the updates whether its window is inside the operand."""
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


def scatter_vjp(
    g: Value, out: Value, x: Value, indices: Value, updates: Value, *, combiner: str, **params: Any
) -> tuple[Value | None, None, Value | None]:
    """Return the cotangents of the operand and of the updates; indices have none."""
    if not is_inexact(x.dtype):
        return None, None, None
    for_x, for_updates = _VJPS[combiner](g, out, _Places(x, indices, updates, params))
    return for_x, None, for_updates


__all__ = ["scatter_vjp", "window_sizes"]
