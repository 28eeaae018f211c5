"""Programs whose memory is measured. Each function runs in a child and returns its run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tracer
import tracer.numpy as tnp
from benchmarks.warm_up import load_libraries
from tracer import nn

Run = Callable[[], Any]


def compiled(function: Callable[..., Any], limit: int | None, *arrays: Any) -> Run:
    """Return a run of `function`, compiled now, on arrays that are on the device now."""
    load_libraries()
    placed = [tnp.asarray(array) for array in arrays]
    split = "never" if limit is None else "auto"
    program = tracer.compile(function, memory_limit=limit, split=split)
    program.plan(*placed)
    return lambda: np.asarray(program(*placed))


def predict(x: Any, y: Any, v: Any) -> Any:
    """Return exp(-|x_i - y_j|^2 / 2) @ v."""
    d2 = ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)
    return tnp.exp(-0.5 * d2) @ v


def kernel_product(n: int, limit: int | None) -> Run:
    """Points (n, 3) and weights (n,), float32: 28 n bytes of arguments."""
    return compiled(predict, limit, *_points(n))


def kernel_gradient(n: int, limit: int | None) -> Run:
    """Return the gradient of the sum of squares with respect to x; 28 n bytes of arguments."""
    loss = tracer.grad(lambda x, y, v: (predict(x, y, v) ** 2).sum())
    return compiled(loss, limit, *_points(n))


def _points(n: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    return (
        rng.standard_normal((n, 3), dtype=np.float32),
        rng.standard_normal((n, 3), dtype=np.float32),
        rng.standard_normal(n, dtype=np.float32),
    )


def network_gradient(batch: int, limit: int | None) -> Run:
    """Return the first kernel's gradient in a small network on images of 32 x 32 x 3, float32."""
    rng = np.random.default_rng(0)
    kernels = [
        rng.standard_normal((3, 3, *sizes), dtype=np.float32) for sizes in ((3, 16), (16, 8))
    ]
    images = rng.standard_normal((batch, 32, 32, 3), dtype=np.float32)

    def loss(first: Any, second: Any, images: Any) -> Any:
        hidden = nn.max_pool(nn.relu(nn.conv(images, first)), 2)
        return (nn.avg_pool(nn.conv(hidden, second, strides=2), 2) ** 2).sum()

    return compiled(tracer.grad(loss), limit, *kernels, images)
