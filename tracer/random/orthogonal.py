"""Random matrices with orthonormal columns."""

from __future__ import annotations

from typing import Any

from tracer.array.array import Array, ArrayLike
from tracer.numpy.creation import checked_shape
from tracer.numpy.matrices import diagonal
from tracer.random.continuous import normal
from tracer.scipy.linalg import qr


def orthogonal(
    key: ArrayLike, n: int, shape: Any = (), dtype: Any = float, m: int | None = None
) -> Array:
    """Return matrices with orthonormal columns or rows, all equally likely.

    Parameters
    ----------
    key : Array of uint32, shape (2,)
        The key.
    n : int
        How many rows.
    shape : int or tuple of int
        How many matrices.
    dtype : dtype
        A float or complex dtype.
    m : int, optional
        How many columns; `n` by default.

    Returns
    -------
    Array, shape (*shape, n, m)
        The columns are orthonormal, or the rows where there are more columns.

    References
    ----------
    Mezzadri, How to Generate Random Matrices from the Classical Compact Groups, 2007.

    Examples
    --------
    >>> import tracer
    >>> q = tracer.random.orthogonal(tracer.random.key(0), 3)
    >>> bool(abs(q @ q.T - tracer.numpy.eye(3)).max() < 1e-12)
    True
    """
    columns = n if m is None else m
    sizes = (*checked_shape(shape), max(n, columns), min(n, columns))
    q, r = qr(normal(key, sizes, dtype), mode="economic")
    # The signs of R's diagonal are LAPACK's choice; without them all matrices are equally likely.
    ends = diagonal(r, 0, -2, -1)
    q = q * (ends / abs(ends))[..., None, :]
    return q if n >= columns else q.mT
