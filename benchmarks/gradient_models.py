"""Neural networks and other models whose gradients are compared with JAX's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.framework import Framework, Rng, normal


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
    layers = [(normal(rng, a, b) / a**0.5, normal(rng, b)) for a, b in zip(sizes, sizes[1:])]  # noqa: B905, RUF007
    return layers, normal(rng, 4 * n, 8), rng.integers(0, 5, 4 * n)


def convolutional_network(fw: Framework) -> Callable[..., Any]:
    xp = fw.numpy

    def normalised(x: Any, scale: Any, shift: Any) -> Any:
        mean = xp.mean(x, axis=(0, 2, 3), keepdims=True)
        variance = xp.mean((x - mean) ** 2, axis=(0, 2, 3), keepdims=True)
        return (x - mean) / xp.sqrt(variance + 1e-5) * scale + shift

    def loss(parameters: Any, images: Any, targets: Any) -> Any:
        x = images
        for kernel, scale, shift in parameters["layers"]:
            x = fw.conv_general_dilated(x, kernel, (2, 2), "SAME")
            x = fw.nn.relu(normalised(x, scale[:, None, None], shift[:, None, None]))
        features = xp.mean(x, axis=(2, 3))
        return xp.mean((features @ parameters["head"] - targets) ** 2)

    return loss


def convolutional_inputs(rng: Rng, n: int) -> tuple[Any, ...]:
    layers = [
        (normal(rng, 6, 3, 3, 3) / 5, normal(rng, 6), normal(rng, 6)),
        (normal(rng, 8, 6, 3, 3) / 7, normal(rng, 8), normal(rng, 8)),
    ]
    parameters = {"layers": layers, "head": normal(rng, 8, 4)}
    return parameters, normal(rng, 4, 3, n, n), normal(rng, 4, 4)


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
        "input": normal(rng, 6, 4 * n) / 3,
        "hidden": normal(rng, n, 4 * n) / n**0.5,
        "bias": normal(rng, 4 * n),
        "readout": normal(rng, n, 2),
    }
    return parameters, normal(rng, 20, 8, 6), normal(rng, 20, 8, 2)


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
    parameters = {name: normal(rng, 16, 16) / 4 for name in names}
    keep = rng.random((2, 4, n, n)) < 0.9
    return parameters, normal(rng, 2, n, 16), keep, normal(rng, 2, n, 16)


def logistic_regression(fw: Framework) -> Callable[..., Any]:
    xp = fw.numpy

    def loss(weights: Any, x: Any, labels: Any) -> Any:
        return xp.mean(xp.logaddexp(0.0, -labels * (x @ weights))) + 0.05 * weights @ weights

    return loss


def logistic_inputs(rng: Rng, n: int) -> tuple[Any, ...]:
    return normal(rng, 6), normal(rng, 4 * n, 6), np.sign(normal(rng, 4 * n))


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
        (np.eye(6) + 0.3 * normal(rng, 6, 6), normal(rng, 6), 0.1 * normal(rng, 6))
        for _ in range(3)
    ]
    return layers, normal(rng, 2 * n, 6)
