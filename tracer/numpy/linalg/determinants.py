"""Determinants, by LU decomposition."""

from __future__ import annotations

from typing import NamedTuple

from tracer import ops
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import broadcast, convert
from tracer.array.dispatch import apply, apply_many, compound
from tracer.numpy.arithmetic import absolute, sign
from tracer.numpy.elementwise import log
from tracer.numpy.linalg.checks import (
    square_matrices,
)
from tracer.numpy.matrices import diagonal
from tracer.numpy.ranges import iota
from tracer.numpy.reductions import prod, reduce, sum
from tracer.numpy.ufunc import compare, full_like, select


class SlogdetResult(NamedTuple):
    """What `slogdet` returns."""

    sign: Array
    logabsdet: Array


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
    The gradient is right at singular matrices too, but NaN for more than three rows where a pivot
    before the last is exactly zero. Where determinants over- or underflow, use `slogdet`.
    """
    return apply(ops.determinant, square_matrices("det", a))


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
