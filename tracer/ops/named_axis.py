"""What the elements of a batch know of each other: collectives over a named axis of `vmap`.

`vmap` gives its function the number of the element as a hidden argument, and both ops read it:
where it has the batch's axis, the batch is theirs. So they are in it whether or not anything else
is, and other batches leave them alone. Source of the meaning: `jax.lax.psum` and `all_gather`.

Outside of their batch all elements are alike: a sum is `size` times the operand. No program gets
there but through these records' own tests.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer import ops
from tracer.errors import ShapeError
from tracer.ir import Batching, Cost, Graph, NotDifferentiable, Op, ShapeDtype, Value
from tracer.ir.op import Types
from tracer.ops import helpers
from tracer.ops.batch import move_axis, with_axis
from tracer.ops.rules import moved_bytes, whole_axes

Array = np.ndarray[Any, Any]


def _require_number(name: str, index: ShapeDtype) -> None:
    if index.shape or index.dtype.kind != "i":
        raise ShapeError(
            f"{name} got {index} as the number of the element",
            mend="give the scalar that vmap hands to its function",
        )


def _infer_sum(x: ShapeDtype, index: ShapeDtype, *, size: int) -> ShapeDtype:
    del size
    _require_number("axis_sum", index)
    return x


def _times(x: Value, size: int) -> Value:
    return ops.multiply(x, helpers.full_like(x, size))  # type: ignore[no-any-return]


def _batch_sum(operands: tuple[Value, ...], batching: Batching, *, size: int) -> Value:
    (x, index), (has_axis, is_own) = operands, batching.batched
    if not is_own:
        return axis_sum(x, index, size=size)  # type: ignore[no-any-return]
    return ops.reduce_add(x, axes=(0,)) if has_axis else _times(x, size)


def _cost(operands: Types, results: Types, *, size: int) -> Cost:
    del size
    return Cost(results[0].size, moved_bytes(operands, results))


axis_sum: Op = Op(
    "axis_sum",
    doc="The sum of what all elements along a named axis of vmap have, `size` of them; `index` is "
    "the element's number. Source: jax.lax.psum.",
    infer=_infer_sum,
    evaluate=lambda x, index, *, size: x * np.asarray(size, x.dtype),
    lower=lambda b, types, x, index, *, size: b.multiply(x, b.splat(size, types[0])),
    vjp=lambda g, out, x, index, *, size: (axis_sum(g, index, size=size), None),
    axes=whole_axes,
    cost=_cost,
    expand=lambda x, index, *, size: (_times(x, size),),
    batch=_batch_sum,
)


def _infer_gather(x: ShapeDtype, index: ShapeDtype, *, size: int) -> ShapeDtype:
    _require_number("axis_gather", index)
    return x.with_shape((size, *x.shape))


def _repeated(x: Value, size: int) -> Value:
    dimensions = tuple(range(1, len(x.shape) + 1))
    return ops.broadcast_in_dim(x, shape=(size, *x.shape), dimensions=dimensions)  # type: ignore[no-any-return]


def _batch_gather(operands: tuple[Value, ...], batching: Batching, *, size: int) -> Value:
    (x, index), (has_axis, is_own) = operands, batching.batched
    if is_own:
        return with_axis(x, has_axis, size)
    return move_axis(axis_gather(x, index, size=size), 1, 0)


axis_gather: Op = Op(
    "axis_gather",
    doc="What all elements along a named axis of vmap have, stacked in front. Source: "
    "jax.lax.all_gather.",
    infer=_infer_gather,
    evaluate=lambda x, index, *, size: np.broadcast_to(x, (size, *x.shape)).copy(),
    lower=lambda b, types, x, index, *, size: b.broadcast_in_dim(
        types[0], x, range(1, types[0].ndim)
    ),
    vjp=NotDifferentiable("lax.all_gather has a derivative of its own"),
    axes=whole_axes,
    cost=_cost,
    expand=lambda x, index, *, size: (_repeated(x, size),),
    batch=_batch_gather,
)

COLLECTIVES = axis_gather, axis_sum
"""The ops whose elements read each other."""


def reads_named_axis(graph: Graph) -> bool:
    """Tell whether a graph has a collective, in bodies too."""
    return any(
        node.op in COLLECTIVES or any(map(reads_named_axis, node.body_graphs))
        for node in graph.nodes
    )


__all__ = ["COLLECTIVES", "axis_gather", "axis_sum", "reads_named_axis"]
