"""Convolution, pooling and normalisation of tracer.nn: formulas, scipy, jax, memory limits."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.signal

import tracer
import tracer.numpy as tnp
from tests.numpy.oracle import assert_same
from tracer import nn
from tracer.errors import ArgumentError, AxisError, DTypeError, ShapeError

LAYOUT = ("NHWC", "HWIO", "NHWC")


@pytest.mark.xla
def test_conv_is_scipys_correlation(rng):
    x, kernel = rng.normal(size=(2, 6, 7, 3)), rng.normal(size=(3, 2, 3, 4))
    got = np.asarray(nn.conv(x, kernel, padding="VALID"))
    for n in range(2):
        for out in range(4):
            wanted = scipy.signal.correlate(x[n], kernel[..., out], mode="valid")[..., 0]
            np.testing.assert_allclose(got[n, ..., out], wanted)


@pytest.mark.xla
@pytest.mark.parametrize("ndim", [1, 3])
def test_conv_of_other_dimensions(ndim, rng):
    x, kernel = rng.normal(size=(2, *(5,) * ndim, 2)), rng.normal(size=(*(2,) * ndim, 2, 3))
    got = np.asarray(nn.conv(x, kernel, padding="VALID"))
    wanted = scipy.signal.correlate(x[1], kernel[..., 2], mode="valid")[..., 0]
    np.testing.assert_allclose(got[1, ..., 2], wanted)


CASES = {
    "same": {"padding": "SAME", "window_strides": 2},
    "same lower": {"padding": "same_lower", "window_strides": (2, 3)},
    "valid, dilated": {"padding": "VALID", "rhs_dilation": 2},
    "pairs": {"padding": [(1, 2), (0, -1)], "lhs_dilation": (2, 1)},
    "groups": {"padding": "SAME", "feature_group_count": 2},
    "batch groups": {"padding": "VALID", "batch_group_count": 2, "rhs_features": 4},
    "layout": {"padding": "SAME", "dimension_numbers": ("CWNH", "OWHI", "HNCW")},
}


def _jax_params(params, count=2):
    keys = ("window_strides", "lhs_dilation", "rhs_dilation")
    full = {"window_strides": 1} | params
    spread = {k: (v,) * count if isinstance(v, int) else v for k, v in full.items() if k in keys}
    return full | spread | {"padding": _upper(params["padding"])}


def _upper(padding):
    return padding.upper() if isinstance(padding, str) else padding


@pytest.mark.parametrize("name", CASES)
def test_conv_general_dilated_is_jaxs(name, rng):
    jax = pytest.importorskip("jax")
    params = dict(CASES[name])
    inputs = params.pop("rhs_features", 4 // params.get("feature_group_count", 1))
    layout = params.get("dimension_numbers", ("NCHW", "OIHW", "NCHW"))
    sizes = {"N": 2, "C": 4, "H": 7, "W": 6, "O": 6, "I": inputs}
    x = rng.normal(size=[sizes[letter] for letter in layout[0]])
    kernel_sizes = sizes | {"H": 3, "W": 2}
    kernel = rng.normal(size=[kernel_sizes[letter] for letter in layout[1]])
    with jax.enable_x64(True):
        wanted = jax.lax.conv_general_dilated(x, kernel, **_jax_params(params))
        assert_same(nn.conv_general_dilated(x, kernel, **params), np.asarray(wanted))


@pytest.mark.xla
def test_narrow_floats_are_summed_wide():
    x, kernel = np.ones((1, 3000, 1), "float16"), np.ones((3000, 1, 1), "float16")
    kernel[1500:] = 2.0**-3
    got = nn.conv(x, kernel, padding="VALID")
    assert got.dtype == np.float16
    assert float(got[0, 0, 0]) == 1500 + 1500 / 8 + 0.5  # 1687.5 is no float16: 1688


@pytest.mark.xla
def test_integers_stay_and_dtypes_promote():
    x = np.arange(12, dtype="int32").reshape(1, 6, 2)
    assert nn.conv(x, np.ones((2, 2, 1), "int32")).dtype == np.int32
    assert nn.conv(x.astype("float32"), np.ones((2, 2, 1))).dtype == np.float64


@pytest.mark.xla
def test_pooling(rng):
    x = rng.normal(size=(2, 6, 5, 3))
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 2), (1, 2))
    largest, mean = windows.max((-1, -2)), windows.mean((-1, -2))
    assert_same(nn.max_pool(x, (3, 2), strides=1), largest)
    assert_same(nn.max_pool(x, (3, 2)), largest[:, ::3, ::2])
    assert_same(nn.avg_pool(x, (3, 2), strides=(2, 1)), mean[:, ::2])
    assert nn.avg_pool(x.astype("float32"), 2).dtype == np.float32
    assert nn.avg_pool(np.ones((1, 4, 1), "int8"), 2).dtype == np.float64


@pytest.mark.xla
def test_pooling_of_padding():
    x = np.arange(1.0, 4.0).reshape(1, 3, 1)
    assert nn.max_pool(-x, 2, padding="SAME").ravel().tolist() == [-1, -3]
    assert nn.avg_pool(x, 2, padding="SAME").ravel().tolist() == [1.5, 1.5]
    own = nn.avg_pool(x, 2, padding="SAME", count_include_pad=False)
    assert own.ravel().tolist() == [1.5, 3]
    assert nn.avg_pool(x, 2, strides=1, padding=1).ravel().tolist() == [0.5, 1.5, 2.5, 1.5]


@pytest.mark.xla
def test_normalisation(rng):
    x, scale, offset = rng.normal(size=(4, 3, 5)), rng.normal(size=5), rng.normal(size=5)
    mean, variance = x.mean((0, 1)), x.var((0, 1))
    wanted = (x - mean) / np.sqrt(variance + 1e-5) * scale + offset
    assert_same(nn.batch_norm(x, mean, variance, scale, offset), wanted)
    first = nn.batch_norm(np.moveaxis(x, -1, 1), mean, variance, scale, offset, axis=1)
    np.testing.assert_allclose(np.asarray(first), np.moveaxis(wanted, -1, 1))
    own = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    assert_same(nn.layer_norm(x, scale, offset), own * scale + offset)
    both = (x - x.mean((1, 2), keepdims=True)) / np.sqrt(x.var((1, 2), keepdims=True) + 1e-3)
    assert_same(nn.layer_norm(x, axis=(1, 2), epsilon=1e-3), both)


def test_gradients(rng):
    x, kernel = rng.normal(size=(2, 5, 5, 2)), rng.normal(size=(3, 3, 2, 3))

    def loss(x, kernel):
        hidden = nn.max_pool(tnp.tanh(nn.conv(x, kernel, strides=2)), 2, strides=1)
        mean, variance = hidden.mean((0, 1, 2)), hidden.var((0, 1, 2))
        normal = nn.layer_norm(nn.batch_norm(hidden, mean, variance, epsilon=0.1), epsilon=0.1)
        return (normal * tnp.sin(nn.avg_pool(hidden, 2, strides=1, padding="SAME"))).sum()

    tracer.check_grads(loss, (x, kernel), order=2)


@pytest.mark.xla
def test_a_batch_of_kernels(rng):
    x, kernels = rng.normal(size=(2, 5, 2)), rng.normal(size=(4, 3, 2, 3))
    got = tracer.vmap(lambda kernel: nn.conv(x, kernel))(kernels)
    wanted = np.stack([np.asarray(nn.conv(x, kernel)) for kernel in kernels])
    np.testing.assert_allclose(np.asarray(got), wanted)


@pytest.mark.xla
def test_dropout():
    x = np.full((100, 50), 3.0, "float32")
    y = np.asarray(nn.dropout(tracer.random.key(1), x, rate=0.25))
    assert y.dtype == np.float32
    assert set(np.unique(y)) == {0.0, 4.0}
    assert abs((y == 0).mean() - 0.25) < 0.03
    same = tracer.compile(lambda key, x: nn.dropout(key, x, rate=0.25))(tracer.random.key(1), x)
    np.testing.assert_array_equal(np.asarray(same), y)
    np.testing.assert_array_equal(np.asarray(nn.dropout(tracer.random.key(1), x, rate=0.0)), x)


X, KERNEL = np.ones((1, 4, 4, 2)), np.ones((3, 3, 2, 1))
BAD = [
    (lambda: nn.conv(X, KERNEL, padding="ALL"), ArgumentError, "no padding 'ALL'"),
    (lambda: nn.conv(X, KERNEL, padding=[(1, 1)]), ShapeError, "1 spatial axes"),
    (lambda: nn.conv(X, KERNEL, padding=[(1, 1, 1)] * 2), DTypeError, "not the padding of an axis"),
    (lambda: nn.conv(X, KERNEL, strides=1.5), DTypeError, "not integers"),
    (lambda: nn.conv(X, KERNEL, strides=(1, 1, 1)), ShapeError, "3 spatial axes"),
    (lambda: nn.conv(X, KERNEL, strides=0, padding="VALID"), ArgumentError, "not positive"),
    (lambda: nn.conv(X, KERNEL, strides=0), ArgumentError, "not positive"),
    (lambda: nn.conv(X, KERNEL[0]), ShapeError, "as many dimensions"),
    (lambda: nn.conv(X, KERNEL[:, :, :1]), ShapeError, "has 2 features"),
    (lambda: nn.conv(X > 0, KERNEL > 0), DTypeError, "not bool"),
    (
        lambda: nn.conv_general_dilated(X, KERNEL, 1, "SAME", 2, dimension_numbers=LAYOUT),
        ArgumentError,
        "a dilated array",
    ),
    (
        lambda: nn.conv_general_dilated(X, KERNEL, dimension_numbers=("NHWC", "HWIO", "NHW")),
        ArgumentError,
        "three strings",
    ),
    (
        lambda: nn.conv_general_dilated(X, KERNEL, dimension_numbers=("NHWC", "HWIO", "NHXC")),
        ArgumentError,
        "same spatial letters",
    ),
    (lambda: nn.max_pool(X[0, 0], 2), ShapeError, "needs a spatial axis"),
    (lambda: nn.max_pool(X > 0, 2), DTypeError, "bools"),
    (lambda: nn.max_pool(X * 1j, 2), DTypeError, "not complex"),
    (lambda: nn.avg_pool(X, (2, 0)), ArgumentError, "not positive"),
    (lambda: nn.batch_norm(X, np.ones(3), np.ones(2)), ShapeError, "mean of shape (3,)"),
    (lambda: nn.dropout(tracer.random.key(0), X, rate=1.0), ArgumentError, "rate of 1.0"),
    (lambda: nn.layer_norm(X, axis=4), AxisError, "axis 4"),
]


@pytest.mark.xla
@pytest.mark.parametrize(("call", "error", "told"), BAD)
def test_bad_inputs(call, error, told):
    with pytest.raises(error, match=re.escape(told)) as caught:
        call()
    assert "mend:" in str(caught.value)


# A network whose activations do not fit: the batch is cut, the weights' gradients are accumulated.


def _loss(params, x, labels, pool):
    first, bias, second, last = params
    hidden = pool(nn.relu(nn.conv(x, first) + bias))
    hidden = pool(nn.relu(nn.conv(hidden, second)))
    scores = nn.log_softmax(hidden.reshape(x.shape[0], -1) @ last)
    return -tnp.sum(nn.one_hot(labels, 10) * scores) / x.shape[0]


def _network(rng, batch):
    shapes = [(3, 3, 3, 16), (16,), (3, 3, 16, 32), (8 * 8 * 32, 10)]
    params = [rng.normal(size=shape).astype("float32") * 0.1 for shape in shapes]
    x = rng.normal(size=(batch, 32, 32, 3)).astype("float32")
    return params, x, rng.integers(0, 10, batch)


@pytest.mark.slow
@pytest.mark.xla
@pytest.mark.parametrize("pool", [nn.max_pool, nn.avg_pool])
def test_a_network_runs_within_a_limit(pool, rng):
    batch, limit = 64, 8_000_000
    arguments = _network(rng, batch)
    function = tracer.value_and_grad(lambda *args: _loss(*args, lambda x: pool(x, 2)))
    whole, limited = tracer.compile(function), tracer.compile(function, memory_limit=limit)
    wanted, gradients = whole(*arguments)
    plan = limited.plan(*arguments)
    value, found = limited(*arguments)
    assert plan.loops
    assert plan.compiled_bytes <= limit < whole.plan(*arguments).compiled_bytes
    assert any(f"axis of {batch}" in loop.axis for loop in plan.loops)
    assert any("add" in loop.combiners for loop in plan.loops)
    np.testing.assert_allclose(float(value), float(wanted), rtol=1e-6)
    for got, want in zip(found, gradients, strict=True):
        scale = float(np.abs(np.asarray(want)).max())
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), atol=1e-5 * scale)


@pytest.mark.xla
def test_a_forward_pass_runs_within_a_limit(rng):
    arguments = _network(rng, 64)
    whole = tracer.compile(lambda *args: _loss(*args, lambda x: nn.max_pool(x, 2)))
    limited = tracer.compile(
        lambda *args: _loss(*args, lambda x: nn.max_pool(x, 2)), memory_limit="3MB"
    )
    plan = limited.plan(*arguments)
    assert plan.compiled_bytes <= 3_000_000
    # The batch is cut first; a trip may be cut again.
    assert "axis of 64" in plan.loops[0].axis
    assert plan.loops
    np.testing.assert_allclose(float(limited(*arguments)), float(whole(*arguments)), rtol=1e-6)
