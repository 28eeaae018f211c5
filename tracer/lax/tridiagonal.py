"""Solutions of tridiagonal systems, by elimination with exchanges of neighbouring rows."""

from __future__ import annotations

from typing import Any

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.autodiff.transforms import vmap
from tracer.control import scan
from tracer.errors import ShapeError
from tracer.lax.operands import of_one_dtype


def tridiagonal_solve(dl: ArrayLike, d: ArrayLike, du: ArrayLike, b: ArrayLike) -> Array:
    """Solve A x = b for tridiagonal matrices.

    Parameters
    ----------
    dl, d, du : array_like, shape (..., n)
        The diagonals: ``dl[i] = A[i, i - 1]``, ``d[i] = A[i, i]``, ``du[i] = A[i, i + 1]``. The
        first of `dl` and the last of `du` are not read.
    b : array_like, shape (..., n, k)
        Right sides.

    Returns
    -------
    Array, shape (..., n, k)
        The solutions. Elements that are infinite or NaN where a matrix is singular.

    Raises
    ------
    ShapeError, DTypeError
        Shapes that do not fit, or several dtypes.

    Notes
    -----
    A loop down the rows and one up, of n steps each: rows that depend on each other. It keeps three
    diagonals, and a copy of `b`. Its derivatives are those of the steps. Source: LAPACK's gtsv.

    Examples
    --------
    >>> import tracer
    >>> import numpy as np
    >>> ones, b = np.ones(3), np.array([[5.0], [6.0], [5.0]])
    >>> x = tracer.lax.linalg.tridiagonal_solve(ones, 4 * ones, ones, b)
    >>> [round(float(row), 12) for row in x[:, 0]]
    [1.0, 1.0, 1.0]
    """
    lower, diagonal, upper, right = of_one_dtype("linalg.tridiagonal_solve", dl, d, du, b)
    shape = right.shape[:-1]
    if right.ndim < 2 or {lower.shape, diagonal.shape, upper.shape} != {shape}:
        shapes = ", ".join(str(x.shape) for x in (lower, diagonal, upper, right))
        raise ShapeError(
            f"lax.linalg.tridiagonal_solve of shapes {shapes}",
            mend="give three diagonals of shape (..., n) and b of shape (..., n, k)",
        )
    if 0 in right.shape:
        return right
    solve = _solve
    for _ in shape[:-1]:
        solve = vmap(solve)
    return solve(lower, diagonal, upper, right)


def _solve(lower: Array, diagonal: Array, upper: Array, b: Array) -> Array:
    """Carry the row that is not eliminated yet: its three elements and its right side."""
    where, zero = tnp.where, tnp.zeros_like(diagonal[0])

    def down(carry: Any, row: Any) -> Any:
        (d, u), right = carry
        below, here, above, other = row
        swap = abs(below) > abs(d)
        pivot = where(swap, below, d), where(swap, here, u), where(swap, above, zero)
        factor = where(swap, d, below) / pivot[0]
        second = where(swap, u, here) - factor * pivot[1]
        third = where(swap, zero, above) - factor * pivot[2]
        kept, rest = where(swap, other, right), where(swap, right, other)
        return ((second, third), rest - factor * kept), (*pivot, kept)

    def up(carry: Any, row: Any) -> Any:
        following, next_but_one = carry
        d, u, u2, right = row
        x = (right - u * following - u2 * next_but_one) / d
        return (x, following), x

    ends_here = tnp.arange(len(upper)) == len(upper) - 1
    upper = where(ends_here, zero, upper)
    first = (diagonal[0], upper[0]), b[0]
    ((d, _), right), pivots = scan(down, first, (lower[1:], diagonal[1:], upper[1:], b[1:]))
    last = right / d
    _, found = scan(up, (last, tnp.zeros_like(last)), pivots, reverse=True)
    return tnp.concatenate([found, last[None]])


__all__ = ["tridiagonal_solve"]
