"""A limit around vmap, around a gradient of a gradient, around scan; and a limit inside of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp

pytestmark = pytest.mark.xla

N = 700
LIMIT = 1_000_000
"""Half of one matrix of N x N numbers."""


def product(x: Any, y: Any, v: Any) -> Any:
    return tnp.exp(-0.5 * ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)) @ v


def loss(scale: Any, x: Any, y: Any, v: Any) -> Any:
    return (product(x * scale, y * scale, v) ** 2).sum()


def curvature(scale: Any, x: Any, y: Any, v: Any) -> Any:
    return tracer.grad(tracer.grad(loss))(scale, x, y, v)


def power_steps(x: Any, y: Any, v: Any) -> Any:
    def step(vector: Any, _: Any) -> tuple[Any, None]:
        made = product(x, y, vector)
        return made / tnp.sqrt(made @ made), None

    return tracer.scan(step, v, None, length=5)[0]


@pytest.fixture
def points(rng: np.random.Generator) -> tuple[Any, ...]:
    x, y = rng.standard_normal((2, N, 3), dtype=np.float32)
    return x, y, rng.standard_normal(N, dtype=np.float32)


def _agree(function: Any, *arrays: Any, limit: int = LIMIT) -> Any:
    sliced = tracer.compile(function, memory_limit=limit)
    plan = sliced.plan(*arrays)
    assert plan.loops
    assert plan.compiled_bytes <= limit
    expected = np.asarray(tracer.compile(function, split="never")(*arrays))
    found = np.asarray(sliced(*arrays))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())
    return found


def test_around_vmap(points: tuple[Any, ...]) -> None:
    x, y, v = points
    weights = np.stack([v, 2 * v, v[::-1]])
    found = _agree(tracer.vmap(product, in_axes=(None, None, 0)), x, y, weights)
    np.testing.assert_allclose(found[1], 2 * found[0], rtol=1e-5, atol=1e-5)
    sets = np.stack([x, y, x[::-1]])
    _agree(tracer.vmap(product, in_axes=(0, None, None)), sets, y, v)


def test_around_the_gradient_of_a_gradient(points: tuple[Any, ...]) -> None:
    scale = np.float32(0.9)
    found = _agree(curvature, scale, *points)
    x, y, v = (array.astype(np.float64) for array in points)
    d2 = ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)

    def slope(s: float) -> float:
        weights = np.exp(-0.5 * s * s * d2)
        return float(2 * (weights @ v) @ ((-s * d2 * weights) @ v))

    expected = (slope(0.9 + 1e-5) - slope(0.9 - 1e-5)) / 2e-5
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_around_scan(points: tuple[Any, ...]) -> None:
    found = _agree(power_steps, *points)
    x, y, vector = (array.astype(np.float64) for array in points)
    weights = np.exp(-0.5 * ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1))
    for _ in range(5):
        vector = weights @ vector
        vector /= np.linalg.norm(vector)
    np.testing.assert_allclose(found, vector, atol=1e-5)


def test_around_the_gradient_of_scan(points: tuple[Any, ...]) -> None:
    x, y, v = points
    _agree(tracer.grad(lambda *args: (power_steps(*args) ** 3).sum(), argnums=2), x, y, v)


def test_inside_of_transformations_the_outer_limit_counts(points: tuple[Any, ...]) -> None:
    """A compiled function that is traced joins the outer program, whose limit holds for all."""
    x, y, v = points
    inner = tracer.compile(product, memory_limit=LIMIT)
    _agree(lambda x, y, v: tracer.grad(lambda x: (inner(x, y, v) ** 2).sum())(x), x, y, v)
    _agree(tracer.vmap(inner, in_axes=(None, None, 0)), x, y, np.stack([v, -v]))
    _agree(lambda x, y, v: tracer.scan(lambda c, _: (inner(x, y, c), None), v, None, 2)[0], x, y, v)
