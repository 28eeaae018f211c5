"""Distributions at the ends of their parameters, and derivatives with respect to these."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

import tracer
import tracer.numpy as tnp
from tracer import random
from tracer.autodiff import recompute_large

pytestmark = pytest.mark.xla

COUNT = 5_000
ENDS = [(0, np.inf), (-np.inf, -3), (-np.inf, np.inf), (5, 6), (10, 11), (-37.5, -37), (30, np.inf)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("low", "high"), ENDS)
def test_truncated_normal_numbers_in_the_tails(low: float, high: float, dtype: str) -> None:
    numbers = np.asarray(random.truncated_normal(random.key(1), low, high, COUNT, dtype))
    assert numbers.min() > low
    assert numbers.max() < high
    known = stats.truncnorm(low, high).cdf
    assert stats.kstest(numbers.astype(float), known).pvalue > 1e-3


@pytest.mark.parametrize(("low", "high"), [(0.5, 7.0), (2.0, 3.0), (-3.0, -2.0), (40.0, 41.0)])
def test_derivatives_with_respect_to_bounds(low: float, high: float) -> None:
    def total(low: tnp.ndarray, high: tnp.ndarray) -> tnp.ndarray:
        return random.truncated_normal(random.key(1), low, high, 9).sum()

    found = tracer.grad(total, argnums=(0, 1))(low, high)
    h = 1e-6
    differences = [
        (total(low + h, high) - total(low - h, high)) / (2 * h),
        (total(low, high + h) - total(low, high - h)) / (2 * h),
    ]
    np.testing.assert_allclose(found, np.asarray(differences), rtol=1e-6, atol=1e-6)


def test_bounds_that_are_known_give_the_same_numbers() -> None:
    known = random.truncated_normal(random.key(1), -1.0, 2.0, 50)
    traced = random.truncated_normal(random.key(1), tnp.asarray(-1.0), tnp.asarray(2.0), 50)
    np.testing.assert_array_equal(np.asarray(known), np.asarray(traced))


@pytest.mark.parametrize("mean", [1e3, 1e6])
def test_wald_of_large_means(mean: float) -> None:
    numbers = np.asarray(random.wald(random.key(1), mean, COUNT, "float32")).astype(float)
    assert stats.kstest(numbers, stats.invgauss(mean, scale=1).cdf).pvalue > 1e-3


def test_generalized_normal_of_a_large_power() -> None:
    numbers = abs(np.asarray(random.generalized_normal(random.key(1), 1000.0, COUNT)))
    assert stats.kstest(numbers, stats.uniform.cdf).pvalue > 1e-3


@pytest.mark.parametrize("a", [0.01, 0.3, 1.0, 2.5, 40.0])
def test_gamma_derivative_keeps_the_quantile(a: float) -> None:
    def draw(a: tnp.ndarray) -> tnp.ndarray:
        return random.loggamma(random.key(1), a, 50)

    found = np.asarray(tracer.jvp(draw, (a,), (1.0,))[1])
    numbers = np.exp(np.asarray(draw(a)))
    quantile, h = special.gammainc(a, numbers), 1e-5 * a
    tells = quantile < 0.9
    ends = [np.log(special.gammaincinv(a + step, quantile)) for step in (h, -h)]
    np.testing.assert_allclose(found[tells], ((ends[0] - ends[1]) / (2 * h))[tells], rtol=1e-5)
    total = tracer.grad(lambda a: draw(a).sum())(a)
    np.testing.assert_allclose(total, found.sum(), rtol=1e-12)


def test_gamma_derivative_where_the_number_underflows() -> None:
    slopes = np.asarray(
        tracer.jvp(lambda a: random.loggamma(random.key(1), a, 50), (1e-3,), (1.0,))[1]
    )
    logs = np.asarray(random.loggamma(random.key(1), 1e-3, 50))
    assert logs.min() < -800
    near_zero = (special.digamma(1.001) - logs) / 1e-3
    np.testing.assert_allclose(slopes[logs < -10], near_zero[logs < -10], rtol=1e-3)


def test_mean_derivatives_of_relatives() -> None:
    def mean(draw, *values):
        return tracer.grad(lambda *x: draw(random.key(1), *x).mean(), argnums=0)(*values)

    full = np.full(20_000, 2.0)
    # The mean of beta(a, b) is a / (a + b); that of chi squared its degrees of freedom.
    assert abs(float(mean(random.beta, full, full + 1).sum()) - 3 / 25) < 0.01
    assert abs(float(mean(random.chisquare, full).sum()) - 1) < 0.05


def test_the_power_of_a_ball_may_be_traced() -> None:
    points = tracer.compile(lambda p: random.ball(random.key(1), 3, p, 9))(1.5)
    known = np.asarray(random.ball(random.key(1), 3, 1.5, 9))
    np.testing.assert_allclose(points, known, rtol=1e-12)


def test_gamma_gradient_where_scans_keep_less() -> None:
    """Loops that compute large operands themselves must not become functions of the parameter."""
    gradient = tracer.grad(lambda a: random.gamma(random.key(1), a).sum())
    with recompute_large(10):
        # It was refused: there is no gradient of a while loop.
        graph = tracer.make_graph(gradient)(np.linspace(0.5, 4, 40))
    assert graph.output_types[0].shape == (40,)
