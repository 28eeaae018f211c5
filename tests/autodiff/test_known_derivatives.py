"""Derivatives of any order at places where formulas break, against their exact values.

Compiled, as a program is run. `tests/autodiff/test_awkward_points.py` has first derivatives,
beside JAX's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp

pytestmark = pytest.mark.xla
NAN, INF = np.nan, np.inf


def derivative(function: Callable[..., Any], order: int) -> Callable[..., Any]:
    """Return the derivative of an element-wise function by its first argument."""
    for _ in range(order):
        function = tracer.grad(function)
    return tracer.compile(tracer.vmap(function))


def test_hypot_where_both_are_of_one_size() -> None:
    x = np.array([2.0, -2.0, 2.0, 3.0, 0.0, 1e-300, 1e300])
    y = np.array([2.0, 2.0, -2.0, 4.0, 1.0, 1e-300, 1e300])
    with np.errstate(over="ignore"):
        length = np.hypot(x, y)
        second = (y / length) ** 2 / length
        third = -3 * (x / length) * (y / length) ** 2 / length / length
    np.testing.assert_allclose(derivative(tnp.hypot, 1)(x, y), x / length, rtol=1e-14)
    np.testing.assert_allclose(derivative(tnp.hypot, 2)(x, y), second, rtol=1e-14)
    np.testing.assert_allclose(derivative(tnp.hypot, 3)(x[:5], y[:5]), third[:5], rtol=1e-14)


def sinc_derivative(x: float, order: int) -> float:
    """Return the exact value: the integral of cos(pi x s + order pi / 2) (pi s)**order, 0 to 1."""
    nodes, weights = np.polynomial.legendre.leggauss(60)
    s = (nodes + 1) / 2
    return float(weights / 2 @ (np.cos(np.pi * (x * s + order / 2)) * (np.pi * s) ** order))


@pytest.mark.parametrize("order", [0, 1, 2, 3, 4])
def test_sinc_at_and_near_zero(order: int) -> None:
    x = np.array([0.0, -0.0, 1e-9, -1e-4, 0.3, 0.3183, -0.3184, 0.5, 1.0, 2.5, -7.3])
    wanted = [sinc_derivative(place, order) for place in x]
    limit = 1e-12 * np.pi**order
    np.testing.assert_allclose(derivative(tnp.sinc, order)(x), wanted, rtol=0, atol=limit)


def test_sinc_of_complex_numbers() -> None:
    at = np.array([0.0, 0.1 + 0.1j, 2 - 1j])
    np.testing.assert_allclose(tracer.compile(tnp.sinc)(at), np.sinc(at), rtol=1e-14)


@pytest.mark.parametrize(
    "function",
    [
        tracer.nn.softplus,
        tracer.nn.log_sigmoid,
        lambda x: tnp.logaddexp(x, 1.0),
        lambda x: tnp.logaddexp(1.0, x),
        lambda x: tnp.logaddexp2(x, x),
    ],
)
@pytest.mark.parametrize("order", [1, 2])
def test_nan_stays_in_the_derivatives_of_logaddexp(function: Any, order: int) -> None:
    assert np.isnan(np.asarray(derivative(function, order)(np.array([NAN])))).all()


def test_logaddexp_at_ties() -> None:
    x = np.array([0.0, 3.0, 1e300])
    np.testing.assert_array_equal(derivative(tnp.logaddexp, 1)(x, x), 0.5)
    np.testing.assert_array_equal(derivative(tnp.logaddexp, 2)(x, x), 0.25)
    both = np.array([INF, -INF])
    np.testing.assert_array_equal(derivative(tnp.logaddexp, 1)(both, both), 0.5)


@pytest.mark.parametrize("ddof", [0, 1])
def test_variances_beside_nan(ddof: int) -> None:
    x = np.array([[NAN, 1.0, 2.0, 3.0, 4.0], [5.0, 1.0, NAN, NAN, 2.0]])
    there = ~np.isnan(x)
    moved = np.where(there, x - np.nanmean(x, 1, keepdims=True), 0)
    divisor = there.sum(1, keepdims=True) - ddof
    variance = tracer.compile(tracer.grad(lambda v: tnp.nanvar(v, 1, ddof=ddof).sum()))
    np.testing.assert_allclose(variance(x), 2 * moved / divisor, rtol=1e-14)
    deviation = tracer.compile(tracer.grad(lambda v: tnp.nanstd(v, 1, ddof=ddof).sum()))
    spread = np.nanstd(x, 1, ddof=ddof, keepdims=True)
    np.testing.assert_allclose(deviation(x), moved / divisor / spread, rtol=1e-14)
    masked = tracer.grad(lambda v: tnp.var(v, 1, where=there, ddof=ddof).sum())
    np.testing.assert_allclose(masked(x), 2 * moved / divisor, rtol=1e-14)
    curvature = tracer.compile(tracer.hessian(lambda v: tnp.nanvar(v, ddof=ddof)))(x[0])
    wanted = 2 * (np.diag(there[0]) - np.outer(there[0], there[0]) / 4) / (4 - ddof)
    np.testing.assert_allclose(curvature, wanted, atol=1e-15)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_mantissa_of_frexp(dtype: str) -> None:
    limits = np.finfo(dtype)
    plain = np.array([3.0, -0.3, 1.0, 0.99, -1000, 2e-3], dtype)
    wide = np.array([limits.max / 8, -2 * limits.tiny, limits.tiny, limits.tiny / 2], dtype)
    x = np.concatenate([plain, wide])
    wanted = np.ldexp(np.ones(x.size, dtype), -np.frexp(x)[1])
    slopes = derivative(lambda v: tnp.frexp(v)[0], 1)
    np.testing.assert_array_equal(slopes(x), wanted)
    np.testing.assert_array_equal(slopes(np.array([0.0, INF, -INF], dtype)), 1)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_frexp_of_subnormal_numbers(dtype: str) -> None:
    least = np.finfo(dtype).smallest_subnormal
    x = (np.array([1, -1, 2, 3, -5, 100, 1023]) * np.float64(least)).astype(dtype)
    fraction, exponent = tracer.compile(tnp.frexp)(x)
    np.testing.assert_array_equal(fraction, np.frexp(x)[0])
    np.testing.assert_array_equal(exponent, np.frexp(x)[1])


def test_interp_between_points_that_lie_close() -> None:
    places = np.exp(np.linspace(-90, -20, 1000)).astype("float32")

    def total(x: Any, points: Any, values: Any) -> Any:
        return tnp.interp(x, points, values).sum()

    gradient = tracer.compile(tracer.grad(total, argnums=(0, 1, 2)))
    by_x, by_points, by_values = map(np.asarray, gradient(places, places, np.ones_like(places)))
    np.testing.assert_array_equal(by_x, 0)
    np.testing.assert_array_equal(by_points, 0)
    assert np.isfinite(by_values).all()
    np.testing.assert_allclose(by_values.sum(), 1000, rtol=1e-5)
    by_x, *_ = gradient(np.float32([1.5e-20]), np.float32([1e-20, 2e-20]), np.float32([1, 3]))
    np.testing.assert_allclose(by_x, 2e20, rtol=1e-6)


@pytest.mark.parametrize("size", [1.0, 1e30, 1e300, -1e300])
def test_asinh_of_a_real_part_that_is_nan(size: float) -> None:
    at = np.array([complex(NAN, size)])
    found = np.asarray(tracer.compile(tnp.arcsinh)(at))
    assert np.isnan(found.real).all()
    assert np.isnan(found.imag).all()
