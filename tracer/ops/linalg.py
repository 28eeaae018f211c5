"""Cholesky decomposition and triangular systems, over batches. Source: StableHLO specification.

Gradients use triangular solves and no inverse: Murray, "Differentiation of the Cholesky
decomposition", arXiv:1602.07527; Giles, "Collected matrix derivative results for forward and
reverse mode algorithmic differentiation", 2008. Both are carried over to complex matrices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer import ops
from tracer.errors import ArgumentError, ShapeError
from tracer.ir import AxisRule, Batching, Cost, Label, Op, ShapeDtype, Value
from tracer.ir.library_calls import PanelCall, TriangleCall
from tracer.ir.op import Types
from tracer.ops.batch import all_with_axis, move_axis
from tracer.ops.helpers import (
    conjugate,
    matrix_multiply,
    matrix_transpose,
    scale,
    triangle,
)
from tracer.ops.matrix_rules import (
    lapack_call,
    matrix_axes,
    require_square,
    small_matrices_call,
    widened_bytes,
)
from tracer.ops.mirror import symmetric_part
from tracer.ops.rules import moved_bytes, own_label, require_same_dtypes, widened

Array = np.ndarray[Any, Any]
_TRANSPOSES = ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")


def _infer_cholesky(a: ShapeDtype) -> ShapeDtype:
    require_square("cholesky", a)
    return a


def _evaluate_cholesky(a: Array) -> Any:
    wide = widened(a)
    result = np.empty_like(wide)
    for place in np.ndindex(*a.shape[:-2]):
        try:
            result[place] = np.linalg.cholesky(wide[place])
        except np.linalg.LinAlgError:
            result[place] = np.nan
    return np.tril(result).astype(a.dtype, copy=False)


def _halved_diagonal(x: Value) -> Value:
    """Return the lower triangle with its diagonal halved."""
    both = ops.add(triangle(x, lower=True), triangle(x, lower=True, strict=True))
    return scale(both, 0.5)


def _cholesky_vjp(g: Value, out: Value, a: Value) -> tuple[Value]:
    """With P = tril(L^T G), halved diagonal: the Hermitian part of S = L^-T P conj(L)^-1."""
    seed = triangle(g, lower=True)
    inner = _halved_diagonal(matrix_multiply(matrix_transpose(out), seed))
    solve = {"lower": True, "unit_diagonal": False}
    left = ops.triangular_solve(out, inner, left_side=True, transpose_a="TRANSPOSE", **solve)
    spread = ops.triangular_solve(
        conjugate(out), left, left_side=False, transpose_a="NO_TRANSPOSE", **solve
    )
    return (symmetric_part(spread, conjugated=True),)


def _cholesky_cost(operands: Types, results: Types) -> Cost:
    n = operands[0].shape[-1]
    flops = operands[0].size * n // 3
    scratch = widened_bytes(operands[0])
    moved = moved_bytes(operands, results)
    calls = (small_matrices_call(operands[0], n, lapack_call(operands[0], n), held=5),)
    return Cost(flops, moved, scratch, product_flops=flops, calls=calls)


cholesky: Op = Op(
    "cholesky",
    doc="Lower factor L with L L^H = a, of the last two axes. Reads the lower triangle; the upper "
    "one of the result is zero. NaN where a is not positive definite. The gradient is Hermitian.",
    infer=_infer_cholesky,
    evaluate=_evaluate_cholesky,
    lower=lambda b, types, a: b.cholesky(types[0], a),
    vjp=_cholesky_vjp,
    axes=matrix_axes,
    cost=_cholesky_cost,
    reuses=(0,),
    fusion="opaque",
    is_partitioned=False,
)


def _infer_solve(
    a: ShapeDtype,
    x: ShapeDtype,
    *,
    left_side: bool,
    lower: bool,
    unit_diagonal: bool,
    transpose_a: str,
) -> ShapeDtype:
    require_square("triangular_solve", a)
    require_same_dtypes("triangular_solve", (a, x))
    if transpose_a not in _TRANSPOSES:
        raise ArgumentError(
            f"triangular_solve knows no transpose_a {transpose_a!r}",
            mend=f"use one of {list(_TRANSPOSES)}",
        )
    axis = -2 if left_side else -1
    if x.ndim != a.ndim or x.shape[:-2] != a.shape[:-2] or x.shape[axis] != a.shape[-1]:
        raise ShapeError(
            f"triangular_solve: {a} and {x} do not fit (left_side={left_side})",
            mend="equal batch axes, and as many rows (left) or columns (right) as the matrix has",
        )
    return x


def _evaluate_solve(
    a: Array, x: Array, *, left_side: bool, lower: bool, unit_diagonal: bool, transpose_a: str
) -> Any:
    """Substitute forwards or backwards, row by row."""
    matrix = np.tril(widened(a)) if lower else np.triu(widened(a))
    right = widened(x)
    if transpose_a != "NO_TRANSPOSE":
        matrix, lower = np.swapaxes(matrix, -1, -2), not lower
    if transpose_a == "ADJOINT":
        matrix = matrix.conj()
    if not left_side:
        matrix, lower = np.swapaxes(matrix, -1, -2), not lower
        right = np.swapaxes(right, -1, -2)
    n = a.shape[-1]
    solution = np.zeros(right.shape, right.dtype)
    with np.errstate(all="ignore"):
        for i in range(n) if lower else reversed(range(n)):
            rest = right[..., i, :] - (matrix[..., i, None, :] @ solution)[..., 0, :]
            pivot = matrix[..., i, i, None]
            solution[..., i, :] = rest if unit_diagonal else rest / pivot
    solution = solution if left_side else np.swapaxes(solution, -1, -2)
    return solution.astype(x.dtype, copy=False)


def _solve_vjp(
    g: Value,
    out: Value,
    a: Value,
    x: Value,
    *,
    left_side: bool,
    lower: bool,
    unit_diagonal: bool,
    transpose_a: str,
) -> tuple[Value, Value]:
    """Solve with the transposed matrix for x; minus the outer product with the result for a."""
    flipped = transpose_a != "NO_TRANSPOSE"
    matrix = conjugate(a) if transpose_a == "ADJOINT" else a
    for_x = ops.triangular_solve(
        matrix,
        g,
        left_side=left_side,
        lower=lower,
        unit_diagonal=unit_diagonal,
        transpose_a="NO_TRANSPOSE" if flipped else "TRANSPOSE",
    )
    first, second = (for_x, out) if left_side else (out, for_x)
    if flipped:
        first, second = second, first
    if left_side:
        product = matrix_multiply(first, matrix_transpose(second))
    else:
        product = matrix_multiply(matrix_transpose(first), second)
    if transpose_a == "ADJOINT":
        product = conjugate(product)
    return triangle(ops.negate(product), lower=lower, strict=unit_diagonal), for_x


def _solve_axes(operands: Types, results: Types, *, left_side: bool, **_: Any) -> AxisRule:
    """Batch axes are parallel, and so are the right-hand sides."""
    batch: tuple[Label, ...] = tuple(range(operands[0].ndim - 2))
    matrix = (*batch, own_label(0, 0), own_label(0, 1))
    inside, outside, free = own_label(1, 0), own_label(2, 0), len(batch)
    rows = [(inside, free), (outside, free)] if left_side else [(free, inside), (free, outside)]
    whole: frozenset[Label] = frozenset((*matrix[-2:], inside, outside))
    return AxisRule((matrix, (*batch, *rows[0])), ((*batch, *rows[1]),), whole=whole)


def _from_the_left(a: ShapeDtype, x: ShapeDtype) -> TriangleCall:
    width = max(1, x.size * a.shape[-1] // max(1, a.size))
    is_one = a.ndim == 2 and x.shape[-1] == 1 and a.dtype.kind == "f"
    return TriangleCall(a.shape[-1], width, a.dtype.itemsize, may_go_by_blocks=is_one)


def _solve_cost(operands: Types, results: Types, *, left_side: bool, **_: Any) -> Cost:
    """LAPACK solves in place; only narrow floats are copied, to wider ones."""
    a, x = operands
    flops = a.shape[-1] * x.size
    library: TriangleCall | PanelCall = _from_the_left(a, x)
    if not left_side:
        # From the left right-hand sides lie by rows, which is from the right for LAPACK.
        library = lapack_call(a, max(1, x.size * a.shape[-1] // max(1, a.size)))
    width = x.shape[-1 if left_side else -2]
    call = small_matrices_call(a, width, library, held=4)
    scratch = widened_bytes(a) + widened_bytes(x)
    moved = moved_bytes(operands, results)
    return Cost(flops, moved, scratch, product_flops=flops, calls=(call,))


def _batch_solve(
    operands: tuple[Value, ...], batching: Batching, *, left_side: bool, **params: Any
) -> Value:
    """Elements that share the matrix become more right-hand sides of it."""
    a, x = operands
    if batching.batched[0]:
        both = all_with_axis(operands, batching)
        return ops.triangular_solve(*both, left_side=left_side, **params)  # type: ignore[no-any-return]
    place = len(a.shape) - 1 if left_side else len(a.shape) - 2
    moved = move_axis(x, 0, place)
    before, (many, columns), after = (
        moved.shape[:place],
        moved.shape[place : place + 2],
        moved.shape[place + 2 :],
    )
    joined = ops.reshape(moved, shape=(*before, many * columns, *after))
    solution = ops.triangular_solve(a, joined, left_side=left_side, **params)
    return move_axis(ops.reshape(solution, shape=moved.shape), place, 0)


triangular_solve: Op = Op(
    "triangular_solve",
    doc="Solve op(a) y = x, or y op(a) = x unless left_side; a is triangular and op transposes or "
    "not. Only the named triangle of a is read.",
    infer=_infer_solve,
    evaluate=_evaluate_solve,
    lower=lambda b, types, a, x, **params: b.triangular_solve(types[0], a, x, **params),
    vjp=_solve_vjp,
    axes=_solve_axes,
    cost=_solve_cost,
    reuses=(1,),
    fusion="opaque",
    batch=_batch_solve,
    is_partitioned=False,
)
