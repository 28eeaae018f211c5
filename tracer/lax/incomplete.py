"""Incomplete gamma and beta functions, and zeta. Like all of `lax` they convert nothing."""

from __future__ import annotations

from tracer.array.array import Array, ArrayLike
from tracer.errors import DTypeError
from tracer.lax.operands import of_one_dtype, spread
from tracer.scipy import special


def _floats(name: str, *values: ArrayLike) -> list[Array]:
    arrays = spread(name, *of_one_dtype(name, *values))
    if arrays[0].dtype.kind in "biuc":
        raise DTypeError(f"lax.{name} of {arrays[0].type}", mend="give floats")
    return arrays


def igamma(a: ArrayLike, x: ArrayLike) -> Array:
    """Regularised lower incomplete gamma function; see `tracer.scipy.special.gammainc`."""
    return special.gammainc(*_floats("igamma", a, x))


def igammac(a: ArrayLike, x: ArrayLike) -> Array:
    """Regularised upper incomplete gamma function; see `tracer.scipy.special.gammaincc`."""
    return special.gammaincc(*_floats("igammac", a, x))


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Regularised incomplete beta function; see `tracer.scipy.special.betainc`."""
    return special.betainc(*_floats("betainc", a, b, x))


def zeta(x: ArrayLike, q: ArrayLike) -> Array:
    """Hurwitz's zeta function; see `tracer.scipy.special.zeta`."""
    return special.zeta(*_floats("zeta", x, q))
