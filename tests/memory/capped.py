"""Programs for a process whose address space is capped; each run checks its own values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tracer
import tracer.numpy as tnp

Run = Callable[[], Any]
ROWS = np.array([0, 17, -1])


def _run(function: Any, limit: int | None, arrays: Any, expected: Any) -> Run:
    """Compile now; the run compares some rows of the result with float64."""
    warm = tnp.ones((64, 64), "float32")
    np.asarray(tracer.compile(lambda x: tnp.exp(x @ x).sum())(warm))
    placed = [tnp.asarray(array) for array in arrays]
    split = "never" if limit is None else "auto"
    program = tracer.compile(function, memory_limit=limit, split=split)
    program.plan(*placed)

    def run() -> Any:
        found = np.asarray(program(*placed))
        scale = np.abs(expected).max()
        np.testing.assert_allclose(found[ROWS], expected, rtol=1e-3, atol=1e-4 * scale)
        return found

    return run


def _points(n: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, n, 3), dtype=np.float32)
    return x, y, rng.standard_normal(n, dtype=np.float32)


def _weights(x: Any, y: Any) -> Any:
    x, y = x.astype(np.float64), y.astype(np.float64)
    return np.exp(-0.5 * ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1))


def _product(x: Any, y: Any, v: Any) -> Any:
    return tnp.exp(-0.5 * ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)) @ v


def kernel_product(n: int, limit: int | None) -> Run:
    x, y, v = _points(n)
    return _run(_product, limit, (x, y, v), _weights(x[ROWS], y) @ v.astype(np.float64))


def kernel_gradient(n: int, limit: int | None) -> Run:
    """Return the gradient of the sum to x."""
    x, y, v = _points(n)
    weights = _weights(x[ROWS], y) * v
    expected = weights @ y - weights.sum(1)[:, None] * x[ROWS]
    gradient = tracer.grad(lambda x, y, v: _product(x, y, v).sum())
    return _run(gradient, limit, (x, y, v), expected)


def correlation_maxima(n: int, limit: int | None) -> Run:
    """Return the largest absolute correlation of each variable with another."""
    x = np.random.default_rng(0).standard_normal((50, n), dtype=np.float32)

    def program(x: Any) -> Any:
        z = (x - x.mean(0)) / x.std(0)
        return (tnp.abs(z.T @ z / x.shape[0]) - tnp.eye(x.shape[1], dtype=x.dtype)).max(1)

    z = x.astype(np.float64)
    z = (z - z.mean(0)) / z.std(0)
    correlations = np.abs(z[:, ROWS].T @ z / len(z))
    correlations[np.arange(len(ROWS)), ROWS] -= 1
    return _run(program, limit, (x,), correlations.max(1))
