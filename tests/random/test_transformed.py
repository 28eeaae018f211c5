"""Distributions that are functions of others: their shapes, dtypes, errors and distributions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.stats

import tracer
from tests.sampling import in_turn
from tracer import random
from tracer.errors import ArgumentError, DTypeError, LinAlgError, ShapeError

pytestmark = pytest.mark.xla

DRAWS = 4000
OF_GAMMA: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "chisquare": (lambda k, **o: random.chisquare(k, 3.0, **o), scipy.stats.chi2(3).cdf),
    "f": (lambda k, **o: random.f(k, 3.0, 8.0, **o), scipy.stats.f(3, 8).cdf),
    "t": (lambda k, **o: random.t(k, 2.5, **o), scipy.stats.t(2.5).cdf),
    "generalized_normal": (
        lambda k, **o: random.generalized_normal(k, 3.0, **o),
        scipy.stats.gennorm(3).cdf,
    ),
    "wald": (lambda k, **o: random.wald(k, 2.0, **o), scipy.stats.invgauss(2).cdf),
    "rayleigh": (lambda k, **o: random.rayleigh(k, 2.0, **o), scipy.stats.rayleigh(scale=2).cdf),
}


@pytest.mark.parametrize(("name", "dtype"), in_turn(OF_GAMMA, ["float32", "float64"]))
def test_distributions(name: str, dtype: str) -> None:
    draw, distribution = OF_GAMMA[name]
    draw = tracer.compile(lambda key: OF_GAMMA[name][0](key, shape=(DRAWS,), dtype=dtype))
    found = np.asarray(draw(random.key(1)))
    assert (found.dtype, found.shape) == (dtype, (DRAWS,))
    assert scipy.stats.kstest(found.astype(float), distribution).pvalue > 1e-3
    # What the test is for: other parameters are told apart.
    assert scipy.stats.kstest(1.2 * found.astype(float) + 0.1, distribution).pvalue < 1e-3


@pytest.mark.parametrize("p", [1, 2, 5.0])
def test_points_are_spread_evenly_in_the_ball(p: float) -> None:
    points = np.asarray(random.ball(random.key(2), 3, p, (DRAWS,)))
    lengths = (abs(points) ** p).sum(axis=-1) ** (1 / p)
    assert scipy.stats.kstest(lengths**3, "uniform").pvalue > 1e-3
    assert abs(points.mean(axis=0)).max() < 0.05


def test_covariances() -> None:
    cov = np.array([[2.0, 0.6], [0.6, 0.5]])
    for method in ("cholesky", "eigh", "svd"):
        draws = random.multivariate_normal(
            random.key(3), np.array([1.0, -1.0]), cov, (20_000,), method=method
        )
        np.testing.assert_allclose(np.cov(np.asarray(draws).T), cov, atol=0.06)
        np.testing.assert_allclose(np.asarray(draws).mean(axis=0), [1, -1], atol=0.04)
    flat = random.multivariate_normal(random.key(3), np.zeros(2), np.ones((2, 2)), method="svd")
    np.testing.assert_allclose(flat[0], flat[1], atol=1e-12)
    assert random.multivariate_normal(random.key(3), [0, 0], [[1, 0], [0, 1]]).dtype == "float64"


def test_gradients_of_the_parameters() -> None:
    """The reparametrisation, beside differences."""
    key = random.key(4)
    for draw in (
        lambda a: random.lognormal(key, a, (3,)),
        lambda a: random.pareto(key, a, (3,)),
        lambda a: random.weibull_min(key, a, 2 * a, (3,)),
        lambda a: random.wald(key, a, (3,)),
        lambda a: random.triangular(key, -a, a / 2, a, (3,)),
        lambda a: random.multivariate_normal(key, a * np.ones(2), (1 + a) * np.eye(2) + a),
    ):
        tracer.check_grads(lambda a, draw=draw: draw(a).sum(), (1.3,), order=2)


def test_refusals() -> None:
    key = random.key(0)
    for program, error in (
        (lambda: random.geometric(key, 0.5, dtype="float32"), DTypeError),
        (lambda: random.wald(key, 1.0, dtype="int32"), DTypeError),
        (lambda: random.chisquare(key, np.ones(3), (2,)), ShapeError),
        (lambda: random.multivariate_normal(key, np.ones(3), np.eye(2)), ShapeError),
        (lambda: random.multivariate_normal(key, np.ones(2), -np.eye(2)), LinAlgError),
        (
            lambda: random.multivariate_normal(key, np.ones(2), np.eye(2), method="lu"),
            ArgumentError,
        ),
    ):
        with pytest.raises(error):
            program()
