"""Linear algebra: `tracer.numpy.linalg`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tracer import ops
from tracer.errors import ArgumentError, LinAlgError, ShapeError
from tracer.numpy import matrices, promotion
from tracer.numpy.arithmetic import absolute, power
from tracer.numpy.base import ArrayLike
from tracer.numpy.contraction import matmul, outer, tensordot, vecdot
from tracer.numpy.convert import as_array, convert, normalize_axes, reshape
from tracer.numpy.dispatch import apply, compound
from tracer.numpy.elementwise import conjugate
from tracer.numpy.extremes import max, min
from tracer.numpy.logic import not_equal
from tracer.numpy.reductions import finish, reduce, sum
from tracer.numpy.shaping import matrix_transpose, swapaxes
from tracer.numpy.ufunc import is_complex

if TYPE_CHECKING:
    from tracer.numpy.array import Array


def square_matrices(name: str, a: ArrayLike) -> Array:
    """Return square matrices as floats, or raise."""
    x = as_array(a)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise LinAlgError(
            f"{name} needs square matrices, got shape {x.shape}",
            mend="give an array of shape (..., n, n)",
        )
    return convert(x, promotion.division_dtype(x.dtype))


def cholesky(a: ArrayLike, /, *, upper: bool = False) -> Array:
    """Cholesky factor of symmetric (Hermitian) positive definite matrices.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        Only the lower triangle is read (the upper one for `upper`).
    upper : bool
        Return U with a = U^H U instead of L with a = L L^H.

    Returns
    -------
    Array, shape (..., n, n)
        The factor. NaN where the matrix is not positive definite: whether it is is known only
        when the values are.

    Raises
    ------
    LinAlgError
        The matrices are not square.
    """
    return _cholesky(square_matrices("cholesky", a), upper=bool(upper))


@compound
def _cholesky(x: Array, *, upper: bool) -> Array:
    if not upper:
        return apply(ops.cholesky, x)
    return _adjoint(apply(ops.cholesky, _adjoint(x)))


def _adjoint(x: Array) -> Array:
    swapped = swapaxes(x, -1, -2)
    return conjugate(swapped) if is_complex(x) else swapped


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """Return the diagonals of the matrices of the last two axes; see `numpy.linalg.diagonal`."""
    return matrices.diagonal(x, offset, -2, -1)


def trace(x: ArrayLike, /, *, offset: int = 0, dtype: Any = None) -> Array:
    """Return the traces of the matrices of the last two axes; see `numpy.linalg.trace`."""
    return matrices.trace(x, offset, -2, -1, dtype)


def norm(
    x: ArrayLike,
    ord: Any = None,  # noqa: A002 - NumPy's name
    axis: Any = None,
    keepdims: bool = False,
) -> Array:
    """Norm of vectors or matrices.

    Parameters
    ----------
    x : array_like
        Numbers.
    ord : None, number, inf, -inf or "fro"
        Which norm; None is the Euclidean (Frobenius) one. Matrices: 1, -1, inf, -inf, "fro".
    axis : int or pair of int, optional
        Where the vectors or the matrices lie; by default all axes for None, else `x` is one vector
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
        There is no such norm here (the singular ones need an SVD).
    """
    array = as_array(x)
    array = convert(array, promotion.division_dtype(array.dtype))
    axes = (
        normalize_axes(axis, array.ndim)
        if not isinstance(axis, tuple | list)
        else tuple(normalize_axes((item,), array.ndim)[0] for item in axis)
    )
    if ord is None or (ord == "fro" and len(axes) == 2) or (ord == 2 and len(axes) == 1):
        return _euclidean(array, axes=tuple(sorted(axes)), keepdims=bool(keepdims))
    if len(axes) == 1:
        return _vector_norm(array, ord, axes[0], keepdims)
    if len(axes) == 2:
        return _matrix_norm(array, ord, axes, keepdims)
    raise ShapeError(
        f"norm of order {ord} over {len(axes)} axes", mend="name one axis or two with axis="
    )


@compound
def _euclidean(x: Array, *, axes: tuple[int, ...], keepdims: bool) -> Array:
    parts = [apply(ops.real, x), apply(ops.imag, x)] if is_complex(x) else [x]
    squares = apply(ops.multiply, parts[0], parts[0])
    if len(parts) == 2:
        squares = apply(ops.add, squares, apply(ops.multiply, parts[1], parts[1]))
    total = reduce(ops.reduce_add, squares, axes, keepdims=False)
    return finish(apply(ops.sqrt, total), x.shape, axes, keepdims)


def _vector_norm(x: Array, ord: Any, axis: int, keepdims: bool) -> Array:  # noqa: A002
    if isinstance(ord, str):
        raise ArgumentError(f"norm {ord!r} is not one of vectors", mend="give a number or None")
    size = absolute(x)
    if ord == math.inf:
        return max(size, axis, keepdims=keepdims)
    if ord == -math.inf:
        return min(size, axis, keepdims=keepdims)
    if ord == 0:
        return sum(convert(not_equal(x, 0), size.dtype), axis, keepdims=keepdims)
    if ord == 1:
        return sum(size, axis, keepdims=keepdims)
    return power(sum(power(size, float(ord)), axis, keepdims=keepdims), 1.0 / ord)


def _matrix_norm(x: Array, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Array:  # noqa: A002
    rows, columns = axes
    summed, over = {1: (rows, columns), math.inf: (columns, rows)}.get(
        abs(ord) if isinstance(ord, int | float) else ord, (None, None)
    )
    if summed is None or over is None:
        raise ArgumentError(
            f"norm {ord!r} of matrices is not available", mend='use "fro", 1, -1, inf or -inf'
        )
    sums = sum(absolute(x), summed, keepdims=True)
    result = (max if ord > 0 else min)(sums, over, keepdims=True)
    kept = tuple(size for axis, size in enumerate(result.shape) if axis not in axes)
    return result if keepdims else reshape(result, kept)


def vector_norm(
    x: ArrayLike,
    /,
    *,
    axis: Any = None,
    keepdims: bool = False,
    ord: Any = 2,  # noqa: A002
) -> Array:
    """Norm of vectors along axes, of the flattened array by default; see `norm`."""
    array = as_array(x)
    if axis is None:
        result = norm(reshape(array, (array.size,)), ord, 0)
        return reshape(result, (1,) * array.ndim) if keepdims else result
    return norm(array, None if ord == 2 else ord, axis, keepdims)


def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:  # noqa: A002
    """Norm of the matrices of the last two axes; see `norm`."""
    return norm(x, ord, (-2, -1), keepdims)


__all__ = [
    "cholesky",
    "diagonal",
    "matmul",
    "matrix_norm",
    "matrix_transpose",
    "norm",
    "outer",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]
