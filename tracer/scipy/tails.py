"""Logarithms of probabilities close to 0 and to 1, with all their digits."""

from __future__ import annotations

import math

import tracer.numpy as tnp
from tracer.array.array import Array
from tracer.scipy.choice import choose


def log1mexp(x: Array) -> Array:
    """Return log(1 - exp(-x)) of floats: one of two forms, each where it keeps its digits.

    References
    ----------
    Mächler, Accurately Computing log(1 - exp(-|a|)), 2012.
    """
    is_small = x < math.log(2)
    low, high = choose(is_small, x, 0.5), choose(is_small, 1, x)
    return choose(is_small, tnp.log(-tnp.expm1(-low)), tnp.log1p(-tnp.exp(-high)))


def log_of_share(share: Array, rest: Array) -> Array:
    """Return the logarithm of a probability, from the other one where it is close to 1."""
    is_large = share > 0.5
    near_one = tnp.log1p(-choose(is_large, rest, 0))
    return choose(is_large, near_one, tnp.log(choose(is_large, 1, share)))


def log_of_one_and_square(x: Array) -> Array:
    """Return log(1 + x^2), also where the square overflows."""
    size = abs(x)
    is_far = size > math.sqrt(float(tnp.finfo(x.dtype).max)) / 4
    near = tnp.log1p(choose(is_far, 0, x) ** 2)
    return choose(is_far, 2 * tnp.log(choose(is_far, size, 1)), near)
