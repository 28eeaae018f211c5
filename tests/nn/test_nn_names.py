"""The names of jax.nn: activations, softmax of some elements, first weights."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.special

import tracer
import tracer.nn as nn
import tracer.numpy as tnp
from tests.compare_with_jax import FLOATS, check, inputs
from tests.numpy.oracle import assert_same
from tests.sampling import one_in
from tracer.errors import ArgumentError, DTypeError, ShapeError

pytestmark = pytest.mark.xla

X = np.array(
    [-np.inf, -800.0, -3.5, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 3.5, 6.0, 800.0, np.inf, np.nan]
)
FORMULAS = {
    "relu6": lambda x: np.clip(x, 0, 6),
    "hard_tanh": lambda x: np.clip(x, -1, 1),
    "hard_sigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "hard_silu": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "hard_swish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "swish": lambda x: x * scipy.special.expit(x),
    "celu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "soft_sign": lambda x: x / (1 + np.abs(x)),
    "sparse_plus": lambda x: np.where(x <= -1, 0, np.where(x >= 1, x, (x + 1) ** 2 / 4)),
    "sparse_sigmoid": lambda x: np.clip(x + 1, 0, 2) / 2,
    "mish": lambda x: x * np.tanh(np.logaddexp(x, 0)),
    "squareplus": lambda x: np.where(x < 0, 4 / (np.hypot(x, 2) - x), x + np.hypot(x, 2)) / 2,
    "tanh": np.tanh,
    "identity": lambda x: x,
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", FORMULAS)
def test_formulas(name, dtype):
    x = X.astype(dtype)
    with np.errstate(all="ignore"):
        wanted = FORMULAS[name](X).astype(dtype)
    function = getattr(nn, name)
    np.testing.assert_allclose(np.asarray(function(x)), wanted, rtol=2e-6, atol=1e-12)
    found = tracer.compile(function)(x)
    assert found.dtype == dtype
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=2e-6, atol=1e-12)
    assert function(x[:0]).shape == (0,)


def test_selu_keeps_the_normal_distribution():
    x = np.random.default_rng(0).normal(size=200000)
    found = np.asarray(nn.selu(x))
    assert abs(found.mean()) < 0.01
    assert abs(found.var() - 1) < 0.02


@pytest.mark.parametrize("dtype", FLOATS)
def test_log1mexp_keeps_its_digits(dtype):
    x = np.array([1e-30, 1e-8, 0.1, 0.69, 0.7, 5.0, 50.0], dtype)
    wide = x.astype(float)
    with np.errstate(divide="ignore"):
        wanted = np.where(x < 0.69, np.log(-np.expm1(-wide)), np.log1p(-np.exp(-wide)))
    np.testing.assert_allclose(
        np.asarray(nn.log1mexp(x)), wanted, rtol=3e-6 if dtype == "float32" else 1e-14
    )
    gradient = tracer.grad(lambda x: nn.log1mexp(x).sum())(x)
    np.testing.assert_allclose(np.asarray(gradient), 1 / np.expm1(x.astype(float)), rtol=1e-5)
    assert np.isnan(float(nn.log1mexp(np.nan)))


def test_glu():
    x = np.arange(8.0).reshape(2, 4)
    assert_same(nn.glu(x), x[:, :2] * scipy.special.expit(x[:, 2:]))
    assert nn.glu(x, 0).shape == (1, 4)
    with pytest.raises(ShapeError, match="odd"):
        nn.glu(x[:, :3])


def test_softmax_of_some_elements(rng):
    x = rng.normal(size=(3, 4))
    seen = np.array([[True, False, True, True], [False] * 4, [True] * 4])
    found = np.asarray(nn.softmax(x, where=seen))
    assert_same(found[0, [0, 2, 3]], scipy.special.softmax(x[0, [0, 2, 3]]))
    assert found[~seen].tolist() == [0.0] * 5
    logarithm = np.asarray(nn.log_softmax(x, where=seen))
    np.testing.assert_allclose(logarithm[seen], np.log(found[seen]), rtol=1e-12)
    assert np.isneginf(logarithm[~seen]).all()
    gradient = np.asarray(tracer.grad(lambda x: (nn.softmax(x, where=seen)[:, 0] ** 2).sum())(x))
    assert np.isfinite(gradient).all()
    assert (gradient[~seen] == 0).all()


def test_sums_and_means_of_exponentials(rng):
    x, b = rng.normal(size=(3, 4)), rng.normal(size=(3, 4))
    wanted = scipy.special.logsumexp(x, 1, b, return_sign=True)
    assert_same(nn.logsumexp(x, 1, b, return_sign=True)[0], wanted[0])
    assert_same(nn.logsumexp(x, 1, b, True, True)[1], wanted[1][:, None])
    assert_same(nn.logmeanexp(x, 0), scipy.special.logsumexp(x, 0) - np.log(3))
    seen = x > 0
    some = [np.log(np.exp(row[mask]).mean()) for row, mask in zip(x, seen, strict=True)]
    assert_same(nn.logmeanexp(x, 1, seen), np.array(some))


def test_standardize(rng):
    x = rng.normal(size=(3, 50)) + 7
    for algorithm in ("fast", "stable"):
        found = np.asarray(nn.standardize(x, algorithm=algorithm))
        np.testing.assert_allclose(found.mean(1), 0, atol=1e-12)
        np.testing.assert_allclose(found.var(1), 1, rtol=1e-4)
    some = np.asarray(nn.standardize(x, where=x > 7))
    assert abs(some[x > 7].mean()) < 1
    assert nn.standardize(np.arange(4)).dtype == np.float64
    with pytest.raises(ArgumentError, match="algorithm"):
        nn.standardize(x, algorithm="slow")


def test_a_mask_in_the_place_of_the_bias_is_refused(rng):
    q = rng.normal(size=(1, 3, 2, 4))
    with pytest.raises(DTypeError, match="the bias is bool"):
        nn.dot_product_attention(q, q, q, np.ones((3, 3), bool))
    assert_same(
        nn.dot_product_attention(q, q, q, np.zeros((3, 3))), nn.dot_product_attention(q, q, q)
    )


SCALED = {
    "glorot": lambda inputs, outputs: 2 / (inputs + outputs),
    "xavier": lambda inputs, outputs: 2 / (inputs + outputs),
    "lecun": lambda inputs, outputs: 1 / inputs,
    "he": lambda inputs, outputs: 2 / inputs,
    "kaiming": lambda inputs, outputs: 2 / inputs,
}


@pytest.mark.parametrize("kind", ["uniform", "normal"])
@pytest.mark.parametrize("name", SCALED)
def test_variances(name, kind):
    init = getattr(nn.initializers, f"{name}_{kind}")(dtype="float32")
    weights = np.asarray(init(tracer.random.key(3), (3, 3, 40, 60)))
    assert weights.dtype == np.float32
    variance = SCALED[name](9 * 40, 9 * 60)
    assert abs(weights.mean()) < 0.03 * np.sqrt(variance)
    assert abs(weights.var() / variance - 1) < 0.03
    bound = np.sqrt(3 * variance) if kind == "uniform" else 2 * np.sqrt(variance) / 0.8796
    assert np.abs(weights).max() <= bound * 1.001


@pytest.mark.parametrize("distribution", ["truncated_normal", "normal", "uniform"])
def test_variances_of_complex_weights(distribution):
    init = nn.initializers.variance_scaling(1.0, "fan_in", distribution, dtype="complex64")
    weights = np.asarray(init(tracer.random.key(0), (50, 200)))
    assert weights.dtype == np.complex64
    assert abs((np.abs(weights) ** 2).mean() * 50 - 1) < 0.05
    assert abs(weights.mean()) < 0.01


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 3, 4)])
def test_orthogonal_weights(shape):
    for axis in (-1, 0):
        weights = np.asarray(nn.initializers.orthogonal(2.0, axis)(tracer.random.key(1), shape))
        assert weights.shape == shape
        rows = np.moveaxis(weights, axis, -1).reshape(-1, shape[axis]) / 2
        small = rows.T @ rows if rows.shape[0] >= rows.shape[1] else rows @ rows.T
        np.testing.assert_allclose(small, np.eye(len(small)), atol=1e-12)
    assert nn.initializers.orthogonal()(tracer.random.key(0), (0, 3)).shape == (0, 3)


def test_delta_orthogonal_weights():
    weights = np.asarray(nn.initializers.delta_orthogonal()(tracer.random.key(1), (3, 3, 2, 4)))
    middle = weights[1, 1]
    np.testing.assert_allclose(middle @ middle.T, np.eye(2), atol=1e-12)
    assert np.count_nonzero(weights) == middle.size


def test_plain_weights():
    key, init = tracer.random.key(0), nn.initializers
    assert_same(init.zeros(key, (2, 3), "float32"), np.zeros((2, 3), "float32"))
    assert_same(init.ones(key, (2,)), np.ones(2))
    assert_same(
        init.constant([1.0, 2.0])(key, (3, 2), "float32"), np.tile(np.float32([1, 2]), (3, 1))
    )
    assert np.asarray(init.uniform(2.0)(key, (1000,))).max() > 1.9
    assert abs(np.asarray(init.normal(0.5)(key, (10000,))).std() - 0.5) < 0.02
    assert np.abs(np.asarray(init.truncated_normal(1.0, lower=-1, upper=1)(key, (1000,)))).max() < 1
    compiled = tracer.compile(lambda key: init.he_normal()(key, (4, 3)))
    assert_same(compiled(key), init.he_normal()(key, (4, 3)))


def test_refusals_of_initializers():
    init = nn.initializers
    with pytest.raises(ArgumentError, match="mode"):
        init.variance_scaling(1.0, "fan", "normal")
    with pytest.raises(ArgumentError, match="distribution"):
        init.variance_scaling(1.0, "fan_in", "cauchy")
    for make, shape in (
        (init.he_normal, (3,)),
        (init.orthogonal, (3,)),
        (init.delta_orthogonal, (3, 4, 2)),
    ):
        with pytest.raises(ShapeError):
            make()(tracer.random.key(0), shape)


@pytest.fixture
def jax():
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        yield jax


PROGRAMS = {
    "celu": lambda nn, x: nn.celu(x, 1.5),
    "squareplus": lambda nn, x: nn.squareplus(x, 2),
    "glu": lambda nn, x: nn.glu(x, 1),
    "log1mexp": lambda nn, x: nn.log1mexp(abs(x)),
    "softmax where": lambda nn, x: nn.softmax(x, 0, where=x > 0),
    "log_softmax where": lambda nn, x: nn.log_softmax(x, where=x > -1)[x.shape[0] - 1 :, :1],
    "logsumexp": lambda nn, x: nn.logsumexp(x, 1, where=x > -1),
    "logsumexp signs": lambda nn, x: nn.logsumexp(x, 0, x[::-1], return_sign=True),
    "logmeanexp": lambda nn, x: nn.logmeanexp(x, 1),
    "standardize": lambda nn, x: nn.standardize(x),
    "standardize stable": lambda nn, x: nn.standardize(x, 0, algorithm="stable", where=x > -1),
    "standardize given": lambda nn, x: nn.standardize(x, mean=x[0], variance=abs(x[1])),
    **{
        name: (lambda nn, x, name=name: getattr(nn, name)(x))
        for name in (*FORMULAS, "selu", "one_hot")
        if name != "one_hot"
    },
}


@pytest.mark.parametrize(("name", "dtype"), one_in(3, product(PROGRAMS, FLOATS)))
def test_against_jax(name, dtype, jax):
    x = np.array([[-4.1, -0.7, 0.3, 2.2], [-2.5, 0.9, 6.5, 1.4], [0.1, -0.2, 3.1, -1.7]])
    check(PROGRAMS[name], nn, jax.nn, inputs([x], dtype), scale=16)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "name", ["relu6", "hard_tanh", "hard_sigmoid", "celu", "selu", "sparse_plus", "sparse_sigmoid"]
)
def test_slopes_at_kinks_are_jaxs(name, dtype, jax):
    x = np.array([-3.0, -1.0, 0.0, 1.0, 3.0, 6.0])
    check(lambda nn, x: getattr(nn, name)(x), nn, jax.nn, inputs([x], dtype))


NAMES = [name for name in nn.initializers.__all__ if name not in ("Initializer", "zeros", "ones")]


@pytest.mark.parametrize("name", NAMES)
def test_weights_are_jaxs(name, jax):
    arguments = {"constant": (3.0,), "variance_scaling": (2.0, "fan_geo_avg", "uniform")}.get(
        name, ()
    )
    shape = (3, 2, 4)
    found = getattr(nn.initializers, name)(*arguments)(tracer.random.key(7), shape, "float32")
    wanted = getattr(jax.nn.initializers, name)(*arguments)(jax.random.PRNGKey(7), shape, "float32")
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-5, atol=1e-6)


def test_names_are_jaxs(jax):
    missing = {name for name in dir(jax.nn) if not name.startswith("_")} - set(nn.__all__)
    assert missing == {"get_scaled_dot_general_config", "scaled_dot_general", "scaled_matmul"}
    weights = {name for name in dir(jax.nn.initializers) if not name.startswith("_")}
    assert weights == set(nn.initializers.__all__)


def test_random_orthogonal_is_jaxs(jax):
    for sizes in ((3, (), "float64"), (3, (2,), "float32", 5)):
        found = tracer.random.orthogonal(tracer.random.key(5), *sizes)
        wanted = jax.random.orthogonal(jax.random.PRNGKey(5), *sizes)
        np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), atol=1e-5)
    assert tnp.shape(found) == (2, 3, 5)
