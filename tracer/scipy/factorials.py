"""The gamma function and what is made of it: factorials, binomial coefficients, zeta."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import tracer.numpy as tnp
from tracer import ops
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array
from tracer.array.dispatch import apply, compound
from tracer.autodiff.transforms import custom_jvp, jvp
from tracer.errors import ArgumentError
from tracer.numpy.ufunc import binary, unary
from tracer.scipy.beta_function import log_beta
from tracer.scipy.choice import choose
from tracer.scipy.floats import floats, floats_together, in_float32


def _gammasgn(x: Array) -> Array:
    x = floats("gammasgn", x)
    floor = tnp.floor(x)
    is_even = floor == 2 * tnp.floor(floor / 2)
    sign = choose(is_even, 1.0, -1.0).astype(x.dtype)
    positive = choose(x == 0, tnp.copysign(1, x), 1).astype(x.dtype)
    negative = choose((x == floor) | (x == -tnp.inf), tnp.nan, sign)
    return choose(x >= 0, positive, choose(x != x, x, negative))


def _gamma(x: Array) -> Array:
    return _signed_exponential(floats("gamma", x))


@in_float32
def _signed_exponential(x: Array) -> Array:
    return _gammasgn(x) * tnp.exp(apply(ops.lgamma, x))


def _loggamma(x: Array) -> Array:
    x = floats("loggamma", x)
    return choose(x < 0, tnp.nan, apply(ops.lgamma, x))


_FLOATS = "Floats."
gammasgn = unary("gammasgn", _gammasgn, "Sign of the gamma function.", returns=_FLOATS)
gamma = unary("gamma", _gamma, "The gamma function; NaN at its poles below 0.", returns=_FLOATS)
loggamma = unary(
    "loggamma", _loggamma, "Logarithm of gamma; NaN for negative numbers.", returns=_FLOATS
)


def _beta(x: Array, y: Array) -> Array:
    x, y = floats_together("beta", x, y)
    sign = _gammasgn(x) * _gammasgn(y) * _gammasgn(x + y)
    # At a pole of gamma(x) it is finite where gamma(x + y) has one and gamma(y) does not.
    is_first = _is_pole(x)
    pole, other = choose(is_first, x, y), choose(is_first, y, x)
    rest = 1 - pole - other
    finite = (rest > 0) & (other > 0) & (other == tnp.floor(other))
    safe, above = choose(finite, other, 1), choose(finite, rest, 1)
    # Of two poles SciPy gives infinity the sign of the limit along y.
    infinity = choose(is_first & _is_pole(y), _parity(y) * tnp.inf, tnp.inf)
    turned = choose(finite, _parity(safe) * tnp.exp(log_beta(above, safe)), infinity)
    at_pole = is_first | _is_pole(y)
    value = sign * tnp.exp(log_beta(choose(at_pole, 1, x), choose(at_pole, 1, y)))
    value = choose(at_pole, turned, choose(_sum_is_pole(x, y), 0, value))
    return choose((x != x) | (y != y), tnp.nan, value)


def _is_pole(x: Array) -> Array:
    """Tell where the gamma function has a pole."""
    return (x <= 0) & (x == tnp.floor(x))


def _sum_is_pole(x: Array, y: Array) -> Array:
    """Tell where gamma(x + y) has a pole, not only after rounding."""
    shares = (x - tnp.floor(x)) + (y - tnp.floor(y))
    return _is_pole(x + y) & (shares == tnp.floor(shares))


def _parity(n: Array) -> Array:
    """Return 1 for even and -1 for odd whole numbers."""
    return choose(n == 2 * tnp.floor(n / 2), 1, -1).astype(n.dtype)


def _poch(x: Array, y: Array) -> Array:
    x, y = floats_together("poch", x, y)
    sign = _gammasgn(x) * _gammasgn(x + y)
    # Of positive numbers by the beta function: the difference has no digits of large ones. Down
    # from x by y it is the inverse of that up to x.
    is_up = y > 0
    lower = choose(is_up, x, x + y)
    both = (lower > 0) & (y != 0)
    above, more = choose(both, lower, 1), choose(both, abs(y), 1)
    difference = choose(both, 1, apply(ops.lgamma, x + y) - apply(ops.lgamma, x))
    rising = apply(ops.lgamma, more) - log_beta(above, more)
    logarithm = choose(both, choose(is_up, rising, -rising), difference)
    # Poles: infinite above, 0 below, and by the reflection formula where both are at one.
    above, below = _sum_is_pole(x, y), _is_pole(x)
    turned = above & below & (y == tnp.floor(y))
    start, end = choose(turned, 1 - x, 1), choose(turned, 1 - x - y, 1)
    reflected = apply(ops.lgamma, start) - apply(ops.lgamma, end)
    finite = choose(turned, _parity(choose(turned, y, 0)) * tnp.exp(reflected), 0)
    poles = choose(below, choose(above, finite, 0), tnp.inf)
    safe = choose(above | below, 0, logarithm)
    value = choose(above | below, poles, sign * tnp.exp(safe))
    return choose(y == 0, 1, value)


beta = binary("beta", _beta, "The beta function.", returns=_FLOATS)
poch = binary("poch", _poch, "Gamma(x1 + x2) / gamma(x1), rising factorials.", returns=_FLOATS)


def factorial(n: ArrayLike, exact: bool = False) -> Array:
    """Return 1 * 2 * ... * n, as floats; 0 for negative numbers.

    Parameters
    ----------
    n : array_like
        Real numbers.
    exact : bool
        Not supported: integers overflow from 21 on.
    """
    _require_floats("factorial", exact)
    x = floats("factorial", as_array(n))
    return choose(x < 0, 0, _signed_exponential(choose(x < 0, 0, x) + 1))


def comb(N: ArrayLike, k: ArrayLike, exact: bool = False, repetition: bool = False) -> Array:  # noqa: N803 - SciPy's name
    """Return how many ways there are to choose k of N things.

    Parameters
    ----------
    N, k : array_like
        Real numbers, broadcast together.
    exact : bool
        Not supported: integers overflow.
    repetition : bool
        Things may be chosen several times.

    Returns
    -------
    Array of floats
        0 where k is negative or larger than N.
    """
    _require_floats("comb", exact)
    total, chosen = floats_together("comb", N, k)
    total = total + chosen - 1 if repetition else total
    inside = (chosen >= 0) & (total >= 0) & (chosen <= total)
    n, m = choose(inside, total, 1), choose(inside, chosen, 0)
    value = tnp.exp(-log_beta(m + 1, n - m + 1)) / (n + 1)
    # All or none of them in exactly one way; the gradient stays.
    one = 1 + (value - apply(ops.stop_gradient, value))
    return choose(inside, choose((m == 0) | (m == n), one, value), 0)


def _require_floats(name: str, exact: bool) -> None:
    if exact:
        raise ArgumentError(f"{name}: exact=True is not supported", mend="leave it out")


def multigammaln(a: ArrayLike, d: int) -> Array:
    """Logarithm of the multivariate gamma function.

    Parameters
    ----------
    a : array_like
        Real numbers above (d - 1) / 2.
    d : int
        The dimension, 1 or more.
    """
    if d < 1:
        raise ArgumentError(f"multigammaln: d is {d}", mend="give 1 or more")
    x = floats("multigammaln", as_array(a))
    steps = tnp.arange(d).astype(x.dtype) / 2
    logarithms = apply(ops.lgamma, x[..., None] - steps).sum(-1)
    return logarithms + d * (d - 1) / 4 * math.log(math.pi)


_TERMS = 10
"""Of the sum that are added one by one; the rest is an integral with corrections."""
_NO_TAIL = 1e4
"""From this exponent on the rest is 0; its square is still a number in float32."""
_BERNOULLI: tuple[float, ...] = (
    1 / 6,
    -1 / 30,
    1 / 42,
    -1 / 30,
    5 / 66,
    -691 / 2730,
    7 / 6,
    -3617 / 510,
)
_BERNOULLI += (43867 / 798, -174611 / 330, 854513 / 138, -236364091 / 2730)


def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Array:
    """Riemann's zeta function, or with `q` Hurwitz's: the sum of 1 / (n + q)^x from n = 0.

    Parameters
    ----------
    x : array_like
        Above 1; NaN below, infinite at 1.
    q : array_like, optional
        1 by default. Infinite at 0, -1, ...; at other negative numbers NaN unless `x` is whole.

    Returns
    -------
    Array of floats
        The sums.

    References
    ----------
    Euler and Maclaurin's formula, as in Cephes (Moshier 1989), zeta.c.
    """
    power, first = floats_together("zeta", x, 1.0 if q is None else q)
    return in_float32(_zeta)(power, first)


@custom_jvp
def _zeta(x: Array, q: Array) -> Array:
    at_pole = (x >= 1) & (q <= 0) & (q == tnp.floor(q))
    is_known = (x >= 1) & ((q > 0) | (x == tnp.floor(x)))
    value = choose(at_pole | ((x == 1) & (q == q)), tnp.inf, _everywhere(x, q))
    value = choose((q == tnp.inf) & (x > 1), 0, value)
    result: Array = choose(is_known | (x == 1), value, tnp.nan)
    return result


def _zeta_rule(primals: Any, tangents: Any) -> Any:
    """Differentiate the continued sum: JAX has derivatives below 1 too, where the sum diverges."""
    _, change = jvp(_everywhere, primals, tangents)
    return _zeta(*primals), change


_zeta.defjvp(_zeta_rule)


def _everywhere(x: Array, q: Array) -> Array:
    """Return the sum for negative q, too, where (-1)^x is a sign.

    With f = q - floor(q) the terms of n + q below 0 are those of zeta(x, 1 - f), up to -q.
    """
    is_negative = (q < 0) & (q != tnp.floor(q))
    share = choose(is_negative, q - tnp.floor(q), 0.5)
    total = _continued(x, choose(is_negative, share, q))
    sign = choose(x == 2 * tnp.floor(x / 2), 1, -1).astype(x.dtype)
    # In this order: of odd x and f = 1/2 the first two cancel.
    both = total + sign * _continued(x, 1 - share)
    both = both - sign * _continued(x, choose(is_negative, 1 - q, 1))
    result: Array = choose(is_negative, both, total)
    return result


@compound
def _continued(x: Array, q: Array) -> Array:
    """Return the sum, and below 1 its analytic continuation."""
    good = (x != 1) & (q > 0)
    s, first = choose(good, x, 2), choose(good, q, 1)
    total = sum((first + n) ** -s for n in range(1, _TERMS)) + first**-s
    end = first + _TERMS
    tail = end**-s
    total = total + tail * end / (s - 1) + tail / 2
    factor = choose(s > _NO_TAIL, _NO_TAIL, s)
    term = factor * tail / end
    for n, number in enumerate(_BERNOULLI, 1):
        total = total + number / math.factorial(2 * n) * term
        term = term * ((factor + 2 * n - 1) / end) * ((factor + 2 * n) / end)
    value = choose(good, total, tnp.nan)
    return choose((x == 1) & (q > 0), tnp.inf, value)


def polygamma(n: ArrayLike, x: ArrayLike) -> Array:
    """Return the n-th derivative of digamma.

    Parameters
    ----------
    n : array_like of whole numbers
        The orders; a Python integer keeps derivatives exact.
    x : array_like
        Positive numbers.

    Returns
    -------
    Array of floats
        The derivatives.
    """
    if isinstance(n, int | np.integer) and n >= 0:
        array = floats("polygamma", as_array(x))
        order = int(n)
        return apply(ops.digamma, array) if not order else _polygamma(array, order=order)
    orders, points = floats_together("polygamma", n, x)
    sign = choose(orders == 2 * tnp.floor(orders / 2), -1, 1).astype(points.dtype)
    value = sign * tnp.exp(apply(ops.lgamma, orders + 1)) * zeta(orders + 1, points)
    return choose(orders == 0, apply(ops.digamma, points), value)


@compound
def _polygamma(x: Array, *, order: int) -> Array:
    return apply(ops.polygamma, x, order=order)


__all__ = [
    "beta",
    "comb",
    "factorial",
    "gamma",
    "gammasgn",
    "loggamma",
    "multigammaln",
    "poch",
    "polygamma",
    "zeta",
]
