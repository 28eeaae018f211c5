"""Householder reflections as LAPACK makes and applies them, column by column.

Sources: LAPACK's larfg, geqr2, laqp2, org2r (ung2r), orm2r (unm2r), gehd2 and sytd2 (hetd2).
`ops.qr` calls the blocked routines; this is for programs that look at the reflectors themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tracer.numpy as tnp
from tracer.array.array import Array
from tracer.autodiff.transforms import stop_gradient, vmap
from tracer.numpy.elementwise import conjugate
from tracer.scipy.iteration import repeat


def reflectors(a: Array) -> tuple[Array, Array]:
    """Return R with the reflectors below its diagonal, and their scales, of the last two axes."""
    return _of_matrices(_reflectors, a.ndim)(a)  # type: ignore[no-any-return]


def pivoted_reflectors(a: Array, comes_first: Array) -> tuple[Array, Array, Array]:
    """Return R with the reflectors below its diagonal, the columns that it has, and the scales.

    Each column is the one of which most is left, after those that `comes_first` marks.
    """
    factor = _of_matrices(_pivoted_reflectors, a.ndim)
    return factor(a, comes_first)  # type: ignore[no-any-return]


def pivoted(a: Array) -> tuple[Array, Array]:
    """Return the columns in the order in which QR with pivoting takes them, and the order, int32.

    The order has no derivative.
    """
    none = tnp.zeros((*a.shape[:-2], a.shape[-1]), bool)
    order = pivoted_reflectors(stop_gradient(a), none)[1]
    moved = tnp.take_along_axis(a, order[..., None, :], axis=-1)
    return moved, order.astype("int32")


def product(packed: Array, scales: Array) -> Array:
    """Return the product of reflections: as many columns as the matrix of reflectors has."""
    return _of_matrices(_product, packed.ndim)(packed, scales)  # type: ignore[no-any-return]


def applied(packed: Array, scales: Array, c: Array, *, left: bool, transpose: bool) -> Array:
    """Return Q c (c Q), or Q^H c (c Q^H) for `transpose`, Q being the product of reflections."""

    def one(packed: Array, scales: Array, c: Array) -> Array:
        return _applied(packed, scales, c, left=left, transpose=transpose)

    return _of_matrices(one, packed.ndim)(packed, scales, c)  # type: ignore[no-any-return]


def hessenberg_reflectors(a: Array) -> tuple[Array, Array]:
    """Return H with the reflectors below its subdiagonal, and their scales."""
    return _of_matrices(_hessenberg, a.ndim)(a)  # type: ignore[no-any-return]


def tridiagonal_reflectors(a: Array, *, lower: bool) -> tuple[Array, Array, Array, Array]:
    """Return T with the reflectors in one triangle, its diagonal, what is beside it, the scales.

    Of Hermitian matrices, of which one triangle is read. The other stays as it was.
    """
    function = _lower_tridiagonal if lower else _upper_tridiagonal
    return _of_matrices(function, a.ndim)(a)  # type: ignore[no-any-return]


def _of_matrices(function: Callable[..., Any], ndim: int) -> Any:
    for _ in range(ndim - 2):
        function = vmap(function)
    return function


def _reflectors(a: Array) -> tuple[Array, Array]:
    rows, columns = (tnp.arange(n) for n in a.shape)
    count = min(a.shape)

    def step(k: Array, packed: Array, scales: Array) -> Any:
        return _cleared(packed, scales, k, rows, columns)

    packed, scales = repeat(count, step, (a, tnp.zeros(count, a.dtype)))
    return packed, scales


def _cleared(
    packed: Array, scales: Array, k: Array, rows: Array, columns: Array
) -> tuple[Array, Array]:
    """Clear column k below the diagonal with a reflection of the columns from there on."""
    v, tau, stored = _reflector(packed[:, k], rows, k)
    along = tnp.where(columns > k, conjugate(v) @ packed, 0)
    packed = packed - conjugate(tau) * v[:, None] * along
    packed = tnp.where(columns == k, stored[:, None], packed)
    return packed, tnp.where(tnp.arange(scales.shape[0]) == k, tau, scales)


def _pivoted_reflectors(a: Array, comes_first: Array) -> tuple[Array, Array, Array]:
    rows, columns = (tnp.arange(n) for n in a.shape)
    order, pinned = _marked_first(columns, comes_first)
    count = min(a.shape)

    def step(k: Array, packed: Array, order: Array, scales: Array) -> Any:
        rest = tnp.where(rows[:, None] >= k, packed, 0)
        norms = tnp.where(columns >= k, tnp.linalg.norm(rest, axis=0), -1)
        exchanged = _exchanged(columns, k, tnp.where(k < pinned, k, tnp.argmax(norms)))
        packed, order = packed[:, exchanged], order[exchanged]
        packed, scales = _cleared(packed, scales, k, rows, columns)
        return packed, order, scales

    start = a[:, order], order, tnp.zeros(count, a.dtype)
    packed, order, scales = repeat(count, step, start)
    return packed, order, scales


def _marked_first(columns: Array, marks: Array) -> tuple[Array, Array]:
    """Exchange each marked column with the first that is not, as geqp3 does; and count them."""

    def step(k: Array, order: Array, count: Array) -> Any:
        moved = order[_exchanged(columns, k, count)]
        return tnp.where(marks[k], moved, order), count + marks[k]

    order, count = repeat(columns.shape[0], step, (columns, tnp.zeros((), columns.dtype)))
    return order, count


def _exchanged(places: Array, one: Array, other: Array) -> Array:
    inner = tnp.where(places == other, one, places)
    return tnp.where(places == one, other, inner)  # type: ignore[no-any-return]


def _lower_tridiagonal(a: Array) -> tuple[Array, Array, Array, Array]:
    below = tnp.tril(a, -1)
    middle = tnp.real(tnp.diagonal(a)).astype(a.dtype)
    packed, scales = _hessenberg(below + conjugate(below.T) + tnp.diag(middle))
    beside = tnp.real(tnp.diagonal(packed, -1))
    found = tnp.tril(packed) + tnp.triu(a, 1)
    return found, tnp.real(tnp.diagonal(packed)), beside, scales


def _upper_tridiagonal(a: Array) -> tuple[Array, Array, Array, Array]:
    """Reduce the matrix with its rows and columns in reverse, whose lower triangle is read."""
    packed, *found = _lower_tridiagonal(a[::-1, ::-1])
    diagonal, beside, scales = (x[::-1] for x in found)
    return packed[::-1, ::-1], diagonal, beside, scales


def _hessenberg(a: Array) -> tuple[Array, Array]:
    n = a.shape[-1]
    places, count = tnp.arange(n), max(n - 1, 0)

    def step(k: Array, packed: Array, scales: Array) -> Any:
        v, tau, stored = _reflector(packed[:, k], places, k + 1)
        packed = packed - tau * (packed @ v)[:, None] * conjugate(v)
        along = tnp.where(places > k, conjugate(v) @ packed, 0)
        packed = packed - conjugate(tau) * v[:, None] * along
        packed = tnp.where(places == k, stored[:, None], packed)
        return packed, tnp.where(tnp.arange(count) == k, tau, scales)

    packed, scales = repeat(count, step, (a, tnp.zeros(count, a.dtype)))
    return packed, scales


def _reflector(column: Array, rows: Array, first: Array) -> tuple[Array, Array, Array]:
    """Return the vector and the scale that clear a column below a row, and what is stored."""
    is_below, is_first = rows > first, rows == first
    rest = tnp.where(is_below, column, 0)
    squares = tnp.sum(tnp.real(rest * conjugate(rest)))
    tau, beta, divisor = _reflection(column[first], squares)
    v = tnp.where(is_below, column / divisor, tnp.where(is_first, tnp.ones_like(column), 0))
    return v, tau, tnp.where(is_below, v, tnp.where(is_first, beta, column))


def _reflection(alpha: Array, rest: Array) -> tuple[Array, Array, Array]:
    """Return the scale, what the element becomes, and what those below are divided by."""
    real, dtype = tnp.real(alpha), alpha.dtype
    is_identity = rest == 0
    if dtype.kind == "c":
        is_identity = is_identity & (tnp.imag(alpha) == 0)
    size = tnp.sqrt(tnp.where(is_identity, 1, tnp.real(alpha * conjugate(alpha)) + rest))
    beta = -tnp.copysign(size, real)
    tau = (beta - alpha) / beta
    divisor = alpha - beta
    one, zero = tnp.ones((), dtype), tnp.zeros((), dtype)
    return (
        tnp.where(is_identity, zero, tau.astype(dtype)),
        tnp.where(is_identity, alpha, beta.astype(dtype)),
        tnp.where(is_identity, one, divisor.astype(dtype)),
    )


def _applied(packed: Array, scales: Array, c: Array, *, left: bool, transpose: bool) -> Array:
    rows = tnp.arange(packed.shape[0])

    def step(k: Array, c: Array) -> Any:
        column = packed[:, k]
        v = tnp.where(rows > k, column, tnp.where(rows == k, tnp.ones_like(column), 0))
        tau = conjugate(scales[k]) if transpose else scales[k]
        if left:
            return (c - tau * v[:, None] * (conjugate(v) @ c),)
        return (c - tau * (c @ v)[:, None] * conjugate(v),)

    return repeat(scales.shape[0], step, (c,), reverse=left != transpose)[0]


def _product(packed: Array, scales: Array) -> Array:
    one = tnp.eye(packed.shape[0], packed.shape[1], dtype=packed.dtype)
    return _applied(packed, scales, one, left=True, transpose=False)
