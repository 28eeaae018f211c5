"""Gaussian processes in float64: the sparse bound of Titsias (2009), and the exact evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular

from benchmarks.framework import Framework, Rng
from benchmarks.programs.workload import (
    Array,
    Workload,
    chunks,
    directional_error,
    relative_error,
    sizes,
    squared_distances,
)

JITTER = 1e-6


def covariance(f: Framework, x: Any, y: Any, lengthscale: Any) -> Any:
    x, y = x / lengthscale, y / lengthscale
    return f.numpy.exp(-0.5 * ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1))


def bound(f: Framework) -> Callable[..., Any]:
    """Return the evidence lower bound of a sparse GP (SGPR)."""
    np = f.numpy

    def program(z: Any, lengthscale: Any, noise: Any, x: Any, y: Any) -> Any:
        n, m = x.shape[0], z.shape[0]
        inner = np.linalg.cholesky(covariance(f, z, z, lengthscale) + JITTER * np.eye(m))
        cross = covariance(f, z, x, lengthscale)
        a = f.scipy.linalg.solve_triangular(inner, cross, lower=True) / np.sqrt(noise)
        outer = np.linalg.cholesky(np.eye(m) + a @ a.T)
        c = f.scipy.linalg.solve_triangular(outer, a @ y, lower=True) / np.sqrt(noise)
        fit = -0.5 * n * np.log(2 * np.pi * noise) - np.log(np.diagonal(outer)).sum()
        return fit - 0.5 * (y @ y) / noise + 0.5 * (c @ c) - 0.5 * (n / noise - (a * a).sum())

    return program


def bound_gradient(f: Framework) -> Callable[..., Any]:
    made: Callable[..., Any] = f.transforms.value_and_grad(bound(f), argnums=(0, 1, 2))
    return made


def _bound_in_float64(z: Array, lengthscale: Any, noise: Any, x: Array, y: Array) -> float:
    n, m = len(x), len(z)
    inner = cholesky(_covariance(z, z, lengthscale) + JITTER * np.eye(m), lower=True)
    gram, projected = np.zeros((m, m)), np.zeros(m)
    for rows in chunks(n, 5_000):
        cross = _covariance(z, x[rows], lengthscale)
        part = solve_triangular(inner, cross, lower=True) / np.sqrt(noise)
        gram += part @ part.T
        projected += part @ y[rows]
    outer = cholesky(np.eye(m) + gram, lower=True)
    c = solve_triangular(outer, projected, lower=True) / np.sqrt(noise)
    fit = -0.5 * n * np.log(2 * np.pi * noise) - np.log(np.diagonal(outer)).sum()
    return float(fit - 0.5 * (y @ y) / noise + 0.5 * (c @ c) - 0.5 * (n / noise - np.trace(gram)))


def _covariance(x: Array, y: Array, lengthscale: Any) -> Array:
    made: Array = np.exp(-0.5 * squared_distances(x / lengthscale, y / lengthscale))
    return made


def _check_bound(inputs: tuple[Any, ...], found: Any) -> float:
    value, slopes = found
    z, lengthscale, noise, x, y = inputs
    error = relative_error(value, _bound_in_float64(*inputs))
    parameters = (z, np.asarray(lengthscale), np.asarray(noise))
    return max(
        error,
        directional_error(
            lambda moved: _bound_in_float64(*moved, x, y), parameters, tuple(slopes), step=1e-4
        ),
    )


def evidence(f: Framework) -> Callable[..., Any]:
    """Return the log marginal likelihood of an exact GP."""
    np = f.numpy

    def program(lengthscale: Any, noise: Any, x: Any, y: Any) -> Any:
        n = x.shape[0]
        factor = np.linalg.cholesky(covariance(f, x, x, lengthscale) + noise * np.eye(n))
        alpha = f.scipy.linalg.solve_triangular(factor, y, lower=True)
        return -0.5 * (alpha @ alpha) - np.log(np.diagonal(factor)).sum()

    return program


def _check_evidence(inputs: tuple[Any, ...], found: Any) -> float:
    lengthscale, noise, x, y = inputs
    factor = cholesky(
        _covariance(x, x, lengthscale) + noise * np.eye(len(x)), lower=True, overwrite_a=True
    )
    expected = -0.5 * (y @ cho_solve((factor, True), y)) - np.log(np.diagonal(factor)).sum()
    return relative_error(found, expected)


def _sparse_inputs(rng: Rng, n: int, m: int) -> tuple[Any, ...]:
    x, y = _regression(rng, n)
    return x[rng.permutation(n)[:m]], np.float64(1.3), np.float64(0.1), x, y


def _exact_inputs(rng: Rng, n: int) -> tuple[Any, ...]:
    return np.float64(1.3), np.float64(0.1), *_regression(rng, n)


def _regression(rng: Rng, n: int) -> tuple[Array, Array]:
    x = rng.standard_normal((n, 4))
    return x, np.sin(x.sum(1)) + 0.3 * rng.standard_normal(n)


WORKLOADS: Mapping[str, Workload] = {
    "sparse GP gradient": Workload(
        bound_gradient,
        _sparse_inputs,
        sizes(
            {"n": 20_000, "m": 200},
            {"n": 50_000, "m": 500},
            {"n": 500_000, "m": 500},
            ("24MB", "100MB", "2GB"),
        ),
        _check_bound,
        1e-5,
    ),
    # Nothing to split: n^2 numbers are the floor. The limit is a tenth above it.
    "exact GP": Workload(
        evidence,
        _exact_inputs,
        sizes({"n": 1_500}, {"n": 4_000}, {"n": 4_000}, ("26MB", "145MB", "145MB")),
        _check_evidence,
        1e-9,
    ),
}
