"""Random numbers: keys, statistics, the same bits eagerly, compiled, batched and in parts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import tracer
import tracer.numpy as tnp
from tests.sampling import one_in
from tracer import random
from tracer.errors import ArgumentError, DTypeError, ShapeError

pytestmark = pytest.mark.xla

KEY = random.key(7)
COUNT = 20_000
# Known answers of the generator's authors (Random123, kat_vectors: threefry2x32, 20 rounds).
KNOWN = [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((2**32 - 1,) * 2, (2**32 - 1,) * 2, (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]
CONTINUOUS = {
    "uniform": (lambda: random.uniform(KEY, COUNT), stats.uniform),
    "uniform float32": (lambda: random.uniform(KEY, COUNT, "float32"), stats.uniform),
    "interval": (lambda: random.uniform(KEY, COUNT, minval=2, maxval=5), stats.uniform(2, 3)),
    "normal": (lambda: random.normal(KEY, COUNT), stats.norm),
    "truncated": (lambda: random.truncated_normal(KEY, -1, 2, COUNT), stats.truncnorm(-1, 2)),
    "exponential": (lambda: random.exponential(KEY, COUNT), stats.expon),
    "gumbel": (lambda: random.gumbel(KEY, COUNT), stats.gumbel_r),
    "laplace": (lambda: random.laplace(KEY, COUNT), stats.laplace),
    "cauchy": (lambda: random.cauchy(KEY, COUNT), stats.cauchy),
    "logistic": (lambda: random.logistic(KEY, COUNT), stats.logistic),
    "gamma 3": (lambda: random.gamma(KEY, 3.0, COUNT), stats.gamma(3)),
    "gamma 1": (lambda: random.gamma(KEY, 1.0, COUNT), stats.gamma(1)),
    "gamma small": (lambda: random.gamma(KEY, 0.2, COUNT), stats.gamma(0.2)),
    "beta": (lambda: random.beta(KEY, 2.0, 0.5, COUNT), stats.beta(2, 0.5)),
    "dirichlet": (lambda: random.dirichlet(KEY, [1.0, 2, 3], COUNT)[:, 1], stats.beta(2, 4)),
}
DRAWS = {
    "bits": lambda k: random.bits(k, (3, 5)),
    "split": lambda k: random.split(k, 4),
    "fold_in": lambda k: random.fold_in(k, 3),
    "uniform": lambda k: random.uniform(k, (3, 5)),
    "normal": lambda k: random.normal(k, (6,)),
    "randint": lambda k: random.randint(k, (3, 5), 0, 10),
    "permutation": lambda k: random.permutation(k, 20),
    "categorical": lambda k: random.categorical(k, tnp.zeros((4, 6))),
    "choice": lambda k: random.choice(k, 10, (3,), replace=False),
    "gamma": lambda k: random.gamma(k, 0.7, (50,)),
}


@pytest.mark.parametrize(("key", "counter", "expected"), KNOWN)
def test_known_answers(key, counter, expected):
    from tracer.random.threefry import _threefry

    words = tnp.asarray(np.array(key, np.uint32))
    first, second = (tnp.asarray(np.array([word], np.uint32)) for word in counter)
    found = tracer.compile(_threefry)(words, first, second)
    assert tuple(int(word[0]) for word in found) == expected


@pytest.mark.parametrize("name", CONTINUOUS)
def test_distributions(name):
    draw, distribution = CONTINUOUS[name]
    assert stats.kstest(np.asarray(draw(), np.float64), distribution.cdf).pvalue > 1e-3


@pytest.mark.parametrize("name", one_in(2, DRAWS, 1))
def test_the_same_compiled_and_batched(name):
    draw = DRAWS[name]
    keys = random.split(KEY, 3)
    expected = np.stack([draw(key) for key in keys])
    compiled = tracer.compile(draw)
    exact = expected.dtype.kind in "iub"
    for found in (np.stack([compiled(key) for key in keys]), tracer.vmap(draw)(keys)):
        if exact:
            np.testing.assert_array_equal(found, expected)
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_the_same_in_parts():
    def total(key):
        return tnp.sum(random.normal(key, (400, 2000)) ** 2, axis=1)

    whole = tracer.compile(total)(KEY)
    in_parts = tracer.compile(total, memory_limit="2MB")(KEY)
    np.testing.assert_allclose(in_parts, whole, rtol=1e-12)


def test_seeds():
    assert np.asarray(random.key(-1)).tolist() == [2**32 - 1] * 2
    assert np.asarray(random.key(2**40 + 3)).tolist() == [2**8, 3]
    for seed in (5, -5):
        np.testing.assert_array_equal(random.key(tnp.asarray(seed)), random.key(seed))
    np.testing.assert_array_equal(random.PRNGKey(3), random.key(3))
    np.testing.assert_array_equal(random.wrap_key_data(random.key_data(KEY)), KEY)


def test_keys_differ():
    rows = np.asarray(random.split(KEY, 1000))
    assert len(np.unique(rows, axis=0)) == 1000
    first, second = random.split(KEY)
    assert not np.array_equal(random.bits(first, (4,)), random.bits(second, (4,)))
    folded = [tuple(np.asarray(random.fold_in(KEY, step)).tolist()) for step in range(50)]
    assert len(set(folded)) == 50


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_every_bit_is_fair(dtype):
    drawn = np.asarray(random.bits(KEY, (4096,), dtype))
    bits = np.unpackbits(drawn.view(np.uint8).reshape(4096, -1), axis=1)
    assert np.all(np.abs(bits.mean(axis=0) - 0.5) < 5 * 0.5 / 64)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64"])
def test_integers_cover_their_interval(dtype):
    drawn = np.asarray(random.randint(KEY, (7000,), 3, 10, dtype))
    assert drawn.dtype == dtype
    assert stats.chisquare(np.bincount(drawn, minlength=10)[3:]).pvalue > 1e-3
    assert np.bincount(drawn).argmax() < 10


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [("int8", -50, 100), ("uint8", 0, 200), ("int16", -30000, 20000), ("uint16", 0, 40000)],
)
def test_randint_of_few_bits_is_even(dtype: str, low: int, high: int) -> None:
    drawn = np.asarray(random.randint(KEY, (100_000,), low, high, dtype)).astype(float)
    counts, _ = np.histogram(drawn, bins=10, range=(low, high))
    # Of 100,000 draws in ten parts each has 10,000, with a deviation of 95.
    assert np.abs(counts - 10_000).max() < 5 * 95


def test_integers_of_a_whole_dtype():
    drawn = np.asarray(random.randint(KEY, (5000,), 0, 256, "uint8"))
    assert len(np.unique(drawn)) == 256
    assert np.all(np.asarray(random.randint(KEY, (4,), 5, 2)) == 5)


def test_coins_and_categories():
    assert abs(float(random.bernoulli(KEY, 0.3, (COUNT,)).mean()) - 0.3) < 0.02
    assert set(np.asarray(random.rademacher(KEY, (50,))).tolist()) == {-1, 1}
    weights = np.array([0.1, 0.6, 0.3])
    drawn = np.asarray(random.categorical(KEY, np.log(weights), shape=(COUNT,)))
    assert stats.chisquare(np.bincount(drawn), weights * COUNT).pvalue > 1e-3
    chosen = np.asarray(random.choice(KEY, 3, (COUNT,), p=weights))
    assert stats.chisquare(np.bincount(chosen), weights * COUNT).pvalue > 1e-3
    distinct = random.categorical(KEY, tnp.zeros((5, 8)), axis=1, shape=(8, 5), replace=False)
    assert np.array_equal(np.sort(distinct, axis=0), np.tile(np.arange(8)[:, None], (1, 5)))


def test_orders():
    x = np.arange(12.0).reshape(4, 3)
    assert np.array_equal(np.sort(random.permutation(KEY, 100)), np.arange(100))
    rows = np.asarray(random.permutation(KEY, x))
    assert sorted(map(tuple, rows)) == sorted(map(tuple, x))
    free = np.asarray(random.permutation(KEY, np.tile(np.arange(40), (3, 1)), 1, independent=True))
    assert np.array_equal(np.sort(free, axis=1), np.tile(np.arange(40), (3, 1)))
    assert not np.array_equal(free[0], free[1])
    chosen = np.asarray(random.choice(KEY, x, (2,), replace=False, axis=1))
    assert chosen.shape == (4, 2)
    biased = random.choice(KEY, 5, (3,), replace=False, p=np.array([0.5, 0, 0.25, 0.25, 0]))
    assert sorted(np.asarray(biased).tolist()) == [0, 2, 3]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_floats_stay_in_the_interval(dtype):
    drawn = np.asarray(random.uniform(KEY, (5000,), dtype)).astype(float)
    assert drawn.min() >= 0
    assert drawn.max() < 1
    assert abs(drawn.mean() - 0.5) < 0.02


def test_complex_normals():
    drawn = np.asarray(random.normal(KEY, (COUNT,), "complex64"))
    assert drawn.dtype == np.complex64
    assert abs(np.mean(np.abs(drawn) ** 2) - 1) < 0.03


def test_gradients_pass_the_parameters():
    def shifted(low):
        return tnp.sum(random.uniform(KEY, (50,), minval=low, maxval=3.0))

    unit = np.asarray(random.uniform(KEY, (50,)))
    assert np.isclose(float(tracer.grad(shifted)(1.0)), np.sum(1 - unit))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: random.uniform(7), DTypeError),
        (lambda: random.uniform(random.split(KEY)), ShapeError),
        (lambda: random.key(1.5), DTypeError),
        (lambda: random.key(tnp.zeros(2, int)), DTypeError),
        (lambda: random.uniform(KEY, (2,), "int32"), DTypeError),
        (lambda: random.uniform(KEY, (-2,)), ShapeError),
        (lambda: random.bits(KEY, (2,), "int8"), DTypeError),
        (lambda: random.randint(KEY, (2,), 0.5, 2), DTypeError),
        (lambda: random.randint(KEY, (2,), 0, 2, "float32"), DTypeError),
        (lambda: random.choice(KEY, 3, (4,), replace=False), ArgumentError),
        (lambda: random.choice(KEY, 3, (4,), p=[0.5, 0.5]), ShapeError),
        (lambda: random.categorical(KEY, tnp.zeros((3, 4)), shape=(2,)), ShapeError),
        (lambda: random.permutation(KEY, 2.5), DTypeError),
        (lambda: random.fold_in(KEY, tnp.zeros(2, int)), DTypeError),
        (lambda: random.wrap_key_data([1, 2]), DTypeError),
    ],
)
def test_refusals(call, error):
    with pytest.raises(error):
        call()
