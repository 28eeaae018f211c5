"""Programs whose gradients are compared with JAX's, written once for both.

Each takes a `Framework` and returns a scalar function of its inputs (nested NumPy arrays,
float64), of which the first is differentiated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import gradient_models as models
from benchmarks.framework import Framework, Program, Rng, normal


def _squared_exponential(fw: Framework, x: Any, y: Any, lengths: Any) -> Any:
    squares = ((x[:, None, :] - y[None, :, :]) / lengths) ** 2
    return fw.numpy.exp(-0.5 * fw.numpy.sum(squares, axis=-1))


def gaussian_process(fw: Framework) -> Callable[..., Any]:
    xp = fw.numpy

    def loss(parameters: Any, x: Any, y: Any) -> Any:
        lengths, variance, noise = (xp.exp(parameters[name]) for name in ("l", "v", "n"))
        kernel = variance * _squared_exponential(fw, x, x, lengths)
        factor = xp.linalg.cholesky(kernel + noise * xp.eye(x.shape[0], dtype=x.dtype))
        white = fw.scipy.linalg.solve_triangular(factor, y, lower=True)
        log_determinant = 2 * xp.sum(xp.log(xp.diagonal(factor)))
        return 0.5 * (white @ white + log_determinant + x.shape[0] * np.log(2 * np.pi))

    return loss


def gaussian_process_inputs(rng: Rng, n: int) -> tuple[Any, ...]:
    x = normal(rng, n, 3)
    parameters = {"l": np.array([0.1, 0.3, -0.2]), "v": np.array(0.2), "n": np.array(-2.0)}
    return parameters, x, np.sin(x.sum(1)) + 0.1 * normal(rng, n)


def sparse_bound(fw: Framework) -> Callable[..., Any]:
    """Return the collapsed bound of Titsias (2009), negated."""
    xp = fw.numpy

    def loss(parameters: Any, x: Any, y: Any) -> Any:
        z, variance, noise = parameters["z"], xp.exp(parameters["v"]), xp.exp(parameters["n"])
        lengths, size = xp.exp(parameters["l"]), z.shape[0]
        eye = xp.eye(size, dtype=z.dtype)
        inner = variance * _squared_exponential(fw, z, z, lengths) + 1e-6 * eye
        cross = variance * _squared_exponential(fw, z, x, lengths)
        triangular = fw.scipy.linalg.solve_triangular
        a = triangular(xp.linalg.cholesky(inner), cross, lower=True) / xp.sqrt(noise)
        factor = xp.linalg.cholesky(a @ a.T + eye)
        c = triangular(factor, a @ y, lower=True) / xp.sqrt(noise)
        n = x.shape[0]
        fit = y @ y / noise - c @ c + n * xp.log(2 * np.pi * noise)
        trace = n * variance / noise - xp.sum(a * a)
        return 0.5 * (fit + trace) + xp.sum(xp.log(xp.diagonal(factor)))

    return loss


def sparse_bound_inputs(rng: Rng, n: int) -> tuple[Any, ...]:
    parameters, x, y = gaussian_process_inputs(rng, 4 * n)
    return {**parameters, "z": normal(rng, max(4, n // 2), 3)}, x, y


def neural_ode(fw: Framework) -> Callable[..., Any]:
    """Return a fit of the end point of 20 steps of RK4."""
    xp = fw.numpy

    def loss(parameters: Any, start: Any, end: Any) -> Any:
        def field(x: Any) -> Any:
            hidden = xp.tanh(x @ parameters["in"] + parameters["bias"])
            return hidden @ parameters["out"]

        def step(_: Any, x: Any) -> Any:
            k1 = field(x)
            k2 = field(x + 0.025 * k1)
            k3 = field(x + 0.025 * k2)
            k4 = field(x + 0.05 * k3)
            return x + 0.05 / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

        return xp.mean((fw.control.fori_loop(0, 20, step, start) - end) ** 2)

    return loss


def neural_ode_inputs(rng: Rng, n: int) -> tuple[Any, ...]:
    parameters = {"in": normal(rng, 3, n), "bias": normal(rng, n), "out": normal(rng, n, 3) / n}
    return parameters, normal(rng, n, 3), normal(rng, n, 3)


def sinkhorn(fw: Framework) -> Callable[..., Any]:
    """Return the entropic transport cost between two point clouds."""
    xp, logsumexp = fw.numpy, fw.scipy.special.logsumexp

    def loss(x: Any, y: Any) -> Any:
        cost = xp.sum((x[:, None, :] - y[None, :, :]) ** 2, axis=-1)
        scores, weight = -cost / 0.5, -np.log(x.shape[0])

        def step(_: Any, potentials: Any) -> Any:
            f, g = potentials
            f = weight - logsumexp(scores + g[None, :], axis=1)
            g = weight - logsumexp(scores + f[:, None], axis=0)
            return f, g

        zeros = xp.zeros(x.shape[0], dtype=x.dtype)
        f, g = fw.control.fori_loop(0, 15, step, (zeros, zeros))
        return xp.sum(xp.exp(scores + f[:, None] + g[None, :]) * cost)

    return loss


def sinkhorn_inputs(rng: Rng, n: int) -> tuple[Any, ...]:
    return normal(rng, n, 2), normal(rng, n, 2) + 1


def sorted_loss(fw: Framework) -> Callable[..., Any]:
    """Return the Wasserstein distance of projections, with a trimmed part."""
    xp = fw.numpy

    def loss(x: Any, y: Any, directions: Any) -> Any:
        a, b = xp.sort(x @ directions, axis=0), xp.sort(y @ directions, axis=0)
        trimmed = a[x.shape[0] // 4 :] ** 2
        return xp.mean((a - b) ** 2) + 0.1 * xp.mean(trimmed) + xp.max(xp.median(a, axis=0))

    return loss


def sorted_inputs(rng: Rng, n: int) -> tuple[Any, ...]:
    return normal(rng, n, 4), normal(rng, n, 4), normal(rng, 4, 6)


def springs(fw: Framework) -> Callable[..., Any]:
    """Return the end energy of a chain of anharmonic springs: 1,000 leapfrog steps."""
    xp = fw.numpy

    def loss(parameters: Any, start: Any) -> Any:
        def force(x: Any) -> Any:
            stretch = xp.diff(x, axis=0)
            pull = parameters["k"] * stretch + parameters["c"] * stretch**3
            return xp.pad(pull, ((0, 1), (0, 0))) - xp.pad(pull, ((1, 0), (0, 0)))

        def step(state: Any, _: Any) -> Any:
            x, v = state
            v = v + 0.005 * force(x)
            x = x + 0.01 * v
            v = v + 0.005 * force(x) - 0.001 * parameters["drag"] * v
            return (x, v), xp.mean(v * v)

        (x, v), energies = fw.control.scan(step, start, None, length=1000)
        return xp.mean(energies) + xp.mean(x * x) + xp.mean(v * v)

    return loss


def springs_inputs(rng: Rng, n: int) -> tuple[Any, ...]:
    parameters = {"k": 1 + rng.random((n - 1, 1)), "c": np.array(0.1), "drag": np.array(0.3)}
    return parameters, (normal(rng, n, 2), normal(rng, n, 2))


PROGRAMS = {
    "perceptron": Program(models.perceptron, models.perceptron_inputs, 32),
    "convolutional network": Program(models.convolutional_network, models.convolutional_inputs, 8),
    "LSTM, scan": Program(models.lstm, models.lstm_inputs, 16),
    "attention, dropout": Program(models.attention, models.attention_inputs, 16),
    "Gaussian process": Program(gaussian_process, gaussian_process_inputs, 32),
    "sparse GP bound": Program(sparse_bound, sparse_bound_inputs, 32),
    "logistic Hessian": Program(models.logistic_regression, models.logistic_inputs, 32, "hessian"),
    "neural ODE": Program(neural_ode, neural_ode_inputs, 16),
    "Sinkhorn": Program(sinkhorn, sinkhorn_inputs, 24),
    "sorted loss": Program(sorted_loss, sorted_inputs, 101),
    "normalising flow": Program(models.normalising_flow, models.flow_inputs, 32),
    "springs, 1,000 steps": Program(springs, springs_inputs, 16),
}
