"""Sums over all pairs of points: densities, discrepancies, transport, gravity, correlations."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.special import logsumexp

from benchmarks.framework import Framework, Rng
from benchmarks.programs.workload import (
    Array,
    Workload,
    chunks,
    directional_error,
    relative_error,
    sizes,
    some_rows,
    squared_distances,
)

SINKHORN_STEPS = 50
SINKHORN_EPSILON = 0.5
SOFTENING = 1e-2


def distances(x: Any, y: Any) -> Any:
    return ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)


def log_density(f: Framework) -> Callable[..., Any]:
    def program(x: Any, queries: Any) -> Any:
        n, d = x.shape
        constant = math.log(n) + 0.5 * d * math.log(2 * math.pi)
        return f.scipy.special.logsumexp(-0.5 * distances(queries, x), axis=1) - constant

    return program


def _check_log_density(inputs: tuple[Any, ...], found: Any) -> float:
    x, queries = inputs
    rows = some_rows(len(queries))
    constant = np.log(len(x)) + 0.5 * x.shape[1] * np.log(2 * np.pi)
    scores = logsumexp(-0.5 * squared_distances(queries[rows], x), axis=1)
    return relative_error(found[rows], scores - constant)


def mean_discrepancy(f: Framework) -> Callable[..., Any]:
    def mean(a: Any, b: Any) -> Any:
        return f.numpy.mean(f.numpy.exp(-0.5 * distances(a, b)))

    def program(x: Any, y: Any) -> Any:
        return mean(x, x) + mean(y, y) - 2 * mean(x, y)

    return program


def _check_mean_discrepancy(inputs: tuple[Any, ...], found: Any) -> float:
    """Relative to the mean kernel, of which differences are taken."""
    x, y = inputs

    def mean(a: Array, b: Array) -> float:
        rows = chunks(len(a), 500)
        return (
            sum(float(np.exp(-0.5 * squared_distances(a[r], b)).sum()) for r in rows)
            / len(a)
            / len(b)
        )

    within = mean(x, x)
    return abs(float(found) - (within + mean(y, y) - 2 * mean(x, y))) / within


def sinkhorn(f: Framework) -> Callable[..., Any]:
    """Return the entropic transport cost of uniform weights after 50 steps."""

    def program(x: Any, y: Any) -> Any:
        cost = distances(x, y)

        def soft_minimum(potential: Any, matrix: Any) -> Any:
            scores = (potential[None, :] - matrix) / SINKHORN_EPSILON
            means = f.scipy.special.logsumexp(scores, axis=1) - math.log(matrix.shape[1])
            return -SINKHORN_EPSILON * means

        def step(potentials: Any, _: Any) -> tuple[Any, None]:
            of_x = soft_minimum(potentials[1], cost)
            return (of_x, soft_minimum(of_x, cost.T)), None

        start = (f.numpy.zeros_like(x[:, 0]), f.numpy.zeros_like(y[:, 0]))
        (of_x, of_y), _ = f.control.scan(step, start, None, length=SINKHORN_STEPS)
        return f.numpy.mean(of_x) + f.numpy.mean(of_y)

    return program


def sinkhorn_gradient(f: Framework) -> Callable[..., Any]:
    made: Callable[..., Any] = f.transforms.grad(sinkhorn(f), argnums=(0, 1))
    return made


def _sinkhorn_in_float64(points: tuple[Array, Array]) -> float:
    cost = squared_distances(*points)
    of_y = np.zeros(cost.shape[1])
    epsilon, n, m = SINKHORN_EPSILON, *cost.shape
    of_x = np.zeros(n)
    for _ in range(SINKHORN_STEPS):
        of_x = -epsilon * (_log_sums(of_y[None, :] - cost, epsilon) - np.log(m))
        of_y = -epsilon * (_log_sums(of_x[None, :] - cost.T, epsilon) - np.log(n))
    return float(of_x.mean() + of_y.mean())


def _log_sums(scores: Array, epsilon: float) -> Array:
    scores /= epsilon
    largest = scores.max(1, keepdims=True)
    scores -= largest
    sums: Array = np.log(np.exp(scores, out=scores).sum(1)) + largest[:, 0]
    return sums


def _check_sinkhorn(inputs: tuple[Any, ...], found: Any) -> float:
    return relative_error(found, _sinkhorn_in_float64((inputs[0], inputs[1])))


def _check_sinkhorn_gradient(inputs: tuple[Any, ...], found: Any) -> float:
    points = (inputs[0], inputs[1])
    return directional_error(_sinkhorn_in_float64, points, tuple(found), step=1e-3)


def energy(f: Framework) -> Callable[..., Any]:
    def program(x: Any, masses: Any) -> Any:
        inverse = 1 / f.numpy.sqrt(distances(x, x) + SOFTENING)
        return -0.5 * (masses[:, None] * masses[None, :] * inverse).sum()

    return program


def energy_gradient(f: Framework) -> Callable[..., Any]:
    made: Callable[..., Any] = f.transforms.grad(energy(f))
    return made


def _check_energy(inputs: tuple[Any, ...], found: Any) -> float:
    """Compare with the sum over all pairs, by blocks that stay in the cache, each pair once.

    Squares are expanded: in float64 their errors are 1e-12 of the softening.
    """
    x, masses = (np.asarray(a, np.float64) for a in inputs)
    squares, blocks = (x * x).sum(1), list(chunks(len(x), 1_000))
    total = 0.0
    for place, rows in enumerate(blocks):
        for columns in blocks[: place + 1]:
            block = -2 * x[rows] @ x[columns].T
            block += squares[rows, None] + SOFTENING
            block += squares[columns]
            inverse = np.divide(1, np.sqrt(block, out=block), out=block)
            share = float(masses[rows] @ inverse @ masses[columns])
            total -= share / 2 if rows == columns else share
    return relative_error(found, total)


def _check_energy_gradient(inputs: tuple[Any, ...], found: Any) -> float:
    x, masses = (np.asarray(a, np.float64) for a in inputs)
    rows = some_rows(len(x))
    cubes = (squared_distances(x[rows], x) + SOFTENING) ** -1.5
    weights = masses[rows, None] * masses[None, :] * cubes
    return relative_error(found[rows], weights.sum(1)[:, None] * x[rows] - weights @ x)


def correlation_maxima(f: Framework) -> Callable[..., Any]:
    """Return, for each variable, its largest absolute correlation with another one."""

    def program(x: Any) -> Any:
        z = (x - f.numpy.mean(x, axis=0)) / f.numpy.std(x, axis=0)
        correlations = f.numpy.abs(z.T @ z / x.shape[0])
        return f.numpy.max(correlations - f.numpy.eye(x.shape[1], dtype=x.dtype), axis=1)

    return program


def _check_correlation_maxima(inputs: tuple[Any, ...], found: Any) -> float:
    x = inputs[0].astype(np.float64)
    z = (x - x.mean(0)) / x.std(0)
    rows = some_rows(x.shape[1])
    correlations = np.abs(z[:, rows].T @ z / len(x))
    correlations[np.arange(len(rows)), rows] -= 1
    return relative_error(found[rows], correlations.max(1))


def _two_clouds(rng: Rng, n: int) -> tuple[Any, ...]:
    x, y = rng.standard_normal((2, n, 3), dtype=np.float32)
    return x, 1.5 * y + np.float32(0.5)


def _bodies(rng: Rng, n: int) -> tuple[Any, ...]:
    return rng.standard_normal((n, 3), dtype=np.float32), rng.random(n, dtype=np.float32)


def _samples(rng: Rng, n: int) -> tuple[Any, ...]:
    return (rng.standard_normal((200, n), dtype=np.float32),)


def _by_count(small: int, medium: int, full: int, limits: tuple[str, str, str]) -> Any:
    return sizes({"n": small}, {"n": medium}, {"n": full}, limits)


_PAIRS = _by_count(6_000, 20_000, 200_000, ("40MB", "64MB", "256MB"))
_TRANSPORT = _by_count(1_500, 3_000, 10_000, ("6MB", "18MB", "64MB"))

WORKLOADS: Mapping[str, Workload] = {
    "log density": Workload(log_density, _two_clouds, _PAIRS, _check_log_density, 1e-5),
    "mean discrepancy": Workload(
        mean_discrepancy,
        _two_clouds,
        _by_count(5_000, 10_000, 40_000, ("40MB", "64MB", "128MB")),
        _check_mean_discrepancy,
        1e-5,
    ),
    "Sinkhorn": Workload(sinkhorn, _two_clouds, _TRANSPORT, _check_sinkhorn, 1e-4),
    "Sinkhorn gradient": Workload(
        sinkhorn_gradient, _two_clouds, _TRANSPORT, _check_sinkhorn_gradient, 1e-3
    ),
    "N-body energy": Workload(energy, _bodies, _PAIRS, _check_energy, 1e-5),
    "N-body gradient": Workload(energy_gradient, _bodies, _PAIRS, _check_energy_gradient, 1e-4),
    "correlation maxima": Workload(
        correlation_maxima,
        _samples,
        _by_count(6_000, 10_000, 50_000, ("40MB", "64MB", "256MB")),
        _check_correlation_maxima,
        1e-5,
    ),
}
