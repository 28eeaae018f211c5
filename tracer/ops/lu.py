"""LU decomposition with row exchanges.

Sources: LAPACK's getrf; `jax.lax.linalg.lu` for the results and for the derivative of factors that
are not square.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer import ops
from tracer.errors import DTypeError, ShapeError
from tracer.ir import AxisRule, Builder, Cost, Graph, Label, Op, ShapeDtype, Value
from tracer.ir.op import Types
from tracer.ops.deferred import of_scipy
from tracer.ops.elementwise import INTEGER
from tracer.ops.helpers import (
    full_like,
    matrix_multiply,
    matrix_transpose,
    scalar,
    triangle,
)
from tracer.ops.matrix_rules import (
    INT32,
    evaluate_each,
    identity,
    lapack_call,
    matrix_axes,
    require_matrices,
    small_matrices_call,
)
from tracer.ops.rules import data_movement_cost, moved_bytes

Array = np.ndarray[Any, Any]
Cotangent = Value | None


def _infer_permutation(pivots: ShapeDtype, *, size: int) -> ShapeDtype:
    if pivots.dtype != INT32:
        raise DTypeError(
            f"pivots_to_permutation takes int32, not {pivots.dtype}", mend="convert first"
        )
    if not pivots.ndim or pivots.shape[-1] > size:
        raise ShapeError(
            f"pivots_to_permutation: {pivots} exchange more than {size} rows",
            mend="give the pivots of lu along the last axis, and the number of rows as size",
        )
    return pivots.resized(pivots.ndim - 1, size)


def _evaluate_permutation(pivots: Array, *, size: int) -> Array:
    permutation = np.empty((*pivots.shape[:-1], size), np.int32)
    permutation[...] = np.arange(size)
    for place in np.ndindex(*pivots.shape[:-1]):
        for row, other in enumerate(pivots[place]):
            permutation[place][[row, other]] = permutation[place][[other, row]]
    return permutation


def _lower_permutation(b: Any, types: Types, pivots: Any, *, size: int) -> Any:
    """Exchange the rows in order: by a library, or in a loop."""
    del size  # the types say it
    (type,) = types
    if pivots.type.size == 0:
        return b.iota(type, type.ndim - 1)
    found = b.permutation(type, pivots)
    if found is not None:
        return found
    permutation = b.iota(type, type.ndim - 1)
    condition, body = _exchanges(pivots.type, type)
    counter = ShapeDtype((), INT32)
    carry = (b.splat(0, counter), pivots, permutation)
    return b.while_((counter, pivots.type, type), carry, condition, body)[2]


def _permutation_axes(operands: Types, results: Types, **_: Any) -> AxisRule:
    batch: tuple[Label, ...] = tuple(range(operands[0].ndim - 1))
    labels: frozenset[Label] = frozenset(("pivot", "row"))
    return AxisRule(((*batch, "pivot"),), ((*batch, "row"),), whole=labels)


pivots_to_permutation: Op = Op(
    "pivots_to_permutation",
    doc="The permutation of `size` rows that exchanging row i with row pivots[i], in order, makes.",
    infer=_infer_permutation,
    evaluate=_evaluate_permutation,
    lower=_lower_permutation,
    vjp=INTEGER,
    axes=_permutation_axes,
    cost=data_movement_cost,
    fusion="opaque",
)


def _infer_lu(a: ShapeDtype) -> Types:
    require_matrices("lu", a)
    *batch, m, n = a.shape
    pivots = ShapeDtype((*batch, min(m, n)), INT32)
    return a, pivots, ShapeDtype((*batch, m), INT32)


def _factor(matrix: Array) -> tuple[Array, Array]:
    if matrix.size == 0:
        return matrix, np.zeros(0, np.int32)
    (getrf,) = of_scipy("linalg.get_lapack_funcs")(("getrf",), (matrix,))
    packed, pivots, _ = getrf(matrix)
    return packed, pivots


def _evaluate_lu(a: Array) -> tuple[Array, ...]:
    types = _infer_lu(ShapeDtype(a.shape, a.dtype))
    packed, pivots = evaluate_each(_factor, a, types[:2])
    return packed, pivots, _evaluate_permutation(pivots, size=a.shape[-2])


def _lower_lu(b: Any, types: Types, a: Any) -> tuple[Any, ...]:
    if types[0].size == 0:
        return a, b.splat(0, types[1]), b.iota(types[2], types[2].ndim - 1)
    packed, pivots = b.lu(types[:2], a)
    return packed, pivots, _lower_permutation(b, types[2:], pivots, size=types[2].shape[-1])


def _exchanges(pivots: ShapeDtype, permutation: ShapeDtype) -> tuple[Graph, Graph]:
    """Return the condition and the body of the loop that applies the row exchanges in order."""
    count, lead = pivots.shape[-1], pivots.ndim - 1
    column = (*pivots.shape[:-1], 1)
    with Builder() as builder:
        inputs = [builder.input(t) for t in (ShapeDtype((), INT32), pivots, permutation)]
        condition = builder.finish([ops.compare(inputs[0], scalar(count, INT32), direction="LT")])
    with Builder() as builder:
        step, other, rows = (builder.input(t) for t in (ShapeDtype((), INT32), pivots, permutation))
        zero = scalar(0, INT32)
        starts = (*(zero,) * lead, step)
        partner = ops.dynamic_slice(other, *starts, sizes=column)
        mine = ops.dynamic_slice(rows, *starts, sizes=column)
        places = ops.iota(shape=rows.shape, dtype=INT32, dimension=lead)
        is_partner = ops.compare(places, _stretched(partner, rows), direction="EQ")
        # The row of the pivot is the one element that the comparison picks.
        picked = ops.select(is_partner, rows, full_like(rows, 0))
        theirs = ops.reshape(ops.reduce_add(picked, axes=(lead,)), shape=column)
        swapped = ops.select(is_partner, _stretched(mine, rows), rows)
        swapped = ops.dynamic_update_slice(swapped, theirs, *starts)
        following = ops.add(step, scalar(1, INT32))
        body = builder.finish([following, other, swapped])
    return condition, body


def _stretched(column: Value, like: Value) -> Value:
    dimensions = tuple(range(len(like.shape)))
    return ops.broadcast_in_dim(column, shape=like.shape, dimensions=dimensions)  # type: ignore[no-any-return]


def _square_factors(packed: Value) -> tuple[Value, Value]:
    """Return L (m, m) and U (n, n): the factors, filled up with a part of the identity."""
    *_, m, n = packed.shape
    lower = _resized(triangle(packed, lower=True, strict=True), columns=m)
    upper = _resized(triangle(packed, lower=False), rows=n)
    if m < n:
        rows = ops.iota(shape=upper.shape, dtype=INT32, dimension=len(upper.shape) - 2)
        is_filled = ops.compare(rows, full_like(rows, m), direction="GE")
        upper = ops.select(is_filled, identity(upper.shape, upper.dtype), upper)
    return ops.add(lower, identity(lower.shape, lower.dtype)), upper


def _resized(x: Value, *, rows: int | None = None, columns: int | None = None) -> Value:
    """Cut off or add zeros after the rows or the columns."""
    lead = (0,) * (len(x.shape) - 2)
    wanted = (x.shape[-2] if rows is None else rows, x.shape[-1] if columns is None else columns)
    if wanted == x.shape[-2:]:
        return x
    high = (*lead, wanted[0] - x.shape[-2], wanted[1] - x.shape[-1])
    none = (0,) * len(x.shape)
    return ops.pad(x, scalar(0, x.dtype), low=none, high=high, interior=none)  # type: ignore[no-any-return]


def _lu_vjp(g: tuple[Cotangent, ...], out: tuple[Value, ...], a: Value) -> tuple[Cotangent]:
    """With X = strict tril(L^T G) + triu(G U^T): P^T L^-T X U^-T, by triangular solves."""
    seed, (packed, _, permutation) = g[0], out
    if seed is None or a.type.size == 0:
        return (seed,)
    lower, upper = _square_factors(packed)
    below = triangle(seed, lower=True, strict=True)
    above = triangle(seed, lower=False)
    inner = ops.add(
        triangle(matrix_multiply(matrix_transpose(lower), below), lower=True, strict=True),
        triangle(matrix_multiply(above, matrix_transpose(upper)), lower=False),
    )
    half = ops.triangular_solve(
        lower, inner, left_side=True, lower=True, unit_diagonal=True, transpose_a="TRANSPOSE"
    )
    whole = ops.triangular_solve(
        upper, half, left_side=False, lower=False, unit_diagonal=False, transpose_a="TRANSPOSE"
    )
    return (take_rows(whole, inverse_permutation(permutation)),)


def take_rows(x: Value, rows: Value) -> Value:
    """Return the rows of matrices in another order, for each place of the batch its own."""
    if x.type.size == 0:
        return x
    lead, n = len(x.shape) - 2, x.shape[-1]
    return ops.gather(  # type: ignore[no-any-return]
        x,
        rows,
        offset_dims=(lead + 1,),
        collapsed_slice_dims=(lead,),
        start_index_map=(lead,),
        index_vector_dim=lead + 1,
        slice_sizes=(*(1,) * lead, 1, n),
        operand_batching_dims=tuple(range(lead)),
        start_indices_batching_dims=tuple(range(lead)),
    )


def inverse_permutation(permutation: Value) -> Value:
    """Return the permutation that undoes another, along the last axis."""
    axis = len(permutation.shape) - 1
    places = ops.iota(shape=permutation.shape, dtype=INT32, dimension=axis)
    _, inverse = ops.sort(permutation, places, dimension=axis, num_keys=1, is_stable=False)
    return inverse  # type: ignore[no-any-return]


def _lu_cost(operands: Types, results: Types) -> Cost:
    a = operands[0]
    call = small_matrices_call(a, a.shape[-1], lapack_call(a, a.shape[-1]), held=8)
    flops, moved = a.size * min(a.shape[-2:]), moved_bytes(operands, results)
    return Cost(flops, moved, a.nbytes, calls=(call,))


lu: Op = Op(
    "lu",
    doc="P a = L U of the last two axes, with row exchanges, as LAPACK's getrf: L (unit diagonal, "
    "not stored) and U in one array; pivots, the row that row i was exchanged with; and the "
    "permutation p with a[p] = L U. A singular matrix has a zero on the diagonal of U; its "
    "gradient is not finite.",
    infer=_infer_lu,
    evaluate=_evaluate_lu,
    lower=_lower_lu,
    vjp=_lu_vjp,
    axes=matrix_axes,
    cost=_lu_cost,
    reuses=(0,),
    fusion="opaque",
    is_partitioned=False,
)

__all__ = ["inverse_permutation", "lu", "pivots_to_permutation", "take_rows"]
