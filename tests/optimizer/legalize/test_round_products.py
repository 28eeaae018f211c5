"""Differences of equal products are zero: what is written, and the signs that come of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import rewritten
from tracer.optimizer.legalize.rounded_products import rounded_products_pass
from tracer.scipy import special

pytestmark = pytest.mark.xla
Function = Callable[..., Any]


def rounded(function: Function, *shapes: tuple[int, ...], dtype: str = "float32") -> int:
    """Return how many products are rounded."""
    types = [tracer.ShapeDtype(shape, dtype) for shape in shapes]
    rows = tracer.compile(function).plan(*types).passes
    return sum(len(row.applied) for row in rows if row.name == "round products")


def test_what_is_written() -> None:
    before = """
        graph(%0: float32[5], %1: float32[5]) {
          %2: float32[5] = multiply(%0, %1) {}
          %3: float32[5] = subtract(%2, %1) {}
          %4: float32[5] = sign(%3) {}
          return %4
        }"""
    assert rewritten(rounded_products_pass(), before) == (
        """
graph(%0: float32[5], %1: float32[5]) {
  %2: float32[5] = multiply(%0, %1)
  %3: bool[5] = compare(%2, %2) {direction='NE'}
  %4: float32[] = constant() {value=float32[] nan}
  %5: float32[5] = broadcast_in_dim(%4) {shape=(5,), dimensions=()}
  %6: float32[5] = select(%3, %5, %2)
  %7: float32[5] = subtract(%6, %1)
  %8: float32[5] = sign(%7)
  return %8
}""".strip()
    )


def test_what_is_left_alone() -> None:
    assert rounded(lambda x, y: ((x * y)[:, None] - x * y).sum(1), (30,), (30,)) == 0
    assert rounded(lambda x, y: ((x + y)[:, None] - x > 0).sum(1), (30,), (30,)) == 0
    assert rounded(lambda x, y: x @ (x[:, None] * y + 1) @ y > 0, (30,), (30,)) == 0
    assert rounded(lambda x, y: (x * y)[:, None] - x * y > 0, (30,), (30,), dtype="int32") == 0
    # What is exact, what cannot vanish, what no last digit changes, and long sums.
    assert rounded(lambda x, y: x * 0.5 - y * -2.0 > y / 8, (30,), (30,)) == 0
    assert rounded(lambda x, y: ((x - y) ** 2).sum(1) > 1, (30, 3), (30, 3)) == 0
    assert (
        rounded(lambda x, y: tnp.sqrt(x**2 + 3 * y**2 + 1) / (1 + abs(x) * y**2), (9,), (9,)) == 0
    )
    assert rounded(lambda x, y: tnp.isfinite(x * y - x), (30,), (30,)) == 0
    assert rounded(lambda x, y: x * y - x < tnp.inf, (30,), (30,)) == 0
    assert rounded(lambda x, y: tracer.stop_gradient(x * y - x), (30,), (30,)) == 0
    assert rounded(lambda x, y: (x * y).sum(1) > 0, (30, 9), (30, 9)) == 0


def distances(x: tracer.Array, shift: tracer.Array) -> tracer.Array:
    """Distances of what was squared, with ties on the diagonal."""
    w = (x - shift) ** 2
    return tnp.abs(w[:, None] - w).sum()


def largest(x: tracer.Array, y: tracer.Array) -> tracer.Array:
    """The sum of the largest of each row of each table, in which a square is repeated."""
    return tnp.max((x**2)[:, None] - y, axis=1).sum()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("size", "limit"), [(50, None), (300, None), (1009, None), (2000, "200kB")]
)
def test_equal_products_have_no_difference(dtype: str, size: int, limit: str | None) -> None:
    """A contracted difference has a sign of its own in each kernel: up to 2 % of the gradient."""
    x = np.random.default_rng(size).standard_normal(size).astype(dtype)
    shift = np.full(1, 0.3, dtype)
    signs = np.sign(((x - shift) ** 2)[:, None] - (x - shift) ** 2)
    found = tracer.compile(tracer.grad(distances), memory_limit=limit)(x, shift)
    expected = (signs.sum(1) - signs.sum(0)) * 2 * (x - shift)
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5)


@pytest.mark.parametrize("size", [8, 16, 40])
@pytest.mark.parametrize("in_axes", [(None, None), (0, 0), (0, None), (None, 0)])
def test_a_largest_difference_is_found_again(size: int, in_axes: tuple[int | None, ...]) -> None:
    """The difference that equals the largest: in another kernel it was contracted otherwise."""
    rng = np.random.default_rng(0)
    shapes = (size, size), (6, size)
    x, y = (
        rng.standard_normal(shape if axis is None else (3, *shape))
        for shape, axis in zip(shapes, in_axes, strict=True)
    )
    gradient = tracer.grad(largest, argnums=(0, 1))
    is_batch = in_axes != (None, None)
    found = tracer.compile(tracer.vmap(gradient, in_axes=in_axes) if is_batch else gradient)(x, y)
    difference = (x**2)[..., :, None, :] - y[..., None, :, :]
    is_largest = difference == difference.max(-2, keepdims=True)
    np.testing.assert_array_equal(np.asarray(found[0]), is_largest.sum(-2) * 2 * x)
    np.testing.assert_array_equal(np.asarray(found[1]), -is_largest.sum(-3))


FORMS: dict[str, Function] = {
    "square": lambda x: x**2,
    "power": lambda x: x**2.5,
    "cube": lambda x: x**3,
    "scaled": lambda x: -(x * 1.3),
    "quotient": lambda x: x / 7.3,
    "quotient by an argument": lambda x: x / x[0],
    "scaled logarithm": tnp.log2,
    "gate": lambda x: x * special.expit(x),
    "tanh": tnp.tanh,
    "arcsin": tnp.arcsin,
    "sine": tnp.sin,
    "erf": special.erf,
    "expm1": tnp.expm1,
    "logarithm": tnp.log1p,
    "cube root": tnp.cbrt,
}
"""Functions whose kernels end with a product, and others."""


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("form", FORMS)
def test_equal_values_have_no_difference(form: str, dtype: str) -> None:
    function = FORMS[form]
    x = np.random.default_rng(0).uniform(0.05, 0.95, 203).astype(dtype)

    def signs(x: tracer.Array) -> tuple[tracer.Array, ...]:
        value, alike = function(x), function(x * 0 + x[0])
        table = value[:, None] - value
        is_largest = table == table.max(1, keepdims=True)
        return tnp.diagonal(tnp.sign(table)), tnp.sign(tnp.diff(alike)), is_largest.sum(1) - 1

    for found in tracer.compile(signs)(x):
        np.testing.assert_array_equal(np.asarray(found), 0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_parallel_vectors_have_no_orientation(dtype: str) -> None:
    p = np.random.default_rng(0).standard_normal((2, 1000)).astype(dtype)

    def signs(p: tracer.Array, q: tracer.Array) -> tuple[tracer.Array, ...]:
        normal = tnp.stack([q[1], -q[0]])
        sums = (
            p[0] * q[1] - p[1] * q[0],
            tnp.stack([p[0] * q[1], -(p[1] * q[0])]).sum(0),
            (p * normal).sum(0),
            (p * normal).T.mean(1),
            tnp.cumsum(p * normal, axis=0)[1],
        )
        return tuple(map(tnp.sign, sums))

    for found in tracer.compile(signs)(p, p * 4):
        np.testing.assert_array_equal(np.asarray(found), 0)


JUMPS: dict[str, Function] = {
    "truth": lambda d: d.astype(bool),
    "integer": lambda d: (d + 3).astype("int32") - 3,
    "logarithm": lambda d: tnp.exp(tnp.log(tnp.abs(d))),
    "root": lambda d: tnp.sqrt(d),
    "quotient": lambda d: 1 / (1 / d),
    "angle": lambda d: tnp.arctan2(tnp.abs(d), 1e-30),
    "order": lambda d: tnp.argsort(d) - tnp.arange(d.size),
    "largest": lambda d: tnp.argmax(tnp.abs(d)),
    "sorted": lambda d: tnp.sort(d)[-1] != 0,
    "extreme": lambda d: d.max() != 0,
    "relu": lambda d: d > 0,
    "batch": lambda d: tracer.vmap(tnp.sign)(d),
}
"""What is zero for zeros, and else not: not by more than a rounding."""


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("jump", JUMPS)
def test_what_a_zero_decides(jump: str, dtype: str) -> None:
    x, y = np.random.default_rng(0).standard_normal((2, 500)).astype(dtype)
    found = tracer.compile(lambda x, y, z: JUMPS[jump](x * y - z))(x, y, x * y)
    np.testing.assert_array_equal(np.asarray(found), 0)


def test_what_is_rounded_is_the_product() -> None:
    """Infinities, NaN, zeros of both signs and subnormal products come through."""
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-160, 3e153], np.float64)
    with np.errstate(all="ignore"):
        expected = x[:, None] * x - 1 > x, x[:, None] * x - 1
    found = tracer.compile(lambda x: (x[:, None] * x - 1 > x, x[:, None] * x - 1))(x)
    for mine, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(mine), wanted)


def of_length(x: tracer.Array, length: tracer.Array, v: tracer.Array) -> tracer.Array:
    z = x / length
    d2 = ((z[:, None, :] - z[None, :, :]) ** 2).sum(-1)
    return v @ tnp.exp(-0.5 * d2) @ v


@pytest.mark.parametrize("features", [1, 2, 9])
def test_scaled_points_far_from_the_origin_are_the_same_in_all_kernels(features: int) -> None:
    """The gradient for the scale was 7 to 20 % off: one kernel rounded a point, others did not."""
    rng = np.random.default_rng(4)
    x = (rng.normal(size=(300, features)) + 1000).astype(np.float32)
    length = (rng.random(features) + 0.5).astype(np.float32)
    v = rng.normal(size=300).astype(np.float32)
    z = (x / length).astype(np.float64)
    squares = (z[:, None] - z) ** 2
    weights = v[:, None] * np.exp(-0.5 * squares.sum(-1)) * v
    expected = (squares * weights[..., None]).sum((0, 1)) / length
    found = tracer.compile(tracer.grad(of_length, argnums=1))(x, length, v)
    np.testing.assert_allclose(np.asarray(found), expected, atol=5e-3 * abs(expected).max())


def scaled_softmax(x: Any, scale: Any, axis: int | None) -> Any:
    return tracer.nn.softmax(x * scale, axis=axis)


def scaled_logsumexp(x: Any, scale: Any, axis: int | None) -> Any:
    return special.logsumexp(x / (1 / scale), axis=axis)


def by_hand(x: Any, scale: Any, axis: int | None) -> Any:
    least = (x * scale).min(axis, keepdims=True)
    terms = tnp.exp(least - x * scale)
    return terms / terms.sum(axis, keepdims=True)


@pytest.mark.parametrize("function", [scaled_softmax, scaled_logsumexp, by_hand])
@pytest.mark.parametrize(
    ("dtype", "scale"), [("float32", 1e10), ("float32", -3e25), ("float64", 1e100)]
)
@pytest.mark.parametrize("axis", [0, 1, None])
def test_no_exponential_is_of_more_than_its_extreme(
    function: Function, dtype: str, scale: float, axis: int | None
) -> None:
    """Whole, and in trips: there the largest is what a loop carries, or an earlier one found."""
    x = np.random.default_rng(0).standard_normal((60, 300)).astype(dtype)
    number = np.dtype(dtype).type(scale)

    def run(x: Any) -> Any:
        return function(x, number, axis)

    wanted = run(tnp.asarray(x))
    assert np.isfinite(wanted).all()
    whole = tracer.compile(run)
    limited = tracer.compile(run, memory_limit=int(1.1 * whole.plan(x).minimum_bytes) + 64)
    for compiled in (whole, limited):
        np.testing.assert_allclose(compiled(x), wanted, rtol=1e-5)


def test_what_an_extreme_is_taken_from_is_rounded_where_it_is_a_product() -> None:
    def softmax(x: Any, scale: Any) -> Any:
        return tracer.nn.softmax(x * scale, axis=1)

    assert rounded(softmax, (300, 40), ()) == 1
    assert rounded(lambda x: tracer.nn.softmax(x * 0.125, axis=1), (300, 40)) == 0
    assert rounded(lambda x: tracer.nn.softmax(x + 3, axis=1), (300, 40)) == 0
    assert rounded(lambda x, y: tracer.nn.softmax(x @ y, axis=1), (30, 40), (40, 30)) == 0
