"""Determinants, with gradients at singular matrices too.

Source: the adjugate of a triangular matrix by its last pivot, as in `_cofactor_solve` of JAX's
`jax.numpy.linalg`, but without dividing by that pivot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tracer import ops
from tracer.ir import Cost, NotDifferentiable, Op, ShapeDtype, Value
from tracer.ir.op import Types
from tracer.ops.bodies import lower_expansion
from tracer.ops.helpers import (
    convert,
    full,
    full_like,
    matrix_transpose,
    slice_axis,
    where,
)
from tracer.ops.lu import take_rows
from tracer.ops.matrix_rules import (
    INT32,
    evaluate_each,
    identity,
    lapack_call,
    matrix_axes,
    require_square,
)
from tracer.ops.rules import moved_bytes

Array = np.ndarray[Any, Any]
Cotangents = tuple[Value | None, ...]


def _infer(a: ShapeDtype) -> ShapeDtype:
    require_square("determinant", a)
    return a.with_shape(a.shape[:-2])


def _evaluate(a: Array) -> Array:
    type = _infer(ShapeDtype(a.shape, a.dtype))
    return evaluate_each(lambda matrix: (np.linalg.det(matrix),), a, (type,))[0]


def _spread(x: Value, like: Value) -> Value:
    """Repeat a number of each matrix over further axes."""
    dimensions = tuple(range(len(x.shape)))
    return ops.broadcast_in_dim(x, shape=like.shape, dimensions=dimensions)  # type: ignore[no-any-return]


def _parity(exchanges: Value, dtype: np.dtype[Any]) -> Value:
    """Return the sign of the row exchanges."""
    last = len(exchanges.shape) - 1
    places = ops.iota(shape=exchanges.shape, dtype=INT32, dimension=last)
    moved = convert(ops.compare(exchanges, places, direction="NE"), INT32)
    odd = ops.and_(count := ops.reduce_add(moved, axes=(last,)), full_like(count, 1))
    sign = full(1, ShapeDtype(odd.shape, dtype))
    is_odd = ops.compare(odd, full_like(odd, 1), direction="EQ")
    return ops.select(is_odd, ops.negate(sign), sign)  # type: ignore[no-any-return]


def _pivots(packed: Value) -> Value:
    last = len(packed.shape) - 1
    return ops.reduce_add(where(_on_diagonal(packed), packed), axes=(last,))  # type: ignore[no-any-return]


def _on_diagonal(like: Value) -> Value:
    rows = ops.iota(shape=like.shape, dtype=INT32, dimension=len(like.shape) - 2)
    columns = ops.iota(shape=like.shape, dtype=INT32, dimension=len(like.shape) - 1)
    return ops.compare(rows, columns, direction="EQ")  # type: ignore[no-any-return]


def _decomposed(a: Value) -> tuple[Value, Value, Value, Value]:
    """Return the determinant, the one of all pivots but the last, the factors, the permutation."""
    packed, exchanges, permutation = ops.lu(a)
    pivots, last = _pivots(packed), len(a.shape) - 2
    n = a.shape[-1]
    sign = _parity(exchanges, a.dtype)
    first = ops.multiply(_product(slice_axis(pivots, last, 0, n - 1)), sign)
    return ops.multiply(_product(pivots), sign), first, packed, permutation


def _product(pivots: Value) -> Value:
    """Multiply along the last axis; by logarithms, as NumPy, where a part over- or underflows."""
    last = pivots.type.ndim - 1
    product = ops.reduce_multiply(pivots, axes=(last,))
    if pivots.shape[-1] <= 2:  # Of two there are no parts.
        return product  # type: ignore[no-any-return]
    size = ops.abs(product)
    limits = ml_dtypes.finfo(size.dtype)  # type: ignore[no-untyped-call] # no types
    is_small = ops.compare(size, full_like(size, float(limits.tiny)), direction="LT")
    is_finite = ops.compare(size, full_like(size, float(limits.max)), direction="LE")
    logarithm = ops.reduce_add(ops.log(ops.abs(pivots)), axes=(last,))
    direction = ops.reduce_multiply(ops.sign(pivots), axes=(last,))
    by_logarithms = ops.multiply(direction, convert(ops.exponential(logarithm), product.dtype))
    is_kept = ops.and_(is_finite, ops.not_(is_small))
    return ops.select(is_kept, product, by_logarithms)  # type: ignore[no-any-return]


def _expand(a: Value) -> tuple[Value]:
    if a.shape[-1] == 0:
        return (full(1, a.type.with_shape(a.shape[:-2])),)
    return (_decomposed(a)[0],)


def _adjugate(first: Value, packed: Value, permutation: Value) -> Value:
    """Return d U'^-1 diag(u, ..., u, 1) L^-1 P, with the last pivot u taken out of U and of d."""
    n, row = packed.shape[-1], len(packed.shape) - 2
    places = ops.iota(shape=packed.shape, dtype=INT32, dimension=row)
    in_last_row = ops.compare(places, full_like(places, n - 1), direction="EQ")
    is_last = ops.and_(in_last_row, _on_diagonal(packed))
    pivot = ops.reduce_add(where(is_last, packed), axes=(row, row + 1))
    solved = _solve(packed, take_rows(identity(packed.shape, packed.dtype), permutation), unit=True)
    scaled = ops.select(in_last_row, solved, ops.multiply(solved, _spread(pivot, packed)))
    inverse = _solve(where(ops.not_(is_last), packed, 1), scaled, unit=False)
    # An earlier pivot of zero does not tell the rank: NaN, whether or not the solution is. Their
    # product tells nothing of that: it is zero for small pivots too.
    earlier = slice_axis(_pivots(packed), row, 0, n - 1)
    zeros = ops.compare(earlier, full_like(earlier, 0), direction="EQ")
    has_zero = ops.reduce_or(zeros, axes=(row,))
    first = ops.select(has_zero, full_like(first, np.nan), first)
    return ops.multiply(inverse, _spread(first, packed))  # type: ignore[no-any-return]


def _rolled(x: Value, rows: int, columns: int) -> Value:
    """Move the matrices' rows up and their columns left, around."""
    for axis, steps in ((len(x.shape) - 2, rows), (len(x.shape) - 1, columns)):
        n = x.shape[axis]
        parts = slice_axis(x, axis, steps, n), slice_axis(x, axis, 0, steps)
        x = ops.concatenate(*parts, dimension=axis)
    return x


def _small_cofactors(a: Value) -> Value:
    """Return the cofactors of matrices of up to three rows, polynomials in their elements."""
    if a.shape[-1] == 1:
        return full_like(a, 1)
    if a.shape[-1] == 2:
        last = len(a.shape) - 1
        flipped = ops.reverse(a, dimensions=(last - 1, last))
        return ops.select(_on_diagonal(a), flipped, ops.negate(flipped))  # type: ignore[no-any-return]
    left = ops.multiply(_rolled(a, 1, 1), _rolled(a, 2, 2))
    return ops.subtract(left, ops.multiply(_rolled(a, 1, 2), _rolled(a, 2, 1)))  # type: ignore[no-any-return]


def _solve(triangular: Value, right: Value, *, unit: bool) -> Value:
    return ops.triangular_solve(  # type: ignore[no-any-return]
        triangular,
        right,
        left_side=True,
        lower=unit,
        unit_diagonal=unit,
        transpose_a="NO_TRANSPOSE",
    )


def _linearize(
    rules: Any, active: Sequence[bool], wanted: Sequence[bool], a: Value
) -> tuple[tuple[Value, ...], Callable[[Cotangents], Cotangents]]:
    """Decompose once for the value and its gradient, the cofactors."""
    if a.shape[-1] == 0:
        return _expand(a), lambda g: (None,)
    value, *parts = _decomposed(a)

    def pull_back(g: Cotangents) -> Cotangents:
        if g[0] is None:
            return (None,)
        small = a.shape[-1] <= 3
        cofactors = _small_cofactors(a) if small else matrix_transpose(_adjugate(*parts))
        return (ops.multiply(_spread(g[0], a), cofactors),)

    return (value,), pull_back


def _cost(operands: Types, results: Types) -> Cost:
    a = operands[0]
    flops = a.size * a.shape[-1] * 2 // 3
    call = lapack_call(a, a.shape[-1])
    return Cost(flops, moved_bytes(operands, results), a.nbytes, calls=(call,))


determinant: Op = Op(
    "determinant",
    doc="Determinants of the last two axes, by LU decomposition. The gradient is that of the "
    "polynomial also at singular matrices, but NaN where a pivot before the last is exactly zero "
    "and the matrix has more than three rows.",
    infer=_infer,
    evaluate=_evaluate,
    lower=lambda b, types, a: lower_expansion(_expand, [a.type], b, (a,))[0],
    vjp=NotDifferentiable("it is differentiated by its linearize rule"),
    linearize=_linearize,
    axes=matrix_axes,
    cost=_cost,
    expand=_expand,
)
