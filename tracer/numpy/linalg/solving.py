"""Linear systems and inverses, by LU decomposition."""

from __future__ import annotations

from tracer import ops
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, broadcast, broadcast_shape, convert, reshape, transpose
from tracer.array.dispatch import apply, apply_many, compound
from tracer.errors import ShapeError
from tracer.numpy.linalg.checks import (
    any_of,
    nan_where,
    refuse_singular,
    square_matrices,
)
from tracer.numpy.matrices import diagonal, eye
from tracer.numpy.reductions import reduce
from tracer.numpy.ufunc import compare, full_like


def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """Solve a x = b.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        Matrices.
    b : array_like, shape (n,) or (..., n, k)
        Right-hand sides.

    Returns
    -------
    Array, shape (..., n) or (..., n, k)
        The solutions. Inside a traced function NaN where the matrix is singular.

    Raises
    ------
    LinAlgError
        The matrices are not square, or (concrete arrays) one is singular.
    ShapeError
        The sizes of `a` and `b` do not agree.

    Notes
    -----
    LU decomposition with row exchanges; the gradient solves with the same factors.

    Examples
    --------
    >>> import tracer.numpy as tnp
    >>> tnp.linalg.solve([[2.0, 0.0], [1.0, 4.0]], [2.0, 9.0])
    Array([1., 2.])
    """
    matrix, right = square_matrices("solve", a), as_array(b)
    require_rows("solve", matrix, right)
    solution, failed = solve_general(matrix, right)
    refuse_singular(failed, "solve")
    return solution


def require_rows(name: str, a: Array, b: Array) -> None:
    """Raise `ShapeError` unless right-hand sides have as many rows as the matrices."""
    if not b.ndim or b.shape[0 if b.ndim == 1 else -2] != a.shape[-2]:
        raise ShapeError(
            f"{name}: a of shape {a.shape} and b of shape {b.shape} do not fit",
            mend="give b of shape (m,) or (..., m, k) for a of shape (..., m, n)",
        )


@compound
def solve_general(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the solutions, NaN where there is none, and whether there was a singular matrix."""
    dtype = promotion.division_dtype(promotion.promote_types(a.dtype, b.dtype))
    a, b = convert(a, dtype), convert(b, dtype)
    if b.ndim == 1:
        solution, failed = _solve_columns(a, reshape(b, (b.size, 1)))
        return reshape(solution, solution.shape[:-1]), failed
    if a.ndim > 2 or b.ndim == 2:
        return _solve_columns(a, b)
    # One matrix for all: the right-hand sides are put side by side, and it is decomposed once.
    order = (b.ndim - 2, *range(b.ndim - 2), b.ndim - 1)
    shape = tuple(b.shape[axis] for axis in order)
    beside = reshape(transpose(b, order), (b.shape[-2], b.size // max(1, b.shape[-2])))
    solution, failed = _solve_columns(a, beside)
    back = (*range(1, b.ndim - 1), 0, b.ndim - 1)
    return transpose(reshape(solution, shape), back), failed


def _solve_columns(a: Array, b: Array) -> tuple[Array, Array]:
    batch = broadcast_shape("solve", a.shape[:-2], b.shape[:-2])
    packed, _, permutation = apply_many(ops.lu, apply(ops.stop_gradient, a))
    singular = _has_zero(diagonal(packed, 0, -2, -1))
    operands = (a, packed, permutation, b)
    core = (2, 2, 1, 2)
    spread = [
        broadcast(x, (*batch, *x.shape[x.ndim - count :]))
        for x, count in zip(operands, core, strict=True)
    ]
    solution = apply(ops.lu_solve, *spread, transpose=False)
    return nan_where(broadcast(singular, batch), solution), any_of(singular)


def _has_zero(pivots: Array) -> Array:
    is_zero = compare(pivots, full_like(pivots, 0), "EQ")
    return reduce(ops.reduce_or, is_zero, (pivots.ndim - 1,), keepdims=False)


def inv(a: ArrayLike) -> Array:
    """Inverse of square matrices.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        Matrices.

    Returns
    -------
    Array, shape (..., n, n)
        The inverses. Inside a traced function NaN where the matrix is singular.

    Raises
    ------
    LinAlgError
        The matrices are not square, or (concrete arrays) one is singular.

    Notes
    -----
    `solve` is faster and more accurate where the inverse is only multiplied with something.
    """
    result, failed = inverse(square_matrices("inv", a))
    refuse_singular(failed, "inv")
    return result


@compound
def inverse(x: Array) -> tuple[Array, Array]:
    """Return the inverses, NaN where there is none, and whether there was a singular matrix."""
    return _solve_columns(x, eye(x.shape[-1], dtype=x.dtype))
