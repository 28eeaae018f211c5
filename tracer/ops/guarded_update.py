"""A window replaced at a computed position if it lies within the array; dropped otherwise.

For starts within bounds this is `dynamic_update_slice`, for others `scatter`: JAX's index update
with mode "drop". A read, a select and a write would do in the forward pass, but the gradient of the
read is an array as large as the operand. The gradient of this op is this op. Lowering writes in
place, because only a window is selected.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracer import ops
from tracer.ir import Cost, Op, ShapeDtype, Value
from tracer.ir.op import Types
from tracer.ops import helpers
from tracer.ops.batch_index import batch_guarded_update_slice
from tracer.ops.index import infer_update, update_axes

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]


def _highest(shape: Sizes, sizes: Sizes, starts: Sequence[Any]) -> list[int]:
    """Return the last start along each axis with which the window is inside."""
    last = [n - size for n, size in zip(shape, sizes, strict=True)]
    return [min(n, int(np.iinfo(start.dtype).max)) for n, start in zip(last, starts, strict=True)]


def _evaluate(x: Array, update: Array, *starts: Array) -> Any:
    result = x.copy()
    room = zip(starts, x.shape, update.shape, strict=True)
    if all(0 <= int(start) <= n - size for start, n, size in room):
        pairs = zip(starts, update.shape, strict=True)
        result[tuple(slice(int(start), int(start) + size) for start, size in pairs)] = update
    return result


def _lower(b: Any, types: Types, x: Any, update: Any, *starts: Any) -> Any:
    if not starts:
        return update
    inside = None
    scalar = ShapeDtype((), starts[0].dtype)
    highest = _highest(x.shape, update.shape, starts)
    for start, last in zip(starts, highest, strict=True):
        low, high = b.splat(0, scalar), b.splat(last, scalar)
        fits = b.and_(b.compare("GE", start, low), b.compare("LE", start, high))
        inside = fits if inside is None else b.and_(inside, fits)
    old = b.dynamic_slice(x, starts, update.shape)
    return b.dynamic_update_slice(x, b.select(inside, update, old), starts)


def _is_inside(x: Value, update: Value, starts: Sequence[Value]) -> Value:
    """Return the truth value, a scalar, that says whether the window is inside."""
    inside: Value = helpers.scalar(True, np.dtype(bool))
    for start, last in zip(starts, _highest(x.shape, update.shape, starts), strict=True):
        for bound, direction in ((0, "GE"), (last, "LE")):
            fits = ops.compare(start, helpers.full_like(start, bound), direction=direction)
            inside = ops.and_(inside, fits)
    return inside


def _vjp(g: Value, out: Value, x: Value, update: Value, *starts: Value) -> tuple[Value | None, ...]:
    """Drop as the op itself does: then all of the cotangent is the operand's."""
    outside = ops.guarded_update_slice(g, helpers.zeros_like(update), *starts)
    inside = helpers.spread(_is_inside(x, update, starts), update.shape)
    written = helpers.where(inside, ops.dynamic_slice(g, *starts, sizes=update.shape))
    return (outside, written, *(None for _ in starts))


guarded_update_slice: Op = Op(
    "guarded_update_slice",
    doc="The first operand with a window replaced by the second, at scalar starts; as it is where "
    "the window does not lie inside.",
    infer=infer_update,
    evaluate=_evaluate,
    lower=_lower,
    vjp=_vjp,
    axes=update_axes,
    cost=lambda operands, results: Cost(0, 3 * operands[1].nbytes),
    reuses=(0,),
    fusion="opaque",
    batch=batch_guarded_update_slice,
)
