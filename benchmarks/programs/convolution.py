"""A small convolutional network on more images than its activations have room for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.framework import Framework, Rng
from benchmarks.programs.workload import Array, Workload, chunks, relative_error, sizes

LAYOUT = ("NHWC", "HWIO", "NHWC")
SIDE = 32


def network_gradient(f: Framework) -> Callable[..., Any]:
    """Return value and gradient of two convolutions, pooling and a linear layer."""
    np = f.numpy

    def convolve(images: Any, kernel: Any) -> Any:
        return f.conv_general_dilated(
            images, kernel, window_strides=(1, 1), padding="SAME", dimension_numbers=LAYOUT
        )

    def halve(images: Any) -> Any:
        n, height, width, features = images.shape
        return images.reshape(n, height // 2, 2, width // 2, 2, features).mean((2, 4))

    def loss(parameters: Any, images: Any, labels: Any) -> Any:
        first, second, last = parameters
        hidden = halve(np.maximum(convolve(images, first), 0))
        hidden = np.maximum(convolve(hidden, second), 0).mean((1, 2))
        scores = hidden @ last
        right = np.take_along_axis(scores, labels[:, None], axis=1)[:, 0]
        return np.mean(f.scipy.special.logsumexp(scores, axis=1) - right)

    made: Callable[..., Any] = f.transforms.value_and_grad(loss)
    return made


def _inputs(rng: Rng, n: int) -> tuple[Any, ...]:
    shapes = ((3, 3, 3, 16), (3, 3, 16, 32), (32, 10))
    parameters = [
        (rng.standard_normal(shape) * np.prod(shape[:-1]) ** -0.5).astype(np.float32)
        for shape in shapes
    ]
    images = rng.standard_normal((n, SIDE, SIDE, 3), dtype=np.float32)
    return parameters, images, rng.integers(0, 10, n).astype(np.int32)


def _windows(images: Array) -> Array:
    """Return (n, height, width, 3, 3, features): the neighbourhoods of all pixels, zero outside."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    return windows.transpose(0, 1, 2, 4, 5, 3)


def _part(parameters: list[Array], images: Array, labels: Array) -> tuple[float, list[Array]]:
    """Return the sum of losses of some images and its gradients, by hand."""
    first, second, last = parameters
    seen = _windows(images)
    before = np.tensordot(seen, first, 3)
    n, height, width, features = before.shape
    halves = (n, height // 2, 2, width // 2, 2, features)
    pooled = np.maximum(before, 0).reshape(halves).mean((2, 4))
    seen_again = _windows(pooled)
    after = np.tensordot(seen_again, second, 3)
    hidden = np.maximum(after, 0).mean((1, 2))
    scores = hidden @ last
    scores -= scores.max(1, keepdims=True)
    logs = np.log(np.exp(scores).sum(1))
    rows = np.arange(n)
    value = float((logs - scores[rows, labels]).sum())
    pull = np.exp(scores - logs[:, None])
    pull[rows, labels] -= 1
    of_last = hidden.T @ pull
    pull = (pull @ last.T)[:, None, None, :] / (after.shape[1] * after.shape[2]) * (after > 0)
    of_second = np.tensordot(seen_again, pull, ((0, 1, 2), (0, 1, 2)))
    # The transposed convolution: windows of what comes back, with the kernel turned around.
    turned = second[::-1, ::-1].transpose(0, 1, 3, 2)
    pull = np.tensordot(_windows(pull), turned, 3) / 4
    pull = pull.repeat(2, 1).repeat(2, 2) * (before > 0)
    return value, [np.tensordot(seen, pull, ((0, 1, 2), (0, 1, 2))), of_second, of_last]


def _check(inputs: tuple[Any, ...], found: Any) -> float:
    parameters, images, labels = inputs
    parameters = [p.astype(np.float64) for p in parameters]
    value, totals = 0.0, [np.zeros_like(p) for p in parameters]
    for rows in chunks(len(images), 32):
        more, slopes = _part(parameters, images[rows].astype(np.float64), labels[rows])
        value += more
        totals = [a + b for a, b in zip(totals, slopes, strict=True)]
    n = len(images)
    pairs = zip(found[1], totals, strict=True)
    errors = [relative_error(mine, total / n) for mine, total in pairs]
    return max(relative_error(found[0], value / n), *errors)


WORKLOADS: Mapping[str, Workload] = {
    "convolution gradient": Workload(
        network_gradient,
        _inputs,
        sizes({"n": 256}, {"n": 1_024}, {"n": 8_192}, ("24MB", "64MB", "256MB")),
        _check,
        1e-3,
    )
}
