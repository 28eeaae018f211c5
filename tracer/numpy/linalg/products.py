"""Products of vectors and matrices that live in `linalg` only."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from tracer.arguments import is_index
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, as_arrays, broadcast, normalize_axis, reshape
from tracer.array.placement import beside_arguments
from tracer.errors import ArgumentError, LinAlgError, ShapeError
from tracer.numpy import contraction, matrices
from tracer.numpy.contraction import matmul
from tracer.numpy.joining import stack
from tracer.numpy.linalg.solving import inv
from tracer.numpy.reductions import refuse_out
from tracer.numpy.shaping import moveaxis


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """Return the diagonals of the matrices of the last two axes; see `numpy.linalg.diagonal`."""
    return matrices.diagonal(x, offset, -2, -1)


def trace(x: ArrayLike, /, *, offset: int = 0, dtype: Any = None) -> Array:
    """Return the traces of the matrices of the last two axes; see `numpy.linalg.trace`."""
    return matrices.trace(x, offset, -2, -1, dtype)


def outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Outer product of two vectors.

    Parameters
    ----------
    x1, x2 : array_like, shapes (n,) and (m,)
        Vectors.

    Returns
    -------
    Array, shape (n, m)
        The products of all pairs.

    Raises
    ------
    ShapeError
        An operand is no vector (`tracer.numpy.outer` would flatten it).
    """
    first, second = as_arrays(x1, x2)
    if first.ndim != 1 or second.ndim != 1:
        raise ShapeError(
            f"outer takes vectors, got shapes {first.shape} and {second.shape}",
            mend="flatten them with ravel, or use tracer.numpy.outer",
        )
    return contraction.outer(first, second)


def tensordot(
    x1: ArrayLike, x2: ArrayLike, /, *, axes: int | Sequence[int | Sequence[int]] = 2
) -> Array:
    """Tensor product summed over axes; see `tracer.numpy.tensordot`."""
    return contraction.tensordot(x1, x2, axes)


def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """Cross product of vectors of three elements.

    Parameters
    ----------
    x1, x2 : array_like
        Vectors along `axis`, broadcast together.
    axis : int
        The axis of the vectors.

    Returns
    -------
    Array
        The products, along the same axis.

    Raises
    ------
    ShapeError
        The vectors do not have three elements.
    """
    first, second = as_arrays(x1, x2)
    for x in (first, second):
        if x.shape[normalize_axis(axis, x.ndim)] != 3:
            raise ShapeError(
                f"cross takes vectors of 3 elements, got shapes {first.shape} and {second.shape}",
                mend="name the axis of size 3 with axis=",
            )
    x, y = (moveaxis(v, axis, -1) for v in (first, second))
    terms = [x[..., i] * y[..., j] - x[..., j] * y[..., i] for i, j in ((1, 2), (2, 0), (0, 1))]
    return moveaxis(stack(terms, -1), -1, axis)


@beside_arguments
def matrix_power(a: ArrayLike, n: int) -> Array:
    """Raise square matrices to an integer power.

    Parameters
    ----------
    a : array_like, shape (..., m, m)
        Matrices.
    n : int
        The exponent; a negative one takes the inverse first.

    Returns
    -------
    Array, shape (..., m, m)
        By repeated squaring; the dtype of `a`, floats for a negative exponent of integers.

    Raises
    ------
    LinAlgError
        The matrices are not square, or (concrete arrays, negative `n`) one is singular.
    ArgumentError
        The exponent is no integer.
    """
    x = as_array(a)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise LinAlgError(
            f"matrix_power needs square matrices, got shape {x.shape}",
            mend="give an array of shape (..., n, n)",
        )
    if not is_index(n):
        raise ArgumentError(f"matrix_power: the exponent is {n!r}", mend="give an integer")
    exponent = n.__index__()
    if exponent == 0:
        return broadcast(matrices.eye(x.shape[-1], dtype=x.dtype), x.shape)
    square, rest = (inv(x), -exponent) if exponent < 0 else (x.copy(), exponent)
    factors = []
    while rest:
        if rest & 1:
            factors.append(square)
        rest >>= 1
        if rest:
            square = matmul(square, square)
    return functools.reduce(matmul, factors)


def multi_dot(arrays: Sequence[ArrayLike], *, out: None = None) -> Array:
    """Product of several matrices, in the order of least work.

    Parameters
    ----------
    arrays : sequence of array_like
        Two or more matrices; the first and the last one may be vectors.
    out : None
        Not supported.

    Returns
    -------
    Array
        The product.

    Raises
    ------
    ArgumentError
        There are fewer than two arrays.
    LinAlgError
        One is no matrix.

    References
    ----------
    Cormen, Leiserson, Rivest & Stein, "Introduction to Algorithms", chapter 15.2: matrix chains.
    """
    refuse_out(out)
    chain = list(as_arrays(*arrays))
    if len(chain) < 2:
        raise ArgumentError(
            f"multi_dot needs two arrays or more, got {len(chain)}", mend="give two or more"
        )
    is_row, is_column = chain[0].ndim == 1, chain[-1].ndim == 1
    if is_row:
        chain[0] = reshape(chain[0], (1, chain[0].size))
    if is_column:
        chain[-1] = reshape(chain[-1], (chain[-1].size, 1))
    if any(x.ndim != 2 for x in chain):
        shown = ", ".join(str(x.shape) for x in chain)
        raise LinAlgError(
            f"multi_dot does not fit shapes {shown}",
            mend="give matrices, and vectors at the ends only",
        )
    result = _product(chain, _best_cuts(chain), 0, len(chain) - 1)
    kept = [size for size, flat in zip(result.shape, (is_row, is_column), strict=True) if not flat]
    return reshape(result, tuple(kept))


def _best_cuts(chain: Sequence[Array]) -> dict[tuple[int, int], int]:
    """Return for each part of the chain where to cut it in two."""
    sizes = [x.shape[0] for x in chain] + [chain[-1].shape[1]]
    work = {(i, i): 0 for i in range(len(chain))}
    cuts: dict[tuple[int, int], int] = {}
    for length in range(1, len(chain)):
        for first in range(len(chain) - length):
            last = first + length
            costs = {
                cut: work[first, cut]
                + work[cut + 1, last]
                + sizes[first] * sizes[cut + 1] * sizes[last + 1]
                for cut in range(first, last)
            }
            cuts[first, last] = min(costs, key=costs.__getitem__)
            work[first, last] = costs[cuts[first, last]]
    return cuts


def _product(
    chain: Sequence[Array], cuts: dict[tuple[int, int], int], first: int, last: int
) -> Array:
    if first == last:
        return chain[first]
    cut = cuts[first, last]
    return matmul(_product(chain, cuts, first, cut), _product(chain, cuts, cut + 1, last))
