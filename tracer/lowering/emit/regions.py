"""Ops that apply a small function: sort, scatter; and gather, top_k."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracer.ir import ShapeDtype
from tracer.lowering.emit.context import ModuleContext
from tracer.lowering.emit.dialect import (
    compare,
    select,
    splat,
)
from tracer.lowering.emit.values import Operand
from tracer.lowering.shims import chlo, hlo, ir

Combiner = Callable[..., Any]
"""`(builder, *scalars) -> Operand or tuple`, emitted inside the op's region."""


def fill(b: ModuleContext, region: Any, scalars: Sequence[ShapeDtype], combiner: Combiner) -> None:
    """Emit the combiner in a region that is given `scalars`."""
    types = [b.tensor_type(type.with_shape(())) for type in scalars]
    block = region.blocks.append(*types)
    with ir.InsertionPoint(block):
        results = combiner(b, *[Operand(raw) for raw in block.arguments])
        results = (results,) if isinstance(results, Operand) else results
        hlo.return_([result.raw for result in results])


def sort(
    b: ModuleContext,
    operands: Sequence[Operand],
    dimension: int,
    comparator: Combiner,
    is_stable: bool,
) -> tuple[Operand, ...]:
    """Emit `sort`; `comparator(b, lhs0, rhs0, lhs1, rhs1, ...)` tells whether lhs is before."""
    types = [x.type for x in operands]
    op = hlo.SortOp(
        [b.tensor_type(type) for type in types],
        [x.raw for x in operands],
        dimension=dimension,
        is_stable=bool(is_stable),
    )
    pairs = [type for type in types for _ in range(2)]
    fill(b, op.comparator, pairs, comparator)
    return tuple(Operand(raw) for raw in op.results)


def gather(
    b: ModuleContext,
    type: ShapeDtype,
    x: Operand,
    indices: Operand,
    *,
    offset_dims: Sequence[int],
    collapsed_slice_dims: Sequence[int],
    start_index_map: Sequence[int],
    index_vector_dim: int,
    slice_sizes: Sequence[int],
    operand_batching_dims: Sequence[int] = (),
    start_indices_batching_dims: Sequence[int] = (),
) -> Operand:
    """Emit `gather`; indices are clamped so that every slice is inside."""
    if type.size == 0:  # XLA has no windows of an empty axis.
        return splat(b, 0, type)
    numbers = hlo.GatherDimensionNumbers.get(
        list(offset_dims),
        list(collapsed_slice_dims),
        list(operand_batching_dims),
        list(start_indices_batching_dims),
        list(start_index_map),
        index_vector_dim,
    )
    op = hlo.GatherOp(x.raw, indices.raw, numbers, list(slice_sizes), indices_are_sorted=False)
    return Operand(op.result)


def scatter(
    b: ModuleContext,
    type: ShapeDtype,
    x: Operand,
    indices: Operand,
    updates: Operand,
    combiner: Combiner,
    *,
    update_window_dims: Sequence[int],
    inserted_window_dims: Sequence[int],
    scatter_dims_to_operand_dims: Sequence[int],
    index_vector_dim: int,
    unique_indices: bool,
    input_batching_dims: Sequence[int] = (),
    scatter_indices_batching_dims: Sequence[int] = (),
) -> Operand:
    """Emit `scatter`; updates out of bounds are dropped; `combiner(b, old, update)`."""
    numbers = hlo.ScatterDimensionNumbers.get(
        list(update_window_dims),
        list(inserted_window_dims),
        list(input_batching_dims),
        list(scatter_indices_batching_dims),
        list(scatter_dims_to_operand_dims),
        index_vector_dim,
    )
    op = hlo.ScatterOp(
        [b.tensor_type(type)],
        [x.raw],
        indices.raw,
        [updates.raw],
        numbers,
        indices_are_sorted=False,
        unique_indices=bool(unique_indices),
    )
    fill(b, op.update_computation, [type, type], combiner)
    return Operand(op.results[0])


def _canonical(b: ModuleContext, x: Operand) -> Operand:
    """Return `x` with one kind of NaN and one kind of zero."""
    type = x.type
    if type.dtype.kind in "biu":
        return x
    zero, nan = splat(b, 0, type), splat(b, np.nan, type)
    x = select(b, compare(b, "EQ", x, zero), zero, x)
    return select(b, compare(b, "NE", x, x), nan, x)


def top_k(
    b: ModuleContext, types: Sequence[ShapeDtype], x: Operand, k: int
) -> tuple[Operand, Operand]:
    """Emit CHLO's `top_k` over the last axis: values in descending order, int32 indices.

    NaN counts as the largest and ties go to the lowest index, as for NumPy's order. CHLO's
    order is total, with -NaN (what x86 makes of 0/0) the smallest and -0 below +0, so floats
    are canonicalised first; XLA fuses that into what computes `x`, or else copies `x` once.
    """
    values, indices = chlo.top_k(_canonical(b, x).raw, k)
    return Operand(values), Operand(indices)
