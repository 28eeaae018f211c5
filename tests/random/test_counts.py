"""Counts are distributed as SciPy says, whatever the mean, and out of bounds they are NaN or -1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import tracer
from tracer import random
from tracer.errors import DTypeError

pytestmark = pytest.mark.xla
COUNT = 40_000
LEAST = 1e-4
"""The probability that is suspicious: a seed is the same in every run."""


def fit(found: Any, wanted: Any) -> float:
    """Return the probability of samples that fit no better, by the counts between quantiles."""
    ends = np.unique(wanted.ppf(np.linspace(0, 1, 21)[1:-1]))
    expected = np.diff([0, *wanted.cdf(ends), 1]) * len(found)
    counted, _ = np.histogram(found, [-0.5, *(ends + 0.5), np.inf])
    is_usual = expected > 1e-6
    assert counted[~is_usual].sum() == 0
    return float(stats.chisquare(counted[is_usual], expected[is_usual]).pvalue)


@pytest.mark.parametrize("rate", [0.01, 0.3, 3, 9.99, 10, 30, 1e3, 1e6, 1e10])
def test_poisson(rate: float) -> None:
    found = np.asarray(random.poisson(random.key(5), rate, COUNT))
    assert found.dtype == np.int64
    assert fit(found, stats.poisson(rate)) > LEAST


@pytest.mark.parametrize(
    ("n", "p"),
    [
        (1, 0.3), (10, 0.2), (10, 0.9), (100, 0.05), (45, 0.25), (100, 0.3), (1000, 0.5),
        (1000, 0.99), (10**9, 0.25), (10**9, 1e-9),
    ],
)  # fmt: skip
def test_binomial(n: int, p: float) -> None:
    found = np.asarray(random.binomial(random.key(6), n, p, COUNT))
    assert found.dtype == np.float64
    assert fit(found, stats.binom(n, p)) > LEAST


def test_multinomial() -> None:
    weights = np.array([[2.0, 3, 5, 0], [1, 1, 1, 1]])
    found = np.asarray(random.multinomial(random.key(7), 50, weights, shape=(COUNT // 2, 2)))
    assert found.shape == (COUNT // 2, 2, 4)
    assert (found.sum(-1) == 50).all()
    for row, shares in enumerate(weights / weights.sum(-1, keepdims=True)):
        covariance = 50 * (np.diag(shares) - np.outer(shares, shares))
        np.testing.assert_allclose(found[:, row].mean(0), 50 * shares, atol=0.15)
        np.testing.assert_allclose(np.cov(found[:, row].T), covariance, atol=0.5)
        for outcome in np.flatnonzero(shares):
            assert fit(found[:, row, outcome], stats.binom(50, shares[outcome])) > LEAST


def test_parameters_of_a_batch_are_each_its_own() -> None:
    rates = np.array([[0.0, 0.5, 8], [12, 100, 1e5]])
    found = np.asarray(random.poisson(random.key(8), rates, (2000, 2, 3), dtype="float32"))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found.mean(0), rates, rtol=0.1)
    np.testing.assert_allclose(found.var(0), rates, rtol=0.15)
    successes = random.binomial(random.key(8), [[4], [400]], [0.0, 0.5, 1.0], (2000, 2, 3))
    np.testing.assert_allclose(np.mean(successes, 0), [[0, 2, 4], [0, 200, 400]], rtol=0.05)


def test_out_of_bounds() -> None:
    key, nan = random.key(0), np.nan
    rates = [-1.0, nan, np.inf]
    np.testing.assert_array_equal(random.poisson(key, rates), [-1, -1, -1])
    np.testing.assert_array_equal(random.poisson(key, rates, dtype="float64"), [nan, nan, nan])
    bad = random.binomial(key, [-1, 3, 3, 3, np.inf], [0.5, -0.1, 1.1, nan, 0.5])
    assert np.isnan(bad).all()
    for n, weights in ((5, [0.0, 0.0]), (5, [-1.0, 2.0]), (-1, [1.0, 1.0]), (5, [nan, 1.0])):
        assert np.isnan(random.multinomial(key, n, weights)).any()
    assert random.binomial(key, 0, 0.5) == 0
    assert random.poisson(key, 1.0, (0, 3)).shape == (0, 3)
    with pytest.raises(DTypeError, match="bool"):
        random.poisson(key, 1.0, dtype=bool)


@pytest.mark.slow
@pytest.mark.parametrize("draw", ["poisson", "binomial", "multinomial"])
def test_the_same_numbers_in_every_way(draw: str) -> None:
    keys = random.split(random.key(9), 3)
    functions = {
        "poisson": lambda key: random.poisson(key, [2.0, 40.0], (30, 2)),
        "binomial": lambda key: random.binomial(key, 60, [0.1, 0.4], (30, 2)),
        "multinomial": lambda key: random.multinomial(key, 60, [0.1, 0.4], shape=(30,)),
    }
    one = functions[draw]
    wanted = np.stack([one(key) for key in keys])
    np.testing.assert_array_equal(tracer.vmap(one)(keys), wanted)
    np.testing.assert_array_equal(tracer.compile(tracer.vmap(one))(keys), wanted)
    limited = tracer.compile(one, memory_limit="20kB")
    np.testing.assert_array_equal(limited(keys[0]), wanted[0])
