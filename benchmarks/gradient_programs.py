"""Programs whose gradients are compared with JAX's, written once for both.

Each program takes a `Framework`, the few modules it is written with, and returns a scalar
function of its inputs (nested NumPy arrays, float64). The first input is differentiated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

Rng = np.random.Generator


@dataclass(frozen=True)
class Framework:
    """What programs are written with: `tracer` or JAX.

    `control` has scan and fori_loop, `scipy` has linalg and special, `transforms` has grad and
    hessian.
    """

    numpy: ModuleType
    scipy: ModuleType
    control: ModuleType
    transforms: ModuleType
    nn: ModuleType


def tracer_framework() -> Framework:
    import tracer

    return Framework(tracer.numpy, tracer.scipy, tracer, tracer, tracer.nn)


def jax_framework() -> Framework:
    """Return JAX in double precision; raises ImportError where it is not installed."""
    import jax
    import jax.numpy
    import jax.scipy.linalg
    import jax.scipy.special

    jax.config.update("jax_enable_x64", True)
    return Framework(jax.numpy, jax.scipy, jax.lax, jax, jax.nn)


@dataclass(frozen=True)
class Program:
    """A program, its inputs by size, and which derivative is asked for."""

    loss: Callable[[Framework], Callable[..., Any]]
    inputs: Callable[[Rng, int], tuple[Any, ...]]
    size: int
    derivative: str = "grad"

    def derivative_of(self, framework: Framework) -> Callable[..., Any]:
        """Return the function that computes the derivative."""
        transform: Any = getattr(framework.transforms, self.derivative)
        made: Callable[..., Any] = transform(self.loss(framework))
        return made


def _normal(rng: Rng, *shape: int) -> Any:
    return rng.standard_normal(shape)


def perceptron(fw: Framework) -> Callable[..., Any]:
    xp = fw.numpy

    def loss(layers: Any, x: Any, labels: Any) -> Any:
        for weights, bias in layers[:-1]:
            x = xp.tanh(x @ weights + bias)
        logits = x @ layers[-1][0] + layers[-1][1]
        picked = xp.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
        return xp.mean(fw.scipy.special.logsumexp(logits, axis=1) - picked)

    return loss


def perceptron_inputs(rng: Rng, n: int) -> tuple[Any, ...]:
    sizes = (8, 2 * n, 2 * n, 5)
    layers = [(_normal(rng, a, b) / a**0.5, _normal(rng, b)) for a, b in zip(sizes, sizes[1:])]  # noqa: B905, RUF007
    return layers, _normal(rng, 4 * n, 8), rng.integers(0, 5, 4 * n)


def convolutional_network(fw: Framework) -> Callable[..., Any]:
    xp = fw.numpy

    def normalised(x: Any, scale: Any, shift: Any) -> Any:
        mean = xp.mean(x, axis=(0, 2, 3), keepdims=True)
        variance = xp.mean((x - mean) ** 2, axis=(0, 2, 3), keepdims=True)
        return (x - mean) / xp.sqrt(variance + 1e-5) * scale + shift

    def loss(parameters: Any, images: Any, targets: Any) -> Any:
        x = images
        for kernel, scale, shift in parameters["layers"]:
            x = fw.control.conv_general_dilated(x, kernel, (2, 2), "SAME")
            x = fw.nn.relu(normalised(x, scale[:, None, None], shift[:, None, None]))
        features = xp.mean(x, axis=(2, 3))
        return xp.mean((features @ parameters["head"] - targets) ** 2)

    return loss


def convolutional_inputs(rng: Rng, n: int) -> tuple[Any, ...]:
    layers = [
        (_normal(rng, 6, 3, 3, 3) / 5, _normal(rng, 6), _normal(rng, 6)),
        (_normal(rng, 8, 6, 3, 3) / 7, _normal(rng, 8), _normal(rng, 8)),
    ]
    parameters = {"layers": layers, "head": _normal(rng, 8, 4)}
    return parameters, _normal(rng, 4, 3, n, n), _normal(rng, 4, 4)


def lstm(fw: Framework) -> Callable[..., Any]:
    xp = fw.numpy

    def loss(parameters: Any, xs: Any, targets: Any) -> Any:
        def step(state: Any, x: Any) -> Any:
            hidden, cell = state
            gates = x @ parameters["input"] + hidden @ parameters["hidden"] + parameters["bias"]
            i, f, g, o = xp.split(gates, 4, axis=-1)
            cell = fw.nn.sigmoid(f) * cell + fw.nn.sigmoid(i) * xp.tanh(g)
            hidden = fw.nn.sigmoid(o) * xp.tanh(cell)
            return (hidden, cell), hidden

        zeros = xp.zeros((xs.shape[1], parameters["hidden"].shape[0]), dtype=xs.dtype)
        _, hidden = fw.control.scan(step, (zeros, zeros), xs)
        return xp.mean((hidden @ parameters["readout"] - targets) ** 2)

    return loss


def lstm_inputs(rng: Rng, n: int) -> tuple[Any, ...]:
    parameters = {
        "input": _normal(rng, 6, 4 * n) / 3,
        "hidden": _normal(rng, n, 4 * n) / n**0.5,
        "bias": _normal(rng, 4 * n),
        "readout": _normal(rng, n, 2),
    }
    return parameters, _normal(rng, 20, 8, 6), _normal(rng, 20, 8, 2)


def attention(fw: Framework) -> Callable[..., Any]:
    xp = fw.numpy

    def loss(parameters: Any, x: Any, keep: Any, targets: Any) -> Any:
        def heads(name: str) -> Any:
            projected = x @ parameters[name]
            split = xp.reshape(projected, (*x.shape[:2], keep.shape[1], -1))
            return xp.swapaxes(split, 1, 2)

        query, key, value = heads("query"), heads("key"), heads("value")
        scores = query @ xp.swapaxes(key, -1, -2) / query.shape[-1] ** 0.5
        weights = xp.where(keep, fw.nn.softmax(scores, axis=-1) / 0.9, 0.0)
        mixed = xp.reshape(xp.swapaxes(weights @ value, 1, 2), x.shape)
        return xp.mean((x + mixed @ parameters["out"] - targets) ** 2)

    return loss


def attention_inputs(rng: Rng, n: int) -> tuple[Any, ...]:
    names = ("query", "key", "value", "out")
    parameters = {name: _normal(rng, 16, 16) / 4 for name in names}
    keep = rng.random((2, 4, n, n)) < 0.9
    return parameters, _normal(rng, 2, n, 16), keep, _normal(rng, 2, n, 16)


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
    x = _normal(rng, n, 3)
    parameters = {"l": np.array([0.1, 0.3, -0.2]), "v": np.array(0.2), "n": np.array(-2.0)}
    return parameters, x, np.sin(x.sum(1)) + 0.1 * _normal(rng, n)


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
    return {**parameters, "z": _normal(rng, max(4, n // 2), 3)}, x, y


def logistic_regression(fw: Framework) -> Callable[..., Any]:
    xp = fw.numpy

    def loss(weights: Any, x: Any, labels: Any) -> Any:
        return xp.mean(xp.logaddexp(0.0, -labels * (x @ weights))) + 0.05 * weights @ weights

    return loss


def logistic_inputs(rng: Rng, n: int) -> tuple[Any, ...]:
    return _normal(rng, 6), _normal(rng, 4 * n, 6), np.sign(_normal(rng, 4 * n))


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
    parameters = {"in": _normal(rng, 3, n), "bias": _normal(rng, n), "out": _normal(rng, n, 3) / n}
    return parameters, _normal(rng, n, 3), _normal(rng, n, 3)


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
    return _normal(rng, n, 2), _normal(rng, n, 2) + 1


def sorted_loss(fw: Framework) -> Callable[..., Any]:
    """Return the Wasserstein distance of projections, with a trimmed part."""
    xp = fw.numpy

    def loss(x: Any, y: Any, directions: Any) -> Any:
        a, b = xp.sort(x @ directions, axis=0), xp.sort(y @ directions, axis=0)
        trimmed = a[x.shape[0] // 4 :] ** 2
        return xp.mean((a - b) ** 2) + 0.1 * xp.mean(trimmed) + xp.max(xp.median(a, axis=0))

    return loss


def sorted_inputs(rng: Rng, n: int) -> tuple[Any, ...]:
    return _normal(rng, n, 4), _normal(rng, n, 4), _normal(rng, 4, 6)


def normalising_flow(fw: Framework) -> Callable[..., Any]:
    xp = fw.numpy

    def loss(layers: Any, x: Any) -> Any:
        total: Any = 0.0
        for weights, bias, slope in layers:
            x = x @ weights + bias
            total = total + xp.linalg.slogdet(weights)[1]
            steepness = xp.exp(slope)
            total = total + xp.sum(xp.log1p(steepness / xp.cosh(x) ** 2), axis=-1)
            x = x + steepness * xp.tanh(x)
        return xp.mean(0.5 * xp.sum(x * x, axis=-1) - total)

    return loss


def flow_inputs(rng: Rng, n: int) -> tuple[Any, ...]:
    layers = [
        (np.eye(6) + 0.3 * _normal(rng, 6, 6), _normal(rng, 6), 0.1 * _normal(rng, 6))
        for _ in range(3)
    ]
    return layers, _normal(rng, 2 * n, 6)


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
    return parameters, (_normal(rng, n, 2), _normal(rng, n, 2))


PROGRAMS = {
    "perceptron": Program(perceptron, perceptron_inputs, 32),
    "convolutional network": Program(convolutional_network, convolutional_inputs, 8),
    "LSTM, scan": Program(lstm, lstm_inputs, 16),
    "attention, dropout": Program(attention, attention_inputs, 16),
    "Gaussian process": Program(gaussian_process, gaussian_process_inputs, 32),
    "sparse GP bound": Program(sparse_bound, sparse_bound_inputs, 32),
    "logistic Hessian": Program(logistic_regression, logistic_inputs, 32, "hessian"),
    "neural ODE": Program(neural_ode, neural_ode_inputs, 16),
    "Sinkhorn": Program(sinkhorn, sinkhorn_inputs, 24),
    "sorted loss": Program(sorted_loss, sorted_inputs, 33),
    "normalising flow": Program(normalising_flow, flow_inputs, 32),
    "springs, 1,000 steps": Program(springs, springs_inputs, 16),
}
