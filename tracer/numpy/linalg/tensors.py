"""Systems of equations whose matrix has more than two axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, reshape
from tracer.errors import ArgumentError, LinAlgError
from tracer.numpy.linalg.solving import inv, solve
from tracer.numpy.shaping import moveaxis


def tensorsolve(a: ArrayLike, b: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """Solve `tensordot(a, x, x.ndim) = b` for x.

    Parameters
    ----------
    a : array_like, shape b.shape + x.shape
        Coefficients; both shapes have the same product.
    b : array_like
        Right-hand side.
    axes : sequence of int, optional
        Axes of `a` that are moved to its end first.

    Returns
    -------
    Array
        The solution, of the shape of the last axes of `a`. Inside a traced function not finite
        where the equations are singular.

    Raises
    ------
    LinAlgError
        The shapes do not make a square matrix, or (concrete arrays) it is singular.

    Examples
    --------
    >>> import tracer.numpy as tnp
    >>> tnp.linalg.tensorsolve(tnp.eye(6).reshape(2, 3, 6), tnp.ones((2, 3)))
    Array([1., 1., 1., 1., 1., 1.])
    """
    left, right = as_array(a), as_array(b)
    if axes is not None:
        last = tuple(range(left.ndim - len(axes), left.ndim))
        left = moveaxis(left, tuple(axes), last)
    shape = left.shape[right.ndim :]
    size = math.prod(shape)
    if left.size != size**2 or right.size != size:
        raise LinAlgError(
            f"tensorsolve: a of shape {left.shape} is no square matrix for b of shape "
            f"{right.shape}",
            mend="give a of shape b.shape + x.shape, where both have the same product",
        )
    solution = solve(reshape(left, (size, size)), reshape(right, (size,)))
    return reshape(solution, shape)


def tensorinv(a: ArrayLike, ind: int = 2) -> Array:
    """Inverse for `tensordot`: `tensordot(tensorinv(a, ind), b, ind)` is `tensorsolve(a, b)`.

    Parameters
    ----------
    a : array_like
        Coefficients; the first `ind` sizes and the others have the same product.
    ind : int
        How many axes are the rows.

    Returns
    -------
    Array, shape a.shape[ind:] + a.shape[:ind]
        The inverse. Inside a traced function NaN where the matrix is singular.

    Raises
    ------
    LinAlgError
        The shape does not make a square matrix, or (concrete arrays) it is singular.
    ArgumentError
        `ind` is not positive.

    Examples
    --------
    >>> import tracer.numpy as tnp
    >>> tnp.linalg.tensorinv(tnp.eye(6).reshape(2, 3, 6)).shape
    (6, 2, 3)
    """
    x, count = as_array(a), int(ind)
    if count <= 0:
        raise ArgumentError(f"tensorinv: ind is {ind}", mend="give 1 or more axes")
    rows, columns = x.shape[:count], x.shape[count:]
    if math.prod(rows) != math.prod(columns):
        raise LinAlgError(
            f"tensorinv: an array of shape {x.shape} with ind={ind} is no square matrix",
            mend="the first ind sizes and the others need the same product",
        )
    inverse = inv(reshape(x, (math.prod(rows), math.prod(columns))))
    return reshape(inverse, (*columns, *rows))
