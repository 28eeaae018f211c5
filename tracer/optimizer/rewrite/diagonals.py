"""The diagonals of a computed matrix are picked out of its rows.

`diagonal` reads every n-th element of the matrix laid out flat, which takes no index. It needs the
matrix as a whole: `diag(k)` of a kernel matrix stored it. Picked row by row, `k[i, i]`, the matrix
can be computed in slices of rows, with all else that reads it.

Matrices that a program is given, or that a library computes, are stored anyway: they stay flat.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value, rebuild
from tracer.ops.helpers import full
from tracer.optimizer.passes import Pass, PassLog
from tracer.target import current_target

_INT32 = np.dtype(np.int32)


def _picked(graph: Graph, log: PassLog) -> Graph:
    def rewrite(
        builder: Builder, node: Node, operands: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        matrix = _matrix_of(node)
        if matrix is None:
            return None
        log.applied.append(f"diagonal of {matrix.type}")
        return [_of_rows(operands[0].node.operands[0], node)]

    return rebuild(graph, rewrite)


GATHER_FOR_DIAGONAL = Pass("gather for diagonal", _picked)


def _matrix_of(node: Node) -> Value | None:
    """Return the computed matrix whose diagonal a node reads; None for other nodes."""
    flat = node.operands[0].node if node.operands else node
    if node.op is not ops.slice or flat.op is not ops.reshape:
        return None
    matrix = flat.operands[0]
    if matrix.type.ndim != flat.types[0].ndim + 1 or matrix.shape[:-2] != flat.types[0].shape[:-1]:
        return None
    *lead, stride = node.params["strides"]
    is_whole = node.types[0].shape[:-1] == matrix.shape[:-2] and all(step == 1 for step in lead)
    if not is_whole or stride != matrix.shape[-1] + 1 or not _is_diagonal(node, matrix):
        return None
    producer = matrix.node.op
    is_computed = producer is not None and (
        producer.fusion in ("loop", "reduce") or producer is ops.dot_general
    )
    is_large = matrix.type.size >= current_target().sizes.match_elements
    return matrix if is_computed and is_large and max(matrix.shape) < 2**31 else None


def _is_diagonal(node: Node, matrix: Value) -> bool:
    """Tell whether the elements are one in a row, and the next row's is one to the right."""
    rows, columns = matrix.shape[-2:]
    count = node.types[0].shape[-1]
    if not count:
        return False
    row, column = divmod(int(node.params["start"][-1]), columns)
    return count <= min(rows - row, columns - column)


def _of_rows(matrix: Value, node: Node) -> Value:
    """Pick one element of each row of the matrix, and of these the ones that are wanted."""
    *lead, rows, columns = matrix.shape
    row, column = divmod(node.params["start"][-1], columns)
    shape = (*lead, rows, 1)
    places = ops.iota(shape=shape, dtype=_INT32, dimension=len(lead))
    if column != row:
        # Places outside of the matrix are of rows that are not wanted: a gather clamps them.
        places = ops.add(places, full(column - row, places.type))
    axes = tuple(range(len(lead) + 1))
    picked: Value = ops.gather(
        matrix,
        places,
        offset_dims=(),
        collapsed_slice_dims=(len(axes),),
        start_index_map=(len(axes),),
        index_vector_dim=len(axes),
        slice_sizes=(1,) * len(shape),
        operand_batching_dims=axes,
        start_indices_batching_dims=axes,
    )
    count = node.types[0].shape[-1]
    if count == rows:
        return picked
    start, limit = (*(0,) * len(lead), row), (*lead, row + count)
    wanted: Value = ops.slice(picked, start=start, limit=limit, strides=(1,) * len(axes))
    return wanted


__all__ = ["GATHER_FOR_DIAGONAL"]
