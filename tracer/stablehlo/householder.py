"""Householder reflections as LAPACK makes and applies them, column by column.

Sources: LAPACK's larfg, geqr2 and org2r (ung2r). `ops.qr` calls the blocked routines; this is for
programs that look at the reflectors themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tracer.numpy as tnp
from tracer.array.array import Array
from tracer.autodiff.transforms import vmap
from tracer.control import fori_loop
from tracer.stablehlo.elements import conjugate


def reflectors(a: Array) -> tuple[Array, Array]:
    """Return R with the reflectors below its diagonal, and their scales, of the last two axes."""
    return _of_matrices(_reflectors, a.ndim)(a)  # type: ignore[no-any-return]


def product(packed: Array, scales: Array) -> Array:
    """Return the product of reflections: as many columns as the matrix of reflectors has."""
    return _of_matrices(_product, packed.ndim)(packed, scales)  # type: ignore[no-any-return]


def _of_matrices(function: Callable[..., Any], ndim: int) -> Any:
    for _ in range(ndim - 2):
        function = vmap(function)
    return function


def _reflectors(a: Array) -> tuple[Array, Array]:
    rows, columns = (tnp.arange(n) for n in a.shape)
    count = min(a.shape)

    def step(k: Any, carry: Any) -> Any:
        packed, scales = carry
        column = packed[:, k]
        alpha, is_below = column[k], rows > k
        rest = tnp.where(is_below, column, 0)
        tau, beta, divisor = _reflection(alpha, tnp.sum(tnp.real(rest * conjugate(rest))))
        v = tnp.where(is_below, column / divisor, tnp.where(rows == k, tnp.ones_like(column), 0))
        along = tnp.where(columns > k, conjugate(v) @ packed, 0)
        packed = packed - conjugate(tau) * v[:, None] * along
        stored = tnp.where(is_below, v, tnp.where(rows == k, beta, column))
        packed = tnp.where(columns == k, stored[:, None], packed)
        return packed, tnp.where(tnp.arange(count) == k, tau, scales)

    start = a, tnp.zeros(count, a.dtype)
    return fori_loop(0, count, step, start)  # type: ignore[no-any-return]


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


def _product(packed: Array, scales: Array) -> Array:
    rows = tnp.arange(packed.shape[0])
    count = scales.shape[0]

    def step(number: Any, q: Any) -> Any:
        k = count - 1 - number
        column = packed[:, k]
        v = tnp.where(rows > k, column, tnp.where(rows == k, tnp.ones_like(column), 0))
        return q - scales[k] * v[:, None] * (conjugate(v) @ q)

    start = tnp.eye(packed.shape[0], packed.shape[1], dtype=packed.dtype)
    return fori_loop(0, count, step, start)  # type: ignore[no-any-return]
