"""A scatter of one element for each row into zeros is a choice by the index.

The gradient of `take_along_axis(x, labels[:, None], 1)`, as in the cross-entropy of labels, puts
one number into each row of zeros. As a scatter it is stored whole, and ends what XLA can fuse and
split can cut. `where(iota == index, number, 0)` is computed where it is read.

An index out of bounds is dropped by both: nothing is equal to it. Values are the same but for the
sign of zeros: a scatter adds -0 to 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracer import ops
from tracer.ir import Builder, Graph, Node, ShapeDtype, Value, rebuild
from tracer.ops import helpers
from tracer.optimizer.passes import Pass, PassLog


def _chosen(graph: Graph, log: PassLog) -> Graph:
    def rewrite(
        builder: Builder, node: Node, operands: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        axis = _only_axis(node)
        if axis is None or not _is_positive_zeros(node.operands[0]):
            return None
        log.applied.append(f"scatter into {node.types[0]}")
        return [_select(node.types[0], axis, *operands[1:])]

    return rebuild(graph, rewrite)


SELECT_FOR_SCATTER = Pass("select for scatter", _chosen)


def _only_axis(node: Node) -> int | None:
    """Return the axis that one element of each row is put along; None for other scatters."""
    if node.op is not ops.scatter or node.params["combiner"] not in ("add", "replace"):
        return None
    params: dict[str, Any] = dict(node.params)
    axes = params["scatter_dims_to_operand_dims"]
    batch = params.get("input_batching_dims", ())
    rows = params.get("scatter_indices_batching_dims", ())
    if len(axes) != 1 or params["update_window_dims"] or params["inserted_window_dims"] != axes:
        return None
    in_order = [*batch] == sorted(batch) and [*rows] == sorted(rows)
    is_each_row = bool(batch) and len(batch) + 1 == node.types[0].ndim
    whole, updates = node.types[0], node.operand_types[2]
    is_one = updates.size * whole.shape[axes[0]] == whole.size and 0 not in whole.shape
    return axes[0] if in_order and is_each_row and is_one else None


def _is_positive_zeros(value: Value) -> bool:
    number = helpers.number_of(value)
    return number is not None and not number.any() and not np.signbit(number.real).any()


def _select(type: ShapeDtype, axis: int, indices: Value, updates: Value) -> Value:
    shape = tuple(1 if i == axis else size for i, size in enumerate(type.shape))
    wide = type.with_dtype("int64" if indices.dtype.itemsize > 2 else "int32")
    index = _spread(ops.reshape(helpers.convert(indices, wide.dtype), shape=shape), type)
    place = ops.iota(shape=type.shape, dtype=wide.dtype, dimension=axis)
    number = _spread(ops.reshape(updates, shape=shape), type)
    chosen: Value = ops.select(
        ops.compare(place, index, direction="EQ"), number, helpers.full(0, type)
    )
    return chosen


def _spread(x: Value, type: ShapeDtype) -> Value:
    dimensions = tuple(range(type.ndim))
    return ops.broadcast_in_dim(x, shape=type.shape, dimensions=dimensions)  # type: ignore[no-any-return]


__all__ = ["SELECT_FOR_SCATTER"]
