"""Norms of vectors and matrices, and results of singular values: rank and condition."""

from __future__ import annotations

import math
from typing import Any

from tracer import ops
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import (
    as_array,
    as_keepdims,
    axes_in_order,
    convert,
    normalize_axes,
    reshape,
    transpose,
)
from tracer.array.dispatch import apply, compound
from tracer.errors import ArgumentError, LinAlgError, ShapeError
from tracer.ir import as_dtype
from tracer.numpy.arithmetic import absolute, power
from tracer.numpy.creation import zeros
from tracer.numpy.elementwise import where
from tracer.numpy.extremes import max, min
from tracer.numpy.linalg.checks import has_nan, last_axes, matrices, per_matrix, square_matrices
from tracer.numpy.linalg.decompositions import svd, svdvals
from tracer.numpy.linalg.least_squares import precision
from tracer.numpy.linalg.solving import inverse
from tracer.numpy.logic import not_equal
from tracer.numpy.reductions import (
    accumulation_dtype,
    any,
    count_nonzero,
    finish,
    reduce,
    sum,
)
from tracer.numpy.shaping import expand_dims, moveaxis
from tracer.numpy.ufunc import compare, full_like, is_complex, select


def norm(
    x: ArrayLike,
    ord: float | str | None = None,  # noqa: A002 - NumPy's name
    axis: Any = None,
    keepdims: bool = False,
) -> Array:
    """Norm of vectors or matrices.

    Parameters
    ----------
    x : array_like
        Numbers.
    ord : None, number, inf, -inf, "fro" or "nuc"
        Which norm; None is the Euclidean (Frobenius) one. Matrices: 1, -1, 2, -2, inf, -inf, "fro"
        and "nuc", the sum of the singular values.
    axis : int or pair of int, optional
        The axes of the vectors or matrices; by default all axes for None, else `x` is one vector
        or matrix.
    keepdims : bool
        Keep the axes with size one.

    Returns
    -------
    Array of reals
        The norms.

    Raises
    ------
    ArgumentError
        There is no such norm.
    ShapeError
        There is no such norm over that many axes.

    Notes
    -----
    As in JAX the gradient of the Euclidean norm at zero is NaN: there the norm has none.
    """
    array = as_array(x)
    array = convert(array, promotion.division_dtype(array.dtype))
    axes = axes_in_order(axis, array.ndim)
    if ord is None or (ord == "fro" and len(axes) == 2) or (ord == 2 and len(axes) == 1):
        return _euclidean(array, axes=tuple(sorted(axes)), keepdims=as_keepdims(keepdims))
    if len(axes) == 1:
        # Powers of 16 bits overflow where their root does not.
        wide = convert(array, accumulation_dtype(array.dtype))
        found = _vector_norm(wide, ord, axes[0], keepdims)
        return found if wide is array else convert(found, array.dtype)
    if len(axes) == 2:
        return _matrix_norm(array, ord, axes, keepdims)
    raise ShapeError(
        f"norm of order {ord} is not defined over {len(axes)} axes",
        mend="name one axis or two with axis=",
    )


@compound
def _euclidean(x: Array, *, axes: tuple[int, ...], keepdims: bool) -> Array:
    wide = convert(x, accumulation_dtype(x.dtype))
    parts = [apply(ops.real, x), apply(ops.imag, x)] if is_complex(x) else [wide]
    squares = apply(ops.multiply, parts[0], parts[0])
    if len(parts) == 2:
        squares = apply(ops.add, squares, apply(ops.multiply, parts[1], parts[1]))
    total = reduce(ops.reduce_add, squares, axes, keepdims=False)
    root = apply(ops.sqrt, total)
    return finish(root if wide is x else convert(root, x.dtype), x.shape, axes, keepdims)


def _largest(size: Array, axis: int, keepdims: bool = False) -> Array:
    """Return the largest of sizes along an axis, 0 of nothing."""
    if size.shape[axis]:
        return max(size, axis, keepdims=keepdims)
    return sum(size, axis, keepdims=keepdims)


def _vector_norm(x: Array, ord: Any, axis: int, keepdims: bool) -> Array:  # noqa: A002
    if isinstance(ord, str):
        raise ArgumentError(
            f"norm {ord!r} is not defined for vectors", mend="give a number or None"
        )
    size = absolute(x)
    if ord == math.inf:
        return _largest(size, axis, keepdims)
    if ord == -math.inf:
        return min(size, axis, keepdims=keepdims)
    if ord == 0:
        return sum(convert(not_equal(x, 0), size.dtype), axis, keepdims=keepdims)
    if ord == 1:
        return sum(size, axis, keepdims=keepdims)
    return power(sum(power(size, float(ord)), axis, keepdims=keepdims), 1.0 / ord)


def _matrix_norm(x: Array, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Array:  # noqa: A002
    rows, columns = axes
    if ord in (2, -2, "nuc"):
        values = svdvals(moveaxis(x, axes, (-2, -1)))
        reduction = sum if ord == "nuc" else _largest if ord == 2 else min
        result = reduction(values, -1)
        return expand_dims(result, axes) if as_keepdims(keepdims) else result
    summed, over = {1: (rows, columns), math.inf: (columns, rows)}.get(
        abs(ord) if isinstance(ord, int | float) else ord, (None, None)
    )
    if summed is None or over is None:
        raise ArgumentError(
            f"norm {ord!r} is not defined for matrices",
            mend='use "fro", "nuc", 1, -1, 2, -2, inf or -inf',
        )
    sums = sum(absolute(x), summed, keepdims=True)
    result = (_largest if ord > 0 else min)(sums, over, keepdims=True)
    kept = tuple(size for axis, size in enumerate(result.shape) if axis not in axes)
    return result if as_keepdims(keepdims) else reshape(result, kept)


def vector_norm(
    x: ArrayLike,
    /,
    *,
    axis: Any = None,
    keepdims: bool = False,
    ord: float | str | None = 2,  # noqa: A002
) -> Array:
    """Norm of vectors along axes, of the flattened array by default; see `norm`."""
    array = as_array(x)
    if ord == 2:
        return norm(array, None, axis, keepdims)
    axes = normalize_axes(axis, array.ndim)
    if len(axes) == 1:
        return norm(array, ord, axes[0], keepdims)
    kept = tuple(i for i in range(array.ndim) if i not in axes)
    flat = transpose(array, (*kept, *axes))
    flat = reshape(flat, (*flat.shape[: len(kept)], math.prod(array.shape[i] for i in axes)))
    result = norm(flat, ord, -1)
    return expand_dims(result, axes) if as_keepdims(keepdims) else result


def matrix_norm(
    x: ArrayLike,
    /,
    *,
    keepdims: bool = False,
    ord: float | str | None = "fro",  # noqa: A002
) -> Array:
    """Norm of the matrices of the last two axes; see `norm`."""
    return norm(x, ord, (-2, -1), keepdims)


def cond(x: ArrayLike, p: float | str | None = None) -> Array:
    """Condition number of matrices.

    Parameters
    ----------
    x : array_like, shape (..., m, n)
        Matrices; square ones unless `p` is None, 2 or -2.
    p : None, 1, -1, 2, -2, inf, -inf, "fro" or "nuc"
        The norm; None is the one of singular values (2).

    Returns
    -------
    Array of reals, shape (...)
        norm(x) norm(inv(x)); infinite for singular matrices.

    Raises
    ------
    LinAlgError
        The matrices are empty, or not square where they must be.
    """
    array = matrices("cond", x)
    if not array.size and 0 in array.shape[-2:]:
        raise LinAlgError(
            "cond is not defined for empty matrices", mend="give matrices with elements"
        )
    if p in (None, 2, -2):
        values = svdvals(array)
        first, last = values[..., 0], values[..., -1]
        result = last / first if p == -2 else first / last
    else:
        inverted, is_singular = _safe_inverse(square_matrices("cond", array))
        result = norm(array, p, (-2, -1)) * norm(inverted, p, (-2, -1))
        result = where(is_singular, math.inf, result)
    return _infinite_where_new(result, array)


@compound
def _safe_inverse(x: Array) -> tuple[Array, Array]:
    """Return the inverses, zero for singular matrices, and which those are."""
    inverted, _ = inverse(x)
    is_new = has_nan(inverted, last_axes(inverted, 2))
    is_new = apply(ops.and_, is_new, apply(ops.not_, has_nan(x, last_axes(x, 2))))
    return select(per_matrix(is_new, x), full_like(x, 0), inverted), is_new


@compound
def _infinite_where_new(result: Array, x: Array) -> Array:
    """Turn NaN into infinity where the matrix has no NaN itself."""
    given = has_nan(x, last_axes(x, 2))
    is_new = apply(ops.and_, compare(result, result, "NE"), apply(ops.not_, given))
    return select(is_new, full_like(result, math.inf), result)


def matrix_rank(
    A: ArrayLike,  # noqa: N803 - NumPy's name
    tol: Any = None,
    hermitian: bool = False,
    *,
    rtol: ArrayLike | None = None,
) -> Array:
    """Rank of matrices: how many singular values count as not zero.

    Parameters
    ----------
    A : array_like, shape (..., m, n)
        Matrices; a vector has rank 1 unless it is zero.
    tol : float or array_like, optional
        Singular values up to this one count as zero.
    hermitian : bool
        The matrices are Hermitian, which is faster.
    rtol : float or array_like, optional
        The same, as a multiple of the largest one, for all matrices or for each; by default
        max(m, n) times the precision of the dtype.

    Returns
    -------
    Array of int64, shape (...)
        The ranks.

    Raises
    ------
    ArgumentError
        Both `tol` and `rtol` are given.
    LinAlgError
        (Concrete arrays) the singular value decomposition does not converge.
    """
    if tol is not None and rtol is not None:
        raise ArgumentError("matrix_rank got both tol and rtol", mend="give one of them")
    x = as_array(A)
    if x.ndim < 2:
        return convert(any(not_equal(x, 0)), as_dtype("int64"))
    x = matrices("matrix_rank", x)
    if 0 in x.shape[-2:]:
        return zeros(x.shape[:-2], as_dtype("int64"))
    values = svd(x, compute_uv=False, hermitian=hermitian)
    if tol is None:
        bound = values[..., :1] * (precision(x) if rtol is None else _per_row(rtol))
    else:
        bound = _per_row(tol)
    return count_nonzero(values > bound, -1)


def _per_row(tolerance: ArrayLike) -> ArrayLike:
    """Lay one tolerance for each matrix along its singular values; a number is for all."""
    if isinstance(tolerance, int | float) or promotion.weak_class(tolerance) is not None:
        return tolerance
    return expand_dims(as_array(tolerance), -1)
