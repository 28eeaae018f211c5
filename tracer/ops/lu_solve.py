"""Solutions of linear systems that reuse an LU decomposition, in the gradient too.

Source: Giles, "Collected matrix derivative results for forward and reverse mode algorithmic
differentiation", 2008, section 2.3.1; `jax.lax.custom_linear_solve` for keeping the factors outside
differentiation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer import ops
from tracer.errors import DTypeError, ShapeError
from tracer.ir import AxisRule, Batching, Cost, Label, Op, ShapeDtype, Value
from tracer.ir.op import Types
from tracer.ops.batch import all_with_axis, fold_batch, unfold_batch
from tracer.ops.bodies import lower_expansion
from tracer.ops.helpers import matrix_multiply, matrix_transpose
from tracer.ops.lu import inverse_permutation, take_rows
from tracer.ops.matrix_rules import INT32, require_square
from tracer.ops.rules import moved_bytes, own_label, require_same_dtypes

Array = np.ndarray[Any, Any]
Cotangent = Value | None


def _infer_lu_solve(
    a: ShapeDtype, packed: ShapeDtype, permutation: ShapeDtype, b: ShapeDtype, *, transpose: bool
) -> ShapeDtype:
    del transpose
    require_square("lu_solve", a)
    require_same_dtypes("lu_solve", (a, packed, b))
    if permutation.dtype != INT32:
        raise DTypeError(
            f"lu_solve takes an int32 permutation, not {permutation.dtype}",
            mend="give the third result of lu",
        )
    if packed != a or permutation.shape != a.shape[:-1] or b.shape[:-1] != a.shape[:-1]:
        shown = ", ".join(map(str, (a, packed, permutation, b)))
        raise ShapeError(
            f"lu_solve: {shown} do not fit",
            mend="equal batch axes; factors and permutation of lu(a), and as many rows in b",
        )
    return b


def _triangular(packed: Value, x: Value, *, lower: bool, transpose: bool) -> Value:
    return ops.triangular_solve(  # type: ignore[no-any-return]
        packed,
        x,
        left_side=True,
        lower=lower,
        unit_diagonal=lower,
        transpose_a="TRANSPOSE" if transpose else "NO_TRANSPOSE",
    )


def _expand_lu_solve(
    a: Value, packed: Value, permutation: Value, b: Value, *, transpose: bool
) -> tuple[Value]:
    del a
    if transpose:
        half = _triangular(packed, b, lower=False, transpose=True)
        whole = _triangular(packed, half, lower=True, transpose=True)
        return (take_rows(whole, inverse_permutation(permutation)),)
    half = _triangular(packed, take_rows(b, permutation), lower=True, transpose=False)
    return (_triangular(packed, half, lower=False, transpose=False),)


def _lower_lu_solve(b: Any, types: Types, *operands: Any, transpose: bool) -> Any:
    inside = [x.type for x in operands]
    return lower_expansion(_expand_lu_solve, inside, b, operands, transpose=transpose)[0]


def _evaluate_lu_solve(
    a: Array, packed: Array, permutation: Array, b: Array, *, transpose: bool
) -> Array:
    def solved(matrix: Array, right: Array, *, lower: bool) -> Array:
        return ops.triangular_solve.evaluate(  # type: ignore[no-any-return]
            matrix,
            right,
            left_side=True,
            lower=lower,
            unit_diagonal=lower,
            transpose_a="TRANSPOSE" if transpose else "NO_TRANSPOSE",
        )

    rows = permutation[..., None]
    if transpose:
        x = solved(packed, solved(packed, b, lower=False), lower=True)
        return np.take_along_axis(x, np.argsort(rows, -2), -2)
    x = solved(packed, np.take_along_axis(b, rows, -2), lower=True)
    return solved(packed, x, lower=False)


def _lu_solve_vjp(
    g: Value,
    out: Value,
    a: Value,
    packed: Value,
    permutation: Value,
    b: Value,
    *,
    transpose: bool,
) -> tuple[Cotangent, ...]:
    """Solve with the other transpose and the same factors for b; minus the product for a.

    All of the derivative with respect to the matrix goes to `a`: the factors, a function of the
    same matrix, have none.
    """
    for_b = lu_solve(a, packed, permutation, g, transpose=not transpose)
    left, right = (out, for_b) if transpose else (for_b, out)
    for_a = ops.negate(matrix_multiply(left, matrix_transpose(right)))
    return for_a, None, None, for_b


def _lu_solve_axes(operands: Types, results: Types, **_: Any) -> AxisRule:
    """Batch axes are parallel, and so are the right-hand sides."""
    batch: tuple[Label, ...] = tuple(range(operands[0].ndim - 2))
    free = len(batch)
    groups = iter(range(8))

    def whole_row(count: int) -> tuple[Label, ...]:
        group = next(groups)
        return tuple(own_label(group, axis) for axis in range(count))

    rows = [whole_row(2), whole_row(2), whole_row(1), whole_row(1), whole_row(1)]
    whole: frozenset[Label] = frozenset(label for row in rows for label in row)
    inside = [(*batch, *row) for row in rows]
    return AxisRule((*inside[:3], (*inside[3], free)), ((*inside[4], free),), whole=whole)


def _lu_solve_cost(operands: Types, results: Types, **_: Any) -> Cost:
    packed, b = operands[1], operands[3]
    flops = 2 * packed.shape[-1] * b.size
    return Cost(flops, moved_bytes(operands[1:], results), 2 * b.nbytes)


def _batch_lu_solve(operands: tuple[Value, ...], batching: Batching, *, transpose: bool) -> Value:
    """Elements that share the matrix become more right-hand sides of it."""
    if any(batching.batched[:3]):
        return lu_solve(*all_with_axis(operands, batching), transpose=transpose)  # type: ignore[no-any-return]
    *matrix, b = operands
    axis = len(b.shape) - 2
    solution = lu_solve(*matrix, fold_batch(b, axis), transpose=transpose)
    return unfold_batch(solution, axis, batching.size)


lu_solve: Op = Op(
    "lu_solve",
    doc="Solve a x = b (a^T x = b if `transpose`) with the factors and the permutation of lu(a). "
    "Operands a, factors, permutation, b; `a` is read by no computation, it represents what the "
    "gradient belongs to. The gradient solves with the same factors.",
    infer=_infer_lu_solve,
    evaluate=_evaluate_lu_solve,
    lower=_lower_lu_solve,
    vjp=_lu_solve_vjp,
    axes=_lu_solve_axes,
    cost=_lu_solve_cost,
    fusion="opaque",
    expand=_expand_lu_solve,
    batch=_batch_lu_solve,
)

__all__ = ["lu_solve"]
