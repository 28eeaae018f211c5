"""tracer.nn against the formulas, and against jax.nn where jax is installed."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import scipy.special

import tracer
import tracer.nn
import tracer.numpy as tnp
from tests.numpy.oracle import assert_same, interpreted
from tracer.array.trace import trace
from tracer.errors import ShapeError

pytestmark = pytest.mark.xla

nn = tracer.nn
X = np.array([-800.0, -3.0, -0.5, 0.0, 0.5, 3.0, 800.0])

FORMULAS = {
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": scipy.special.expit,
    "silu": lambda x: x * scipy.special.expit(x),
    "softplus": lambda x: np.logaddexp(x, 0),
    "log_sigmoid": lambda x: -np.logaddexp(-x, 0),
    "leaky_relu": lambda x: np.where(x >= 0, x, 0.01 * x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "softmax": scipy.special.softmax,
    "log_softmax": scipy.special.log_softmax,
}


@pytest.mark.parametrize("name", FORMULAS)
def test_activations(name):
    function = getattr(nn, name)
    assert_same(interpreted(function, X)[0], FORMULAS[name](X), name)
    assert_same(function(X), FORMULAS[name](X), name)
    assert function(X.astype("float32")).dtype == np.float32
    assert trace(function, [tnp.ones(3, "bfloat16")]).output_types[0].dtype == tnp.bfloat16


def test_gelu():
    exact = X * scipy.special.ndtr(X)
    assert_same(nn.gelu(X, approximate=False), exact)
    np.testing.assert_allclose(np.asarray(nn.gelu(X)), exact, atol=1e-3)


@pytest.mark.parametrize("name", ["relu", "softplus", "elu", "leaky_relu", "gelu", "log_sigmoid"])
def test_gradients_are_finite(name):
    gradient = tracer.grad(lambda x: getattr(nn, name)(x).sum())(X)
    assert np.isfinite(np.asarray(gradient)).all()
    if name == "relu":
        assert np.asarray(gradient).tolist() == [0, 0, 0, 0, 1, 1, 1]


def test_gradients_of_gelu_in_float16_are_finite():
    """The cube overflows from 41 on, its derivative's square from 256."""
    x = np.array([-4e4, -300, -100, 100, 300, 4e4], "float16")
    first = tracer.grad(lambda x: nn.gelu(x).sum())
    second = tracer.grad(lambda x: first(x).sum())
    assert np.asarray(tracer.compile(first)(x)).tolist() == [0, 0, 0, 1, 1, 1]
    assert np.asarray(tracer.compile(second)(x)).tolist() == [0] * 6


def test_hard_tanh_of_bools():
    assert np.asarray(nn.hard_tanh(np.array([False, True]))).tolist() == [False, True]


@pytest.mark.parametrize(("scale", "offset"), [(300, 0), (1, 500)])
@pytest.mark.parametrize(
    "function", [nn.layer_norm, partial(nn.standardize, algorithm="stable")], ids=["layer", "other"]
)
def test_statistics_of_float16_are_computed_in_more_bits(rng, function, scale, offset):
    """Squares overflowed and all results were 0; a rounded mean left 0.14."""
    x = (scale * rng.normal(size=(4, 64)) + offset).astype("float16")
    wide = x.astype("float64")
    expected = (wide - wide.mean(-1, keepdims=True)) / wide.std(-1, keepdims=True)
    for found in (function(x), tracer.compile(function)(x)):
        assert found.dtype == np.float16
        np.testing.assert_allclose(np.asarray(found), expected, atol=2e-3)


def test_standardize_has_the_dtype_of_given_statistics():
    x = np.ones((2, 3), "float16")
    assert nn.standardize(x, mean=0.0, variance=1.0).dtype == np.float16
    assert nn.standardize(x, variance=np.ones((2, 1), "float32")).dtype == np.float32


def test_softmax_runs_along_the_last_axis(rng):
    x = rng.normal(size=(3, 4))
    assert_same(nn.softmax(x), scipy.special.softmax(x, -1))
    assert_same(nn.softmax(x, 0), scipy.special.softmax(x, 0))


def test_relu_keeps_nan():
    x = np.array([np.nan, -np.inf, -0.0, 0.0, 2.0, np.inf])
    assert_same(nn.relu(x), np.maximum(x, 0))
    slopes = tracer.vmap(tracer.grad(nn.relu))(x[1:])
    assert slopes.tolist() == [0, 0, 0, 1, 1]


def test_one_hot_of_numbers_that_are_no_class():
    assert_same(nn.one_hot(np.array([0.5, 1.0, np.nan, 2.5]), 3), np.eye(5, 3)[[4, 1, 4, 4]])
    assert_same(nn.one_hot(np.array([1, -1], "int8"), 300)[:, :2], np.array([[0.0, 1], [0, 0]]))


def test_one_hot():
    assert_same(nn.one_hot([0, 2, -1, 3], 3), np.eye(4, 3)[[0, 2, 3, 3]])
    codes = nn.one_hot(np.array([[1], [0]]), 2, dtype="float32", axis=0)
    assert_same(codes, np.array([[[0], [1]], [[1], [0]]], np.float32))


def _attention(q, k, v, visible=None):
    scores = np.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    if visible is not None:
        scores = np.where(visible, scores, -1e30)
    return np.einsum("bhqk,bkhd->bqhd", scipy.special.softmax(scores, -1), v)


def test_attention(rng):
    q, k, v = (rng.normal(size=(2, length, 3, 4)) for length in (5, 6, 6))
    assert_same(nn.dot_product_attention(q, k, v), _attention(q, k, v))
    mask = rng.random((2, 1, 5, 6)) < 0.7
    assert_same(nn.dot_product_attention(q, k, v, mask=mask), _attention(q, k, v, mask))
    causal = np.tril(np.ones((5, 6), bool))
    found = nn.dot_product_attention(q, k, v, mask=mask, is_causal=True)
    rows = (mask & causal).any(-1)[:, 0, :, None, None]
    expected = _attention(q, k, v, mask & causal)
    assert_same(tnp.where(rows, found, 0), np.where(rows, expected, 0))
    shifted = nn.dot_product_attention(q, k, v, bias=np.where(mask, 0.0, -1e30), scale=0.5)
    assert_same(shifted, _attention(q, k, v, mask))  # 0.5 is 1 / sqrt(4)


def test_attention_with_shared_heads(rng):
    q = rng.normal(size=(2, 5, 4, 3))
    k, v = rng.normal(size=(2, 6, 2, 3)), rng.normal(size=(2, 6, 2, 7))
    expected = _attention(q, k.repeat(2, 2), v.repeat(2, 2))
    assert_same(nn.dot_product_attention(q, k, v), expected)
    with pytest.raises(ShapeError, match="do not fit"):
        nn.dot_product_attention(q, k[:, :, :0], v)
    with pytest.raises(ShapeError, match="attention"):
        nn.dot_product_attention(q, k[..., :2], v)


def test_against_jax(rng):
    jax = pytest.importorskip("jax")
    x = rng.normal(size=(4, 5)).astype("float32")
    for name in (*FORMULAS, "gelu"):
        expected = np.asarray(getattr(jax.nn, name)(x))
        np.testing.assert_allclose(np.asarray(getattr(nn, name)(x)), expected, rtol=2e-5, atol=1e-6)
