"""Bessel functions of the first kind of whole orders, and Bernoulli's numbers.

References
----------
Miller's algorithm (DLMF 3.6 and 10.74), in ratios of neighbours, which do not overflow; when it
starts high enough, after Zhang and Jin, Computation of Special Functions, 1996, chapter 5.
"""

from __future__ import annotations

import math
from typing import Any

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, convert
from tracer.array.dispatch import compound
from tracer.autodiff.transforms import custom_jvp
from tracer.errors import ArgumentError
from tracer.ir import as_dtype
from tracer.ops.deferred import of_scipy
from tracer.scipy.choice import choose
from tracer.scipy.floats import floats
from tracer.scipy.iteration import repeat


def bernoulli(n: int) -> Array:
    """Return Bernoulli's numbers from 0 to n, the one of 1 being -1/2; see `scipy.special`.

    Parameters
    ----------
    n : int
        Not negative.
    """
    if n < 0:
        raise ArgumentError(f"bernoulli: n is {n}", mend="give 0 or more")
    return as_array(of_scipy("special.bernoulli")(n)[: n + 1])


def bessel_jn(z: ArrayLike, *, v: int, n_iter: int = 50) -> Array:
    """Bessel functions of the first kind, of the orders from 0 to v.

    Parameters
    ----------
    z : array_like
        Real numbers.
    v : int
        The highest order, below `n_iter`.
    n_iter : int
        The order from which the recurrence runs down.

    Returns
    -------
    Array of floats, shape (v + 1, ...)
        NaN where `n_iter` is too low for `z`: above 19.8 for 50, 29.6 in float32.

    Raises
    ------
    ArgumentError
        `v` is no order below `n_iter`.

    Notes
    -----
    Absolute errors, measured: 5e-16, in float32 1e-7. JAX has other numbers where `n_iter` is too
    low, and NaN at 0.

    Examples
    --------
    >>> import tracer.scipy.special as special
    >>> [round(float(x), 6) for x in special.bessel_jn(1.0, v=2)]
    [0.765198, 0.440051, 0.114903]
    """
    if not 0 <= v < n_iter:
        raise ArgumentError(
            f"bessel_jn: v is {v}, n_iter {n_iter}", mend="give an order, and a larger n_iter"
        )
    return _bessel(as_array(z), highest=int(v), start=int(n_iter))


@compound
def _bessel(z: Array, *, highest: int, start: int) -> Array:
    x = floats("bessel_jn", z)
    wide = convert(x, as_dtype("float32")) if x.dtype.itemsize < 4 else x
    return convert(_orders(highest, start, wide), x.dtype)


def _orders_of(highest: int, start: int, x: Array) -> Array:
    tiny = float(tnp.finfo(x.dtype).tiny)

    def ratio(order: Any, above: Any) -> Any:
        """Return J(order) / J(order - 1) from the next ratio."""
        bottom = 2 * order - x * above
        return x / choose(bottom == 0, tiny, bottom)

    def step(number: Any, above: Any, sums: Any) -> list[Any]:
        order = (number + highest + 1).astype(x.dtype)
        here = ratio(order, above)
        return [here, here * (_share(order) + sums)]

    def _share(order: Any) -> Any:
        return choose(order == 2 * tnp.floor(order / 2), 2, 0).astype(x.dtype)

    none = tnp.zeros_like(x)
    above, sums = repeat(start - highest, step, [none, none], reverse=True)
    ratios = []
    for order in range(highest, 0, -1):
        above = ratio(float(order), above)
        sums = above * ((0 if order % 2 else 2) + sums)
        ratios.append(above)
    rows = [1 / (1 + sums)]
    for one in reversed(ratios):
        rows.append(rows[-1] * one)
    return choose(_is_reached(x, start), tnp.stack(rows), tnp.nan)


def _is_reached(x: Array, start: int) -> Array:
    """Tell where J(start) is below the last digit: Stirling's formula for it."""
    digits = -math.log10(float(tnp.finfo(x.dtype).eps)) - 1
    size = tnp.maximum(abs(x), 1e-6)
    logarithm = 0.5 * math.log10(6.28 * start) - start * tnp.log10(1.36 * size / start)
    return logarithm > digits


_orders = custom_jvp(_orders_of, nondiff_argnums=(0, 1))


def _rule(highest: int, start: int, primals: Any, tangents: Any) -> Any:
    """Take J'(n) = (J(n - 1) - J(n + 1)) / 2, and -J(1) for 0."""
    (x,), (tangent,) = primals, tangents
    more = _orders(highest + 1, max(start, highest + 2), x)
    slopes = tnp.concatenate([-more[1:2], (more[:-2] - more[2:]) / 2])
    return _orders(highest, start, x), slopes * tangent


_orders.defjvp(_rule)


__all__ = ["bernoulli", "bessel_jn"]
