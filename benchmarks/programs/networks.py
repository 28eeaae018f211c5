"""Losses of neural networks whose activations do not fit, and a step of k-means."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.framework import Framework, Rng
from benchmarks.programs.convolution import WORKLOADS as CONVOLUTION
from benchmarks.programs.workload import (
    Array,
    Workload,
    chunks,
    relative_error,
    sizes,
    some_rows,
    squared_distances,
)

TEMPERATURE = 8.0
LAYERS = (32, 128, 128, 1)


def contrastive_gradient(f: Framework) -> Callable[..., Any]:
    """Return the gradient of InfoNCE: each row of `a` should find its own row of `b`."""

    def loss(a: Any, b: Any) -> Any:
        scores = a @ b.T / TEMPERATURE
        right = (a * b).sum(1) / TEMPERATURE
        return f.numpy.mean(f.scipy.special.logsumexp(scores, axis=1) - right)

    made: Callable[..., Any] = f.transforms.grad(loss, argnums=(0, 1))
    return made


def _check_contrastive(inputs: tuple[Any, ...], found: Any) -> float:
    a, b = (np.asarray(x, np.float64) for x in inputs)
    scale = len(a) * TEMPERATURE
    of_b = -a / scale
    errors = []
    for rows in chunks(len(a), 512):
        shares = _softmax(a[rows] @ b.T / TEMPERATURE)
        of_b += shares.T @ a[rows] / scale
        errors.append(np.abs(found[0][rows] - (shares @ b - b[rows]) / scale).max())
    largest = float(np.abs(np.asarray(found[0])).max())
    return max(float(max(errors)) / largest, relative_error(found[1], of_b))


def cross_entropy_gradient(f: Framework) -> Callable[..., Any]:
    """Return the gradient of softmax cross-entropy to the features and the classes' weights."""

    def loss(features: Any, weights: Any, labels: Any) -> Any:
        scores = features @ weights
        right = f.numpy.take_along_axis(scores, labels[:, None], axis=1)[:, 0]
        return f.numpy.mean(f.scipy.special.logsumexp(scores, axis=1) - right)

    made: Callable[..., Any] = f.transforms.grad(loss, argnums=(0, 1))
    return made


def _check_cross_entropy(inputs: tuple[Any, ...], found: Any) -> float:
    features, weights, labels = inputs
    features, weights = features.astype(np.float64), weights.astype(np.float64)
    n = len(features)
    of_features, of_weights = np.zeros_like(features), np.zeros_like(weights)
    for rows in chunks(n, 128):
        shares = _softmax(features[rows] @ weights)
        shares[np.arange(len(shares)), labels[rows]] -= 1
        of_features[rows] = shares @ weights.T / n
        of_weights += features[rows].T @ shares / n
    return max(relative_error(found[0], of_features), relative_error(found[1], of_weights))


def _softmax(scores: Array) -> Array:
    scores = np.exp(scores - scores.max(1, keepdims=True))
    return scores / scores.sum(1, keepdims=True)


def perceptron_gradient(f: Framework) -> Callable[..., Any]:
    """Return the gradient of a perceptron's squared error to its weights."""

    def loss(weights: Any, x: Any, y: Any) -> Any:
        for w in weights[:-1]:
            x = f.numpy.tanh(x @ w)
        return f.numpy.mean(((x @ weights[-1])[:, 0] - y) ** 2)

    made: Callable[..., Any] = f.transforms.grad(loss)
    return made


def _check_perceptron(inputs: tuple[Any, ...], found: Any) -> float:
    weights, x, y = inputs
    weights = [w.astype(np.float64) for w in weights]
    totals = [np.zeros_like(w) for w in weights]
    for rows in chunks(len(x), 20_000):
        layers = [x[rows].astype(np.float64)]
        for w in weights[:-1]:
            layers.append(np.tanh(layers[-1] @ w))
        pull = 2 * ((layers[-1] @ weights[-1]) - y[rows, None]) / len(x)
        for place in reversed(range(len(weights))):
            totals[place] += layers[place].T @ pull
            pull = pull @ weights[place].T * (1 - layers[place] ** 2)
    pairs = zip(found, totals, strict=True)
    return max(relative_error(mine, total) for mine, total in pairs)


def means_step(f: Framework) -> Callable[..., Any]:
    """Return the new centres of k-means: means of the points that are nearest to each."""
    np = f.numpy

    def program(points: Any, centres: Any) -> Any:
        distances = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(-1)
        nearest = np.argmin(distances, axis=1)
        members = (nearest[:, None] == np.arange(centres.shape[0])[None, :]).astype(points.dtype)
        return (members.T @ points) / np.maximum(members.sum(0), 1)[:, None]

    return program


def _check_means(inputs: tuple[Any, ...], found: Any) -> float:
    points, centres = inputs
    sums, counts = np.zeros(centres.shape), np.zeros(len(centres))
    for rows in chunks(len(points), 5_000):
        nearest = squared_distances(points[rows], centres).argmin(1)
        np.add.at(sums, nearest, points[rows])
        counts += np.bincount(nearest, minlength=len(centres))
    return relative_error(found, sums / np.maximum(counts, 1)[:, None])


def _rows_of_two(rng: Rng, n: int, d: int) -> tuple[Any, ...]:
    a = rng.standard_normal((n, d), dtype=np.float32)
    return a, a + rng.standard_normal((n, d), dtype=np.float32)


def _classes(rng: Rng, n: int, d: int, classes: int) -> tuple[Any, ...]:
    features = rng.standard_normal((n, d), dtype=np.float32)
    weights = rng.standard_normal((d, classes), dtype=np.float32) * np.float32(d**-0.5)
    return features, weights, rng.integers(0, classes, n).astype(np.int32)


def _batch(rng: Rng, n: int) -> tuple[Any, ...]:
    weights = [
        (rng.standard_normal((rows, columns)) * rows**-0.5).astype(np.float32)
        for rows, columns in itertools.pairwise(LAYERS)
    ]
    x = rng.standard_normal((n, LAYERS[0]), dtype=np.float32)
    return weights, x, np.sin(x.sum(1)).astype(np.float32)


def _clusters(rng: Rng, n: int, k: int) -> tuple[Any, ...]:
    # Whole numbers: float32 distances are exact, so no point changes sides by rounding.
    points = rng.integers(0, 256, (n, 16)).astype(np.float32)
    return points, points[some_rows(n, k)]


WORKLOADS: Mapping[str, Workload] = {
    "contrastive gradient": Workload(
        contrastive_gradient,
        _rows_of_two,
        sizes(
            {"n": 4_096, "d": 64},
            {"n": 8_192, "d": 64},
            {"n": 16_384, "d": 128},
            ("32MB", "64MB", "128MB"),
        ),
        _check_contrastive,
        1e-4,
    ),
    "cross-entropy gradient": Workload(
        cross_entropy_gradient,
        _classes,
        sizes(
            {"n": 512, "d": 32, "classes": 20_000},
            {"n": 1_024, "d": 64, "classes": 100_000},
            {"n": 8_192, "d": 128, "classes": 100_000},
            ("24MB", "128MB", "512MB"),
        ),
        _check_cross_entropy,
        1e-4,
    ),
    "k-means step": Workload(
        means_step,
        _clusters,
        sizes(
            {"n": 50_000, "k": 200},
            {"n": 100_000, "k": 500},
            {"n": 1_000_000, "k": 1_000},
            ("20MB", "64MB", "256MB"),
        ),
        _check_means,
        1e-5,
    ),
    "perceptron gradient": Workload(
        perceptron_gradient,
        _batch,
        sizes({"n": 50_000}, {"n": 200_000}, {"n": 1_000_000}, ("24MB", "128MB", "512MB")),
        _check_perceptron,
        1e-3,
    ),
    **CONVOLUTION,
}
