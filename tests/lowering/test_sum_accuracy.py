"""Long sums of float32 are as exact as sums by blocks, whole, in loops, split, and in gradients.

A running sum in one chain is off by up to its number of terms times half of eps: 16,384 x 63 times
0.1 was off by a hundredth. NumPy's pairwise sums and XLA's own tree of 32 stay below 4 eps along
contiguous axes; stages of about 256 elements (`target/reductions.py`) below a hundred for
equal terms, which all round in the same direction, and below a few for any others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp

pytestmark = pytest.mark.xla

EPS = float(np.finfo(np.float32).eps)
EQUAL, RANDOM = 100 * EPS, 12 * EPS
SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((16_381,), (0,)),
    ((1_000_003,), (0,)),
    ((16_384, 63), (0, 1)),
    ((3001, 7), (0, 1)),
    ((7, 3001), (0, 1)),
    ((192, 24, 24, 16), (0, 1, 2, 3)),
    ((16, 16, 48, 48), (0, 1, 2, 3)),
    ((47, 47, 47), (0, 1, 2)),
    ((63, 16_384), (0, 1)),
    ((20_011, 8), (0,)),
    ((4, 2000, 5), (0, 1)),
    ((61, 61, 61, 2), (0, 1, 2)),
    ((64, 64), (0, 1)),
]
Axes = tuple[int, ...]


def plain(x: Any, axes: Axes) -> Any:
    return tnp.sum(x, axis=axes)


def of_costly_terms(x: Any, axes: Axes) -> Any:
    """Axes that no divisor cuts are not padded where their elements are costly to compute."""
    return tnp.sum(tnp.exp(tnp.log(x)), axis=axes)


def in_a_loop(x: Any, axes: Axes) -> Any:
    """Small barriers are left out of loops, and XLA merged the stages."""

    def body(_: Any, carry: Any) -> Any:
        return tnp.sum(x + tnp.ravel(carry)[0] * 0, axis=axes)

    start = tnp.zeros([n for i, n in enumerate(x.shape) if i not in axes], x.dtype)
    return tracer.fori_loop(0, 2, body, start)


WAYS: dict[str, Callable[..., Any]] = {f.__name__: f for f in (plain, of_costly_terms, in_a_loop)}


def error(got: Any, want: Any) -> float:
    """Return the largest relative error, in float64."""
    return float(np.max(np.abs(np.asarray(got, np.complex128) - want) / np.abs(want)))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("shape", "axes"), SHAPES)
def test_a_long_sum_is_as_exact_as_one_by_blocks(
    shape: tuple[int, ...], axes: Axes, way: str
) -> None:
    compiled = tracer.compile(lambda x: WAYS[way](x, axes))
    equal = np.full(shape, 0.1, np.float32)
    random = np.random.default_rng(0).random(shape, dtype=np.float32) + np.float32(0.01)
    for x, bound in ((equal, EQUAL), (random, RANDOM)):
        assert error(compiled(x), x.sum(axes, dtype=np.float64)) < bound


@pytest.mark.parametrize("shape", [(3001, 7), (63, 16_384)])
def test_complex_sums_are_as_exact(shape: tuple[int, int]) -> None:
    x = np.full(shape, 0.1 + 0.3j, np.complex64)
    for way in WAYS.values():
        compiled = tracer.compile(lambda x, way=way: way(x, (0, 1)))
        assert error(compiled(x), x.sum(dtype=np.complex128)) < EQUAL


def test_sums_of_minus_zeros_and_of_what_is_not_finite_stay_what_they_are() -> None:
    """Stages begin with 0 and -0 in turns."""
    total = tracer.compile(lambda x: tnp.sum(x))
    zeros = np.zeros((600, 700), np.float32)
    for x in (zeros, -zeros):
        assert np.asarray(total(x)).tobytes() == np.zeros((), np.float32).tobytes()
    infinite = zeros.copy()
    infinite[3, 5] = np.inf
    assert total(infinite) == np.inf
    infinite[500, 5] = -np.inf
    assert np.isnan(total(infinite))


LOSSES: dict[str, Callable[[Any], Any]] = {
    "mean": lambda x: tnp.mean(x * x),
    "norm": lambda x: tnp.linalg.norm(x),
    "variance": lambda x: tnp.var(x) + tnp.mean(x),
    "product with ones": lambda x: tnp.ones(x.shape[0], x.dtype) @ x @ tnp.ones(7, x.dtype),
}


INNER: dict[str, tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...]]] = {
    "vectors": (lambda x, y: x @ y, (100_003,), (100_003,)),
    "a row and a column": (lambda x, y: x @ y, (1, 30_000), (30_000, 1)),
    "matrices": (lambda x, y: tnp.einsum("ij,ij->", x, y), (300, 70), (300, 70)),
    "turned": (lambda x, y: tnp.einsum("ij,ji->", x, y), (300, 70), (70, 300)),
    "unit axes": (lambda x, y: tnp.tensordot(x, y, 3), (1, 300, 70), (1, 300, 70)),
}


@pytest.mark.parametrize("name", INNER)
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_inner_products(name: str, dtype: str) -> None:
    """XLA makes one reduction of them, of one chain."""
    function, first, second = INNER[name]
    x, y = np.full(first, 0.1, dtype), np.full(second, 0.7, dtype)
    x[..., ::2] *= 3
    compiled = tracer.compile(function)
    assert error(compiled(x, y), function(*(a.astype("complex128") for a in (x, y)))) < EQUAL
    wide = [a.astype("float64") for a in (x.real, y.real)]
    assert abs(tracer.compile(function)(*wide) / function(*wide) - 1) < 1e-12


@pytest.mark.parametrize("name", LOSSES)
def test_means_norms_and_products_with_ones(name: str) -> None:
    x = np.full((30_011, 7), 0.1, np.float32)
    x[::2] = 0.7
    loss = LOSSES[name]
    want = tracer.compile(loss)(x.astype(np.float64))
    assert error(tracer.compile(loss)(x), np.asarray(want)) < EQUAL


def test_the_loss_of_a_network_that_is_computed_in_trips() -> None:
    """Its trips sum 6 x 16 x 36 x 36 elements each, to 6 x 16 first: they were one chain."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((48, 3, 36, 36), np.float32)
    kernels = [
        rng.standard_normal(shape, np.float32) / 10 for shape in ((16, 3, 3, 3), (16, 16, 3, 3))
    ]

    def loss(x: Any, first: Any, second: Any) -> Any:
        hidden = tracer.nn.relu(tracer.nn.conv_general_dilated(x, first, (1, 1), "SAME"))
        found = tracer.nn.conv_general_dilated(hidden, second, (1, 1), "SAME")
        return tnp.mean(tnp.tanh(found) ** 2)

    gradient = tracer.value_and_grad(loss, argnums=(1, 2))
    compiled = tracer.compile(gradient, memory_limit="12MB")
    assert compiled.plan(x, *kernels).loops
    value, slopes = compiled(x, *kernels)
    doubled = [array.astype(np.float64) for array in (x, *kernels)]
    exact, exact_slopes = tracer.compile(gradient, split="never")(*doubled)
    assert error(value, np.asarray(exact)) < RANDOM
    for got, want in zip(slopes, exact_slopes, strict=True):
        off = np.abs(np.asarray(got) - np.asarray(want)).max() / np.abs(np.asarray(want)).max()
        assert off < 64 * EPS


def test_the_gradient_of_a_broadcast_is_a_long_sum() -> None:
    x = np.full((20_011, 8), 0.1, np.float32)
    bias = np.zeros(8, np.float32)
    gradient = tracer.compile(tracer.grad(lambda b: tnp.sum(x * (1 + b))))
    assert error(gradient(bias), x.sum(0, dtype=np.float64)) < EQUAL


@pytest.mark.parametrize("shape", [(1_000_003,), (3001, 7), (16_384, 63)])
def test_numpy_is_no_more_than_a_few_digits_better(shape: tuple[int, ...]) -> None:
    """Random signs: the error against what is added, as cancellation loses digits in any order."""
    x = np.random.default_rng(1).standard_normal(shape, np.float32)
    got = float(tracer.compile(lambda x: tnp.sum(x))(x))
    exact = x.sum(dtype=np.float64)
    scale = EPS * math.sqrt(x.size)
    assert abs(got - exact) < 4 * scale
    assert abs(float(x.sum()) - exact) < 4 * scale


@pytest.mark.parametrize(
    ("form", "left", "right"),
    [
        ("bij,bij->b", (3, 301, 50), (3, 301, 50)),
        ("ibj,jbi->b", (301, 3, 50), (50, 3, 301)),
        ("ibjc,cjib->cb", (90, 2, 70, 3), (3, 70, 90, 2)),
        ("ibjc,cjib->bc", (90, 1, 70, 3), (3, 70, 90, 1)),
        ("bi,bi->b", (1, 20_000), (1, 20_000)),
    ],
)
def test_a_long_inner_product_for_each_of_a_batch(
    form: str, left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.choice((0.1, 0.3, 0.7), shape).astype("float32") for shape in (left, right))
    wanted = np.einsum(form, x.astype("float64"), y.astype("float64"))
    found = np.asarray(tracer.compile(lambda x, y: tnp.einsum(form, x, y))(x, y))
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() < RANDOM * wanted.max()
