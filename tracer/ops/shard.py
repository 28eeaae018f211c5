"""Run a body on every device of a mesh, each on its own part. Written by the planner, not by users.

An axis of None means that an operand is passed whole, or that a result is the same on every device.
Source: Shardy's `manual_computation` (https://openxla.org/shardy), the op behind JAX's `shard_map`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracer.errors import ShapeError
from tracer.ir import Batching, Cost, Graph, NotDifferentiable, Op, ShapeDtype, Value
from tracer.ir.op import Types
from tracer.ops.bodies import evaluate_body, graph_cost
from tracer.ops.rules import whole_axes

Array = np.ndarray[Any, Any]
Axes = tuple[int | None, ...]


def _part(type: ShapeDtype, axis: int | None, count: int) -> ShapeDtype:
    """Return the type of each device's part."""
    if axis is None:
        return type
    if type.shape[axis] % count:
        raise ShapeError(
            f"shard: axis {axis} of {type} cannot be cut into {count} equal parts",
            mend="cut an axis whose size is a multiple of the number of devices",
        )
    return type.resized(axis, type.shape[axis] // count)


def _infer(
    *types: ShapeDtype, body: Graph, count: int, operand_axes: Axes, result_axes: Axes
) -> Types:
    parts = tuple(_part(type, axis, count) for type, axis in zip(types, operand_axes, strict=True))
    if parts != body.input_types:
        raise ShapeError(
            f"shard: the body takes {body.input_types}, the parts of the operands are {parts}",
            mend="build the body for the parts",
        )
    return tuple(
        type if axis is None else type.resized(axis, type.shape[axis] * count)
        for type, axis in zip(body.output_types, result_axes, strict=True)
    )


def _evaluate(
    *arrays: Array, body: Graph, count: int, operand_axes: Axes, result_axes: Axes
) -> tuple[Array, ...]:
    parts = [
        [array] * count if axis is None else np.split(array, count, axis)
        for array, axis in zip(arrays, operand_axes, strict=True)
    ]
    found = [evaluate_body(body, part) for part in zip(*parts, strict=True)]
    return tuple(
        results[0] if axis is None else np.concatenate(results, axis)
        for results, axis in zip(zip(*found, strict=True), result_axes, strict=True)
    )


def _cost(operands: Types, results: Types, *, body: Graph, **_: Any) -> Cost:
    """Return the cost of what one device does."""
    return graph_cost(body)


def _lower(
    b: Any,
    types: Types,
    *operands: Any,
    body: Graph,
    count: int,
    operand_axes: Axes,
    result_axes: Axes,
) -> tuple[Any, ...]:
    results: tuple[Any, ...] = b.shard(types, operands, body, count, operand_axes, result_axes)
    return results


def _batch(
    operands: Sequence[Value],
    batching: Batching,
    *,
    body: Graph,
    count: int,
    operand_axes: Axes,
    result_axes: Axes,
) -> Any:
    wanted = [True] * len(body.outputs)
    batched, _ = batching.batch_graph(body, batching.batched, batching.size, wanted)
    shifted = tuple(
        axis + 1 if flag and axis is not None else axis
        for axis, flag in zip(operand_axes, batching.batched, strict=True)
    )
    return batching.op(
        *operands,
        body=batched,
        count=count,
        operand_axes=shifted,
        result_axes=tuple(None if axis is None else axis + 1 for axis in result_axes),
    )


shard: Op = Op(
    "shard",
    doc="Apply `body` to each of `count` parts of the operands, and join its results. Where an "
    "axis is None the operand is given whole, and the result is the same for all parts.",
    infer=_infer,
    evaluate=_evaluate,
    lower=_lower,
    vjp=NotDifferentiable(
        "the planner writes it into programs that are differentiated already",
        mend="differentiate the function before it is compiled",
    ),
    axes=whole_axes,
    cost=_cost,
    fusion="opaque",
    batch=_batch,
)
