"""Structured matrices."""

from __future__ import annotations

from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, as_arrays, broadcast, broadcast_shape, convert
from tracer.errors import ShapeError
from tracer.numpy.creation import zeros
from tracer.numpy.elementwise import conjugate
from tracer.numpy.joining import concatenate
from tracer.numpy.ranges import arange
from tracer.numpy.shaping import atleast_2d, flip


def block_diag(*arrs: ArrayLike) -> Array:
    """Return the matrix with blocks on its diagonal and zeros elsewhere.

    Parameters
    ----------
    *arrs : array_like, shapes (..., m, n)
        The blocks; vectors count as one row. Batch axes are broadcast together.

    Returns
    -------
    Array
        In the promoted dtype; shape (1, 0) without any block.
    """
    if not arrs:
        return zeros((1, 0))
    blocks = [atleast_2d(x) for x in as_arrays(*arrs)]
    dtype = promotion.result_type(*blocks)
    batch = broadcast_shape("block_diag", *(x.shape[:-2] for x in blocks))
    width, before, rows = sum(x.shape[-1] for x in blocks), 0, []
    for x in blocks:
        m, n = x.shape[-2:]
        block = convert(broadcast(x, (*batch, m, n)), dtype)
        sides = [zeros((*batch, m, size), dtype) for size in (before, width - before - n)]
        rows.append(concatenate([sides[0], block, sides[1]], -1))
        before += n
    return concatenate(rows, -2)


def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """Return the matrix with constant diagonals.

    Parameters
    ----------
    c : array_like, shape (..., m)
        The first column.
    r : array_like, shape (..., n), optional
        The first row, whose first element is not read; the conjugate of `c` by default. Batch
        axes are broadcast together.

    Returns
    -------
    Array, shape (..., m, n)
        Element (i, j) is c[i - j] or r[j - i].

    Raises
    ------
    ShapeError
        An operand is a number, or the batch axes do not fit.
    """
    column = as_array(c)
    row = conjugate(column) if r is None else as_array(r)
    if not column.ndim or not row.ndim:
        raise ShapeError(
            f"toeplitz takes vectors, got shapes {column.shape} and {row.shape}",
            mend="give an axis with reshape",
        )
    m, n = column.shape[-1], row.shape[-1]
    batch = broadcast_shape("toeplitz", column.shape[:-1], row.shape[:-1])
    column, row = broadcast(column, (*batch, m)), broadcast(row, (*batch, n))
    values = concatenate([flip(column, -1), row[..., 1:]], -1)
    places = arange(m - 1, -1, -1)[:, None] + arange(n)
    return values[..., places]
