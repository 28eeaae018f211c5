"""Linear systems, inverses, determinants, least squares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tracer import ops
from tracer.errors import ArgumentError, ShapeError
from tracer.numpy import promotion
from tracer.numpy.arithmetic import absolute, sign
from tracer.numpy.base import ArrayLike
from tracer.numpy.contraction import matmul
from tracer.numpy.convert import as_array, broadcast, broadcast_shape, convert, reshape, transpose
from tracer.numpy.dispatch import apply, apply_many, compound
from tracer.numpy.elementwise import log
from tracer.numpy.linalg.checks import (
    any_of,
    matrices,
    nan_where,
    refuse_singular,
    refuse_unconverged,
    square_matrices,
)
from tracer.numpy.matrices import diagonal, eye
from tracer.numpy.ranges import iota
from tracer.numpy.reductions import prod, reduce, sum
from tracer.numpy.ufunc import compare, full_like, select

if TYPE_CHECKING:
    from tracer.numpy.array import Array


class SlogdetResult(NamedTuple):
    """What `slogdet` returns."""

    sign: Array
    logabsdet: Array


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
    # One matrix for all: the right-hand sides stand side by side and it is decomposed once.
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


def det(a: ArrayLike) -> Array:
    """Return the determinants of square matrices.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        Matrices.

    Returns
    -------
    Array, shape (...)
        The determinants, by LU decomposition.

    Raises
    ------
    LinAlgError
        The matrices are not square.

    Notes
    -----
    The gradient at a singular matrix is not finite. Where determinants over- or underflow, use
    `slogdet`.
    """
    return _det(square_matrices("det", a))


@compound
def _det(x: Array) -> Array:
    pivots, parity = _pivots(x)
    return apply(ops.multiply, prod(pivots, -1), parity)


def _pivots(x: Array) -> tuple[Array, Array]:
    """Return the diagonal of U, and the sign of the row exchanges."""
    packed, exchanges, _ = apply_many(ops.lu, x)
    places = iota(shape=exchanges.shape, dtype=exchanges.dtype, dimension=exchanges.ndim - 1)
    moved = convert(compare(exchanges, places, "NE"), exchanges.dtype)
    count = reduce(ops.reduce_add, moved, (moved.ndim - 1,), keepdims=False)
    is_odd = compare(apply(ops.and_, count, full_like(count, 1)), full_like(count, 1), "EQ")
    diagonals = diagonal(packed, 0, -2, -1)
    like = broadcast(convert(is_odd, x.dtype), is_odd.shape)
    return diagonals, select(is_odd, full_like(like, -1), full_like(like, 1))


def slogdet(a: ArrayLike) -> SlogdetResult:
    """Sign and logarithm of the absolute value of the determinant.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        Matrices.

    Returns
    -------
    SlogdetResult of (sign, logabsdet)
        det = sign * exp(logabsdet); for complex matrices the sign has absolute value one. 0 and
        -inf for singular matrices, whose gradient is not finite.

    Raises
    ------
    LinAlgError
        The matrices are not square.
    """
    return SlogdetResult(*_slogdet(square_matrices("slogdet", a)))


@compound
def _slogdet(x: Array) -> tuple[Array, Array]:
    pivots, parity = _pivots(x)
    signs = apply(ops.multiply, prod(sign(pivots), -1), parity)
    return signs, sum(log(absolute(pivots)), -1)


def pinv(a: ArrayLike, rcond: Any = None, hermitian: bool = False, *, rtol: Any = ...) -> Array:
    """Moore-Penrose inverse.

    Parameters
    ----------
    a : array_like, shape (..., m, n)
        Matrices.
    rcond : float, optional
        Singular values up to `rcond` times the largest count as zero; 1e-15 by default, as in
        NumPy.
    hermitian : bool
        Accepted; the singular values are computed in the same way.
    rtol : float or None, optional
        Another name of `rcond`; None means max(m, n) times the precision of the dtype.

    Returns
    -------
    Array, shape (..., n, m)
        The inverses. Inside a traced function NaN where the SVD does not converge.

    Raises
    ------
    ArgumentError
        Both `rcond` and `rtol` are given.
    LinAlgError
        (Concrete arrays) the singular value decomposition does not converge.

    Notes
    -----
    The gradient is Golub and Pereyra's, for matrices whose rank does not change nearby.
    """
    del hermitian
    x = matrices("pinv", a)
    if rcond is not None and rtol is not ...:
        raise ArgumentError("pinv got both rcond and rtol", mend="give one of them")
    given = rcond if rtol is ... else rtol
    default = 1e-15 if rtol is ... else precision(x)
    result, failed = _pinv(x, rtol=float(default if given is None else given))
    refuse_unconverged(failed, "pinv")
    return result


def precision(x: Array) -> float:
    """Return the larger side of matrices times the precision of their dtype."""
    return float(np.max(x.shape[-2:], initial=0)) * float(promotion.finfo(x.dtype).eps)


@compound
def _pinv(x: Array, *, rtol: float) -> tuple[Array, Array]:
    result = apply(ops.pseudo_inverse, x, rtol=rtol)
    return result, any_of(compare(result, result, "NE"))


def lstsq(a: ArrayLike, b: ArrayLike, rcond: float | None = None) -> tuple[Array, ...]:
    """Least-squares solution of a x = b, the shortest one when there are several.

    Parameters
    ----------
    a : array_like, shape (m, n)
        The matrix.
    b : array_like, shape (m,) or (m, k)
        Right-hand sides.
    rcond : float, optional
        Singular values up to `rcond` times the largest count as zero; max(m, n) times the
        precision of the dtype by default.

    Returns
    -------
    x : Array, shape (n,) or (n, k)
        The solutions.
    residuals : Array, shape (1,) or (k,)
        Squared lengths of b - a x; of size zero when m <= n. When the rank is less than n NumPy
        returns size zero too; here that holds for concrete arrays, traced ones are NaN.
    rank : Array, a scalar of int32
        How many singular values are not zero.
    s : Array, shape (min(m, n),)
        The singular values.

    Raises
    ------
    LinAlgError
        `a` is not one matrix, or (concrete arrays) the decomposition does not converge.
    ShapeError
        The sizes of `a` and `b` do not agree.
    """
    matrix, right = matrices("lstsq", a), as_array(b)
    if matrix.ndim > 2 or right.ndim > 2:
        raise ShapeError(
            f"lstsq takes one matrix, got shapes {matrix.shape} and {right.shape}",
            mend="give a of shape (m, n) and b of shape (m,) or (m, k)",
        )
    require_rows("lstsq", matrix, right)
    cut = precision(matrix) if rcond is None else float(rcond)
    x, residuals, rank, values, failed = _lstsq(matrix, right, rtol=cut)
    refuse_unconverged(failed, "lstsq")
    if not rank.is_traced and int(rank) < matrix.shape[1]:
        residuals = residuals[:0]
    return x, residuals, rank, values


@compound
def _lstsq(a: Array, b: Array, *, rtol: float) -> tuple[Array, ...]:
    dtype = promotion.division_dtype(promotion.promote_types(a.dtype, b.dtype))
    a, b = convert(a, dtype), convert(b, dtype)
    columns = reshape(b, (b.size, 1)) if b.ndim == 1 else b
    (m, n), k = a.shape, columns.shape[1]
    x = matmul(apply(ops.pseudo_inverse, a, rtol=rtol), columns)
    _, values, _ = apply_many(ops.svd, a, full_matrices=False, compute_vectors=True)
    rank = count_above(values, rtol)
    rest = absolute(apply(ops.subtract, columns, matmul(a, x)))
    squares = sum(apply(ops.multiply, rest, rest), 0)
    is_full = broadcast(compare(rank, full_like(rank, n), "EQ"), (k,))
    residuals = select(is_full, squares, full_like(squares, float("nan")))
    if m <= n:
        residuals = residuals[:0]
    failed = any_of(compare(values, values, "NE"))
    solution = reshape(x, (n,)) if b.ndim == 1 else x
    return solution, residuals, rank, values, failed


def count_above(values: Array, rtol: float) -> Array:
    """Return how many singular values (last axis, descending) exceed `rtol` times the first."""
    if not values.shape[-1]:
        return full_like(convert(sum(values, -1), np.dtype("int32")), 0)
    largest = broadcast(values[..., :1], values.shape)
    bound = apply(ops.multiply, largest, full_like(largest, rtol))
    above = convert(compare(values, bound, "GT"), np.dtype("int32"))
    return reduce(ops.reduce_add, above, (above.ndim - 1,), keepdims=False)
