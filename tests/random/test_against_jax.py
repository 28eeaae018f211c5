"""Bits as JAX's: run where jax is installed."""

from __future__ import annotations

import numpy as np
import pytest

import tracer.lax
import tracer.random as ours
from tests.sampling import in_turn

jax = pytest.importorskip("jax")


@pytest.fixture(autouse=True)
def _wide():
    with jax.enable_x64(True):
        yield


def _jax_key(seed):
    return jax.random.PRNGKey(seed)


COVARIANCE = np.diag([1.0, 2.0, 3.0]) + 0.5
SEEDS = [0, 1, 42, 2**31, 2**40 + 5, -1]
EXACT = {
    "split": lambda r, k: r.split(k),
    "split many": lambda r, k: r.split(k, (3, 5)),
    "fold_in": lambda r, k: r.fold_in(k, 7),
    "fold_in large": lambda r, k: r.fold_in(k, 2**32 - 3),
    "bits": lambda r, k: r.bits(k, (3, 4)),
    "bits 8": lambda r, k: r.bits(k, (7,), "uint8"),
    "bits 16": lambda r, k: r.bits(k, (7,), "uint16"),
    "bits 32": lambda r, k: r.bits(k, (2, 3, 4), "uint32"),
    "uniform": lambda r, k: r.uniform(k, (5, 6)),
    "uniform 32": lambda r, k: r.uniform(k, (33,), "float32"),
    "uniform 16": lambda r, k: r.uniform(k, (33,), "float16"),
    "uniform bfloat16": lambda r, k: r.uniform(k, (33,), "bfloat16").astype("float32"),
    "uniform interval": lambda r, k: r.uniform(k, (9,), "float64", -2.0, 3.0),
    "randint": lambda r, k: r.randint(k, (50,), -3, 17),
    "randint 8": lambda r, k: r.randint(k, (50,), 0, 256, "uint8"),
    "randint int8": lambda r, k: r.randint(k, (50,), -100, 100, "int8"),
    "randint uint8": lambda r, k: r.randint(k, (50,), 3, 200, "uint8"),
    "randint int16": lambda r, k: r.randint(k, (50,), -30000, 30000, "int16"),
    "randint uint16": lambda r, k: r.randint(k, (50,), 0, 40000, "uint16"),
    "randint 32": lambda r, k: r.randint(k, (50,), 5, 1000, "int32"),
    "randint empty": lambda r, k: r.randint(k, (5,), 5, 5),
    "bernoulli": lambda r, k: r.bernoulli(k, 0.3, (40,)),
    "permutation": lambda r, k: r.permutation(k, 30),
    "permutation rows": lambda r, k: r.permutation(k, np.arange(12.0).reshape(4, 3)),
    "permutation columns": lambda r, k: r.permutation(k, np.arange(12.0).reshape(4, 3), 1),
    "permutation independent": lambda r, k: r.permutation(
        k, np.arange(12.0).reshape(4, 3), 1, independent=True
    ),
    "choice": lambda r, k: r.choice(k, 10, (4, 3)),
    "choice without": lambda r, k: r.choice(k, 10, (4,), replace=False),
    "choice p": lambda r, k: r.choice(k, 4, (20,), p=np.array([0.1, 0.2, 0.3, 0.4])),
    "categorical": lambda r, k: r.categorical(k, np.log([[0.1, 0.6, 0.3]] * 20)),
    "rademacher": lambda r, k: r.rademacher(k, (20,)),
}
CLOSE = {
    "normal": lambda r, k: r.normal(k, (40,)),
    "normal 32": lambda r, k: r.normal(k, (40,), "float32"),
    "normal complex": lambda r, k: r.normal(k, (40,), "complex128"),
    "truncated_normal": lambda r, k: r.truncated_normal(k, -1.0, 2.0, (40,)),
    "exponential": lambda r, k: r.exponential(k, (40,)),
    "gumbel": lambda r, k: r.gumbel(k, (40,)),
    "laplace": lambda r, k: r.laplace(k, (40,)),
    "cauchy": lambda r, k: r.cauchy(k, (40,)),
    "logistic": lambda r, k: r.logistic(k, (40,)),
    "lognormal": lambda r, k: r.lognormal(k, 0.5, (40,)),
    "lognormal 32": lambda r, k: r.lognormal(k, shape=(40,), dtype="float32"),
    "maxwell": lambda r, k: r.maxwell(k, (40,)),
    "double_sided_maxwell": lambda r, k: r.double_sided_maxwell(k, 1.0, np.array([2.0, 3.0]), (9,)),
    "pareto": lambda r, k: r.pareto(k, np.array([2.0, 3.0])),
    "pareto shape": lambda r, k: r.pareto(k, np.float32([2, 3]), (7, 2), "float32"),
    "rayleigh": lambda r, k: r.rayleigh(k, 2.0, (40,)),
    "triangular": lambda r, k: r.triangular(k, -1.0, np.array([0.5, 1.0]), 2.0, (20, 2)),
    "wald": lambda r, k: r.wald(k, 2.0, (40,)),
    "weibull_min": lambda r, k: r.weibull_min(k, 2.0, 1.5, (40,)),
    "geometric": lambda r, k: r.geometric(k, np.array([0.2, 0.9]), (40, 2)),
    "geometric 8": lambda r, k: r.geometric(k, 0.5, (40,), "uint8"),
    "multivariate_normal": lambda r, k: r.multivariate_normal(k, np.arange(3.0), COVARIANCE, (7,)),
    "multivariate_normal batch": lambda r, k: r.multivariate_normal(
        k, np.arange(6.0).reshape(2, 3), np.stack([COVARIANCE, 2 * COVARIANCE])
    ),
    "multivariate_normal eigh": lambda r, k: r.multivariate_normal(
        k, np.zeros(3, "float32"), np.float32(COVARIANCE), (7,), method="eigh"
    ),
    "multivariate_normal svd": lambda r, k: r.multivariate_normal(
        k, np.zeros(3), COVARIANCE, method="svd"
    ),
}


@pytest.mark.parametrize("seed", SEEDS)
def test_keys(seed):
    np.testing.assert_array_equal(ours.key(seed), _jax_key(seed))


@pytest.mark.parametrize("name", EXACT)
def test_bits_are_equal(name):
    draw = EXACT[name]
    found, expected = (
        np.asarray(draw(ours, ours.key(42))),
        np.asarray(draw(jax.random, _jax_key(42))),
    )
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", CLOSE)
def test_numbers_are_close(name):
    draw = CLOSE[name]
    found, expected = (
        np.asarray(draw(ours, ours.key(42))),
        np.asarray(draw(jax.random, _jax_key(42))),
    )
    assert found.dtype == expected.dtype
    narrow = found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-5 if narrow else 1e-11, atol=1e-12)


SHAPES = [(), (1,), (5,), (3, 5), (3, 4), (2, 3, 3), (7, 1), (0,), (4, 0)]
STATES = {
    "uint32": np.array([1, 2, 3, 2**32 - 1], np.uint32),
    "carries": np.array([3, 2**64 - 2], np.uint64),
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(
    ("dtype", "algorithm"),
    in_turn(
        ["uint8", "uint16", "uint32", "uint64"], ["RNG_DEFAULT", "RNG_THREE_FRY", "RNG_PHILOX"]
    ),
)
def test_bit_generators(algorithm, dtype, state):
    for shape in SHAPES:
        asked = STATES[state], shape, dtype
        found = tracer.lax.rng_bit_generator(*asked, tracer.lax.RandomAlgorithm[algorithm])
        wanted = jax.lax.rng_bit_generator(*asked, jax.lax.RandomAlgorithm[algorithm])
        for x, y in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(np.asarray(x), np.asarray(y), err_msg=str(shape))
