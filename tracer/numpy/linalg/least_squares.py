"""Pseudo-inverses and least squares, by singular value decomposition."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer import ops
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, broadcast, convert, reshape
from tracer.array.dispatch import apply, apply_many, compound
from tracer.errors import ArgumentError, ShapeError
from tracer.numpy.arithmetic import absolute
from tracer.numpy.contraction import matmul
from tracer.numpy.elementwise import where
from tracer.numpy.linalg.checks import (
    adjoint,
    any_of,
    matrices,
    refuse_unconverged,
)
from tracer.numpy.linalg.solving import require_rows
from tracer.numpy.reductions import reduce, sum
from tracer.numpy.ufunc import compare, full_like, select


def pinv(a: ArrayLike, rcond: Any = None, hermitian: bool = False, *, rtol: Any = ...) -> Array:
    """Moore-Penrose inverse.

    Parameters
    ----------
    a : array_like, shape (..., m, n)
        Matrices.
    rcond : float or array_like, optional
        Singular values up to `rcond` times the largest count as zero, one number for all matrices
        or one for each; 1e-15 by default, as in NumPy.
    hermitian : bool
        Accepted; the singular values are computed in the same way.
    rtol : float or array_like or None, optional
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
    The gradient is Golub and Pereyra's, for matrices whose rank does not change nearby. With one
    tolerance for each matrix it is that of `svd`, which equal singular values make infinite.
    """
    del hermitian
    x = matrices("pinv", a)
    if rcond is not None and rtol is not ...:
        raise ArgumentError("pinv got both rcond and rtol", mend="give one of them")
    given = rcond if rtol is ... else rtol
    default = 1e-15 if rtol is ... else precision(x)
    cut = default if given is None else given
    if isinstance(cut, int | float | np.number):
        result, failed = _pinv(x, rtol=float(cut))
    else:
        result, failed = _pinv_each(x, as_array(cut))
    refuse_unconverged(failed, "pinv")
    return result


def precision(x: Array) -> float:
    """Return the larger side of matrices times the precision of their dtype."""
    return float(np.max(x.shape[-2:], initial=0)) * float(promotion.finfo(x.dtype).eps)


@compound
def _pinv(x: Array, *, rtol: float) -> tuple[Array, Array]:
    result = apply(ops.pseudo_inverse, x, rtol=rtol)
    return result, any_of(compare(result, result, "NE"))


@compound
def _pinv_each(x: Array, rtol: Array) -> tuple[Array, Array]:
    left, values, right = apply_many(ops.svd, x, full_matrices=False, compute_vectors=True)
    failed = any_of(compare(values, values, "NE"))
    bound = values[..., :1] * convert(rtol, values.dtype)[..., None]
    kept = values > bound
    # The gradient of the branch that is not taken would be infinite at zero.
    inverses = where(kept, 1 / where(kept, values, 1), where(values == values, 0, values))
    scaled = adjoint(right) * convert(inverses, x.dtype)[..., None, :]
    return matmul(scaled, adjoint(left)), failed


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
