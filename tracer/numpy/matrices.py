"""Matrices with a diagonal: eye, diag, tril, triu, diagonal, trace."""

from __future__ import annotations

import operator
from typing import Any

from tracer import ops
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, broadcast, convert, normalize_axes, reshape, scalar
from tracer.array.dispatch import apply, compound
from tracer.array.promotion import Dtype
from tracer.errors import ShapeError
from tracer.ir import as_dtype
from tracer.numpy.creation import checked_shape, placed
from tracer.numpy.ranges import iota
from tracer.numpy.reductions import sum
from tracer.numpy.shaping import moveaxis
from tracer.numpy.ufunc import compare, full_like, select

_INT64 = as_dtype("int64")


def eye(
    N: int,  # noqa: N803 - NumPy's name
    M: int | None = None,  # noqa: N803
    k: int = 0,
    dtype: Any = None,
    *,
    device: Any = None,
) -> Array:
    """Return ones on a diagonal, zeros elsewhere.

    Parameters
    ----------
    N, M : int
        Rows and columns; as many columns as rows by default.
    k : int
        Which diagonal; positive ones are above the main one.
    dtype : dtype, optional
        Of the result; float64 by default.
    device : Device or str, optional
        Where the array goes.

    Returns
    -------
    Array, shape (N, M)
        The matrix.
    """
    wanted = as_dtype(float if dtype is None else dtype)
    shape = checked_shape((N, N if M is None else M))
    return placed(_eye(shape=shape, offset=operator.index(k), dtype=wanted), device)


def identity(n: int, dtype: Any = None) -> Array:
    """Return the identity matrix; float64 by default."""
    return eye(n, dtype=dtype)


@compound
def _eye(*, shape: tuple[int, ...], offset: int, dtype: Dtype) -> Array:
    return convert(_on_diagonal(shape, offset, "EQ"), dtype)


def _on_diagonal(shape: tuple[int, ...], offset: int, direction: str) -> Array:
    """Compare the column with the row plus `offset`, over the last two axes."""
    rows = iota(shape=shape, dtype=_INT64, dimension=len(shape) - 2)
    columns = iota(shape=shape, dtype=_INT64, dimension=len(shape) - 1)
    if offset:
        rows = apply(ops.add, rows, full_like(rows, offset))
    return compare(columns, rows, direction)


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Array:  # noqa: N803
    """Return ones on and below a diagonal, zeros above; float64 by default."""
    wanted = as_dtype(float if dtype is None else dtype)
    shape = checked_shape((N, N if M is None else M))
    return _tri(shape=shape, offset=operator.index(k), dtype=wanted)


@compound
def _tri(*, shape: tuple[int, ...], offset: int, dtype: Dtype) -> Array:
    return convert(_on_diagonal(shape, offset, "LE"), dtype)


def tril(m: ArrayLike, k: int = 0) -> Array:
    """Return the matrices of the last two axes with zeros above a diagonal."""
    return _triangle(_as_matrices("tril", m), offset=operator.index(k), direction="LE")


def triu(m: ArrayLike, k: int = 0) -> Array:
    """Return the matrices of the last two axes with zeros below a diagonal."""
    return _triangle(_as_matrices("triu", m), offset=operator.index(k), direction="GE")


def _as_matrices(name: str, m: ArrayLike) -> Array:
    x = as_array(m)
    if x.ndim == 1:
        return broadcast(x, (x.size, x.size))
    if x.ndim == 0:
        raise ShapeError(f"{name} takes a matrix, not a scalar", mend="give a matrix")
    return x


@compound
def _triangle(x: Array, *, offset: int, direction: str) -> Array:
    return select(_on_diagonal(x.shape, offset, direction), x, full_like(x, 0))


def diag(v: ArrayLike, k: int = 0) -> Array:
    """Return the diagonal of a matrix, or the matrix with a diagonal.

    Parameters
    ----------
    v : array_like, shape (n, m) or (n,)
        A matrix, or the elements of the diagonal.
    k : int
        Which diagonal; positive ones are above the main one.

    Returns
    -------
    Array
        A vector, or a square matrix.
    """
    x = as_array(v)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise ShapeError(
            f"diag takes a vector or a matrix, not shape {x.shape}",
            mend="give a vector or a matrix",
        )
    return _diag(x, offset=operator.index(k))


def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """Return the matrix with the flattened `v` on a diagonal."""
    x = as_array(v)
    return diag(reshape(x, (x.size,)), k)


@compound
def _diag(x: Array, *, offset: int) -> Array:
    padding = (max(-offset, 0), max(offset, 0))
    zero = scalar(0, x.dtype)
    # Element i of the vector is in row i (offset >= 0) or column i: spread along the other.
    size = x.size + abs(offset)
    padded = apply(ops.pad, x, zero, low=(padding[0],), high=(padding[1],), interior=(0,))
    rows = apply(ops.broadcast_in_dim, padded, shape=(size, size), dimensions=(0,))
    return select(_on_diagonal((size, size), offset, "EQ"), rows, full_like(rows, 0))


def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """Return the diagonals of the matrices along two axes.

    Parameters
    ----------
    a : array_like
        At least two axes.
    offset : int
        Which diagonal; positive ones are above the main one.
    axis1, axis2 : int
        Rows and columns.

    Returns
    -------
    Array
        Without the two axes, the diagonal along a new last one.
    """
    x = as_array(a)
    if x.ndim < 2 or len(normalize_axes((axis1, axis2), x.ndim)) < 2:
        raise ShapeError(
            f"diagonal needs two axes, got shape {x.shape}", mend="give at least two axes"
        )
    return _diagonal(moveaxis(x, (axis1, axis2), (-2, -1)), offset=operator.index(offset))


@compound
def _diagonal(x: Array, *, offset: int) -> Array:
    rows, columns = x.shape[-2:]
    first = offset if offset >= 0 else -offset * columns
    count = max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))
    flat = reshape(x, (*x.shape[:-2], rows * columns))
    limit = first + (count - 1) * (columns + 1) + 1 if count else first
    lead = flat.ndim - 1
    return apply(
        ops.slice,
        flat,
        start=(*(0,) * lead, min(first, rows * columns) if count else 0),
        limit=(*flat.shape[:-1], limit if count else 0),
        strides=(*(1,) * lead, columns + 1),
    )


def trace(
    a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None
) -> Array:
    """Return the sums of the diagonals; see `diagonal` and `numpy.trace`."""
    return sum(diagonal(a, offset, axis1, axis2), -1, dtype)
