"""Axes of zero and one elements under a limit, and limits that only just fit."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer import MemoryLimitError, ShapeDtype, lax, nn

pytestmark = pytest.mark.xla

Function = Callable[..., Any]


def kernel_product(x: Any, y: Any, v: Any) -> Any:
    return tnp.exp(-0.5 * ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)) @ v


def attention(q: Any, k: Any, v: Any) -> Any:
    return nn.softmax(q @ k.T, axis=-1) @ v


def loss(x: Any, y: Any, v: Any) -> Any:
    return (kernel_product(x, y, v) ** 2).sum()


def nearest(x: Any, y: Any, v: Any) -> Any:
    return tnp.top_k(-((x[:, None, :] - y[None, :, :]) ** 2).sum(-1), 3)


def by_numpy(x: Any, y: Any, v: Any) -> Any:
    return np.exp(-0.5 * ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)) @ v


@pytest.mark.parametrize("d", [0, 1, 3])
@pytest.mark.parametrize(("n", "m"), [(0, 0), (0, 3_000), (3_000, 0), (1, 300_000), (300_000, 1)])
def test_zero_and_one(n: int, m: int, d: int) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((n, d)), rng.standard_normal((m, d))
    v = rng.standard_normal(m)
    # Whatever is fixed, and a few slices: a matrix of 300,000 numbers takes 2.4 MB.
    limit = 8 * (n + m) * (d + 1) + 1_000_000
    program = tracer.compile(kernel_product, memory_limit=limit)
    np.testing.assert_allclose(
        np.asarray(program(x, y, v)), by_numpy(x, y, v), rtol=1e-10, atol=1e-9
    )
    slopes = tracer.compile(tracer.grad(loss, argnums=(0, 2)), memory_limit=2 * limit)(x, y, v)
    assert [slope.shape for slope in slopes] == [x.shape, v.shape]
    if 0 in (n, m):
        assert not any(np.asarray(slope).any() for slope in slopes)


def _floats(*shape: int) -> ShapeDtype:
    return ShapeDtype(shape, "float32")


PROGRAMS: dict[str, tuple[Function, tuple[ShapeDtype, ...]]] = {
    "kernel product": (
        kernel_product,
        (_floats(1_500, 3), _floats(1_500, 3), _floats(1_500)),
    ),
    "its gradient": (
        tracer.grad(loss),
        (_floats(800, 3), _floats(800, 3), _floats(800)),
    ),
    "attention": (attention, (_floats(900, 16),) * 3),
    "nearest": (
        nearest,
        (_floats(400, 12), _floats(2_000, 12), _floats(2_000)),
    ),
    "sort": (lambda x: tnp.sort(x[:, None] * x[None, :], axis=0)[::7], (_floats(900),)),
}


@functools.cache
def minimum_bytes(name: str) -> int:
    """Return the smallest limit that the plan names; finding it takes seconds."""
    function, types = PROGRAMS[name]
    return tracer.compile(function).plan(*types).minimum_bytes


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_limit_that_only_just_fits(name: str, rng: np.random.Generator) -> None:
    function, types = PROGRAMS[name]
    free = tracer.compile(function, split="never")
    minimum = minimum_bytes(name)
    tight = tracer.compile(function, memory_limit=minimum)
    plan = tight.plan(*types)
    assert plan.loops
    assert plan.compiled_bytes <= minimum
    arrays = [rng.standard_normal(one.shape).astype(one.dtype) for one in types]
    pairs = zip(tracer.tree.leaves(tight(*arrays)), tracer.tree.leaves(free(*arrays)), strict=True)
    for found, expected in pairs:
        largest = float(np.abs(np.asarray(expected)).max())
        np.testing.assert_allclose(
            np.asarray(found), np.asarray(expected), rtol=1e-4, atol=1e-5 * largest
        )


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_tenth_less_than_the_smallest_is_refused(name: str) -> None:
    function, types = PROGRAMS[name]
    minimum = minimum_bytes(name)
    with pytest.raises(MemoryLimitError) as caught:
        tracer.compile(function, memory_limit=int(0.9 * minimum)).plan(*types)
    error = caught.value
    assert error.limit_bytes < error.minimum_bytes <= minimum
    assert error.binding
    tracer.compile(function, memory_limit=error.minimum_bytes).plan(*types)


def test_the_smallest_limit_is_found_again_as_a_limit() -> None:
    """Found after two other programs, after which the search for the limit had no time left."""

    def median(x: Any) -> Any:
        return tnp.median(x, axis=0)

    kind = tracer.ShapeDtype((140_001,), "float32")
    least = tracer.compile(median).plan(kind).minimum_bytes
    assert tracer.compile(median, memory_limit=least).plan(kind).compiled_bytes <= least


def smoother(step: Any, points: Any) -> Any:
    """A filter forward and a smoother backward, whose gradient keeps what every step computed."""

    def forward(spread: Any, point: Any) -> Any:
        spread = step @ spread @ step.T + tnp.eye(3)
        gain = tnp.linalg.solve(spread + tnp.eye(3), spread).T
        return spread - gain @ spread, (spread, gain @ point)

    def backward(spread: Any, kept: Any) -> Any:
        gain = tnp.linalg.solve(kept[0], spread).T
        return gain @ spread @ gain.T, gain @ kept[1]

    spread, kept = lax.scan(forward, tnp.eye(3), points)
    spread, found = lax.scan(backward, spread, kept, reverse=True)
    return tnp.sin(found).sum() + tnp.sin(spread).sum()


@pytest.mark.parametrize("seconds", [0.2, 2])
def test_the_smallest_limit_is_found_where_the_search_has_spent_its_time(seconds: float) -> None:
    """Where it begins was found in what was left, and it never came near the smallest."""
    gradient = tracer.grad(smoother, argnums=(0, 1))
    kinds = (tracer.ShapeDtype((3, 3), "float64"), tracer.ShapeDtype((12, 3), "float64"))
    least = tracer.compile(gradient, planning_seconds=seconds).plan(*kinds).minimum_bytes
    limited = tracer.compile(gradient, memory_limit=least, planning_seconds=seconds)
    assert limited.plan(*kinds).compiled_bytes <= least
