"""Kernel products and their gradients, from differences and from norms and a product."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.framework import Framework, Rng
from benchmarks.programs.workload import (
    Array,
    Check,
    Workload,
    chunks,
    relative_error,
    sizes,
    some_rows,
    squared_distances,
)

CHECKED_IN_FULL = 20_000
"""Up to this many rows the gradient of a kernel's own parameter is checked, by the whole sum."""


def by_differences(x: Any, y: Any) -> Any:
    return ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)


def by_products(x: Any, y: Any) -> Any:
    return (x * x).sum(-1)[:, None] + (y * y).sum(-1)[None, :] - 2 * x @ y.T


@dataclass(frozen=True)
class Kernel:
    """A kernel as a function of the squared distance, and its derivative in float64 NumPy."""

    value: Callable[..., Any]
    slope: Callable[..., Array]
    parameters: tuple[float, ...] = ()


def squared_exponential(np: Any, d2: Any) -> Any:
    return np.exp(-0.5 * d2)


def matern(np: Any, d2: Any) -> Any:
    r = np.sqrt(5 * d2)
    return (1 + r + r**2 / 3) * np.exp(-r)


def rational_quadratic(np: Any, d2: Any, alpha: Any) -> Any:
    return (1 + d2 / (2 * alpha)) ** -alpha


def _squared_exponential_slope(d2: Array) -> Array:
    return -0.5 * np.exp(-0.5 * d2)


def _matern_slope(d2: Array) -> Array:
    r = np.sqrt(5 * d2)
    return -5 / 6 * (1 + r) * np.exp(-r)


def _rational_quadratic_slope(d2: Array, alpha: float) -> Array:
    return -0.5 * (1 + d2 / (2 * alpha)) ** (-alpha - 1)


SQUARED_EXPONENTIAL = Kernel(squared_exponential, _squared_exponential_slope)
MATERN = Kernel(matern, _matern_slope)
RATIONAL_QUADRATIC = Kernel(rational_quadratic, _rational_quadratic_slope, (1.5,))


def product(
    kernel: Kernel, distances: Callable[..., Any]
) -> Callable[[Framework], Callable[..., Any]]:
    """Return K(x, y) @ v."""

    def make(f: Framework) -> Callable[..., Any]:
        def program(x: Any, y: Any, v: Any, *parameters: Any) -> Any:
            return kernel.value(f.numpy, distances(x, y), *parameters) @ v

        return program

    return make


def gradient(
    kernel: Kernel, distances: Callable[..., Any]
) -> Callable[[Framework], Callable[..., Any]]:
    """Return the gradient of u @ K(x / l, y / l) @ v to x, y, v, l and the kernel's parameters."""

    def make(f: Framework) -> Callable[..., Any]:
        def loss(x: Any, y: Any, v: Any, lengthscales: Any, u: Any, *parameters: Any) -> Any:
            d2 = distances(x / lengthscales, y / lengthscales)
            return (u * (kernel.value(f.numpy, d2, *parameters) @ v)).sum()

        more = tuple(range(5, 5 + len(kernel.parameters)))
        made: Callable[..., Any] = f.transforms.grad(loss, argnums=(0, 1, 2, 3, *more))
        return made

    return make


def _points(rng: Rng, n: int, d: int, dtype: str) -> Array:
    # Squared distances of about 6, whatever d is: kernels that are neither 0 nor 1.
    made: Array = rng.standard_normal((n, d)) * (3 / d) ** 0.5
    return made.astype(dtype)


def _product_inputs(kernel: Kernel, dtype: str) -> Callable[..., tuple[Any, ...]]:
    def inputs(rng: Rng, n: int, d: int) -> tuple[Any, ...]:
        x, y = _points(rng, n, d, dtype), _points(rng, n, d, dtype)
        parameters = (np.array(value, dtype) for value in kernel.parameters)
        return (x, y, rng.standard_normal(n).astype(dtype), *parameters)

    return inputs


def _gradient_inputs(kernel: Kernel, dtype: str) -> Callable[..., tuple[Any, ...]]:
    def inputs(rng: Rng, n: int, d: int) -> tuple[Any, ...]:
        x, y, v, *parameters = _product_inputs(kernel, dtype)(rng, n, d)
        lengthscales = np.linspace(0.8, 1.2, d).astype(dtype)
        return x, y, v, lengthscales, rng.standard_normal(n).astype(dtype), *parameters

    return inputs


def _check_product(kernel: Kernel) -> Check:
    def check(inputs: tuple[Any, ...], found: Any) -> float:
        x, y, v, *parameters = inputs
        rows = some_rows(len(x))
        weights = kernel.value(np, squared_distances(x[rows], y), *map(float, parameters))
        return relative_error(found[rows], weights @ v.astype(np.float64))

    return check


def _check_gradient(kernel: Kernel) -> Check:
    def check(inputs: tuple[Any, ...], found: Any) -> float:
        x, y, v, lengthscales, u, *parameters = (np.asarray(a, np.float64) for a in inputs)
        of_x, of_y, of_v, of_lengthscales, *of_parameters = found
        x, y = x / lengthscales, y / lengthscales
        alphas = tuple(map(float, parameters))
        rows, columns = some_rows(len(x)), some_rows(len(y))
        pulls_x = _pulls(kernel, alphas, x[rows], y, u[rows], v) / lengthscales
        pulls_y = _pulls(kernel, alphas, y[columns], x, v[columns], u) / lengthscales
        weights = kernel.value(np, squared_distances(y[columns], x), *alphas)
        # Scaling points and lengthscales alike changes nothing (Euler), so the gradient of the
        # lengthscales follows from those of the points, which are checked on some rows.
        of_points = [np.asarray(of_x, np.float64) * x, np.asarray(of_y, np.float64) * y]
        euler = -sum(part.sum(0) for part in of_points)
        errors = [
            relative_error(of_x[rows], pulls_x),
            relative_error(of_y[columns], pulls_y),
            relative_error(of_v[columns], weights @ u),
            relative_error(of_lengthscales, euler),
        ]
        if of_parameters and len(x) <= CHECKED_IN_FULL:
            expected = _of_alpha(x, y, u, v, *alphas)
            errors.append(relative_error(of_parameters[0], expected))
        return max(errors)

    return check


def _pulls(
    kernel: Kernel, alphas: tuple[float, ...], x: Array, y: Array, u: Array, v: Array
) -> Array:
    """Return sum_j 2 u_i v_j k'(d_ij) (x_i - y_j)."""
    weights = 2 * u[:, None] * v[None, :] * kernel.slope(squared_distances(x, y), *alphas)
    total: Array = weights.sum(1)[:, None] * x - weights @ y
    return total


def _of_alpha(x: Array, y: Array, u: Array, v: Array, alpha: float) -> float:
    total = 0.0
    for rows in chunks(len(x), 500):
        s = squared_distances(x[rows], y) / (2 * alpha)
        change = (1 + s) ** -alpha * (s / (1 + s) - np.log1p(s))
        total += float(u[rows] @ change @ v)
    return total


def _product(
    kernel: Kernel,
    *,
    d: int = 3,
    dtype: str = "float32",
    distances: Callable[..., Any] = by_differences,
) -> Workload:
    return Workload(
        product(kernel, distances),
        _product_inputs(kernel, dtype),
        sizes(
            {"n": 6_000, "d": d},
            {"n": 20_000, "d": d},
            {"n": 200_000, "d": d},
            ("40MB", "64MB", "512MB"),
        ),
        _check_product(kernel),
        2e-5 if dtype == "float32" else 1e-11,
    )


def _gradient(
    kernel: Kernel,
    *,
    d: int = 3,
    dtype: str = "float32",
    distances: Callable[..., Any] = by_differences,
) -> Workload:
    return Workload(
        gradient(kernel, distances),
        _gradient_inputs(kernel, dtype),
        sizes(
            {"n": 6_000, "d": d},
            {"n": 20_000 if d == 3 else 10_000, "d": d},
            {"n": 200_000, "d": d},
            ("40MB", "64MB", "1GB"),
        ),
        _check_gradient(kernel),
        1e-4 if dtype == "float32" else 1e-10,
    )


WORKLOADS: Mapping[str, Workload] = {
    "kernel": _product(SQUARED_EXPONENTIAL),
    "kernel, d = 1": _product(SQUARED_EXPONENTIAL, d=1),
    "kernel, d = 100": _product(SQUARED_EXPONENTIAL, d=100),
    "kernel, f64": _product(SQUARED_EXPONENTIAL, dtype="float64"),
    "kernel, expanded": _product(SQUARED_EXPONENTIAL, distances=by_products),
    "kernel, expanded, d = 100": _product(SQUARED_EXPONENTIAL, d=100, distances=by_products),
    "Matern-5/2": _product(MATERN),
    "rational quadratic": _product(RATIONAL_QUADRATIC),
    "kernel gradient": _gradient(SQUARED_EXPONENTIAL),
    "kernel gradient, d = 100": _gradient(SQUARED_EXPONENTIAL, d=100),
    "kernel gradient, f64": _gradient(SQUARED_EXPONENTIAL, dtype="float64"),
    "kernel gradient, expanded": _gradient(SQUARED_EXPONENTIAL, distances=by_products),
    "Matern-5/2 gradient": _gradient(MATERN),
    "rational quadratic gradient": _gradient(RATIONAL_QUADRATIC),
}
