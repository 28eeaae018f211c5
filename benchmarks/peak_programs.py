"""Programs that the peak model was not made with: they show how well it predicts others.

Sizes are such that each runs in a few seconds on two cores. `benchmarks.peaks` measures them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

import tracer
import tracer.numpy as tnp
from benchmarks.limited import LimitedProgram
from tracer import nn
from tracer.scipy.special import logsumexp


def _normal(rng: np.random.Generator, *shape: int, dtype: Any = np.float32) -> Any:
    return rng.standard_normal(shape, dtype=dtype)


def attention(q: Any, k: Any, v: Any) -> Any:
    return nn.softmax(q @ tnp.swapaxes(k, -1, -2) / 8.0, axis=-1) @ v


def matern(x: Any, y: Any, v: Any, lengthscales: Any) -> Any:
    a, b = x / lengthscales, y / lengthscales
    r = tnp.sqrt(5.0 * ((a[:, None, :] - b[None, :, :]) ** 2).sum(-1) + 1e-12)
    return ((1 + r + r * r / 3) * tnp.exp(-r)) @ v


def matern_loss(x: Any, y: Any, v: Any, lengthscales: Any) -> Any:
    return tnp.mean(matern(x, y, v, lengthscales) ** 2)


def rational_quadratic(x: Any, y: Any, v: Any) -> Any:
    norms = (x * x).sum(1)[:, None] + (y * y).sum(1)[None, :]
    return (1 + tnp.maximum(norms - 2 * x @ y.T, 0.0) / 3.0) ** -1.5 @ v


def _squared_exponential(a: Any, b: Any) -> Any:
    return tnp.exp(-0.5 * ((a[:, None, :] - b[None, :, :]) ** 2).sum(-1))


def sparse_process_loss(x: Any, y: Any, z: Any, log_noise: Any) -> Any:
    """Return the negative SGPR bound (Titsias 2009) of a squared exponential kernel."""
    m, n = z.shape[0], x.shape[0]
    noise = tnp.exp(log_noise)
    prior = tnp.linalg.cholesky(_squared_exponential(z, z) + 1e-6 * tnp.eye(m, dtype=x.dtype))
    cross = _squared_exponential(z, x)
    a = tracer.scipy.linalg.solve_triangular(prior, cross, lower=True) / tnp.sqrt(noise)
    inner = tnp.linalg.cholesky(tnp.eye(m, dtype=x.dtype) + a @ a.T)
    c = tracer.scipy.linalg.solve_triangular(inner, a @ y, lower=True) / tnp.sqrt(noise)
    return (
        tnp.sum(tnp.log(tnp.diagonal(inner)))
        + 0.5 * n * log_noise
        + 0.5 * tnp.sum(y * y) / noise
        - 0.5 * tnp.sum(c * c)
        + 0.5 * (n / noise - tnp.sum(a * a))
    )


def exact_process_loss(x: Any, y: Any) -> Any:
    kernel = _squared_exponential(x, x) + 0.1 * tnp.eye(x.shape[0], dtype=x.dtype)
    factor = tnp.linalg.cholesky(kernel)
    alpha = tracer.scipy.linalg.solve_triangular(factor, y, lower=True)
    return 0.5 * tnp.sum(alpha**2) + tnp.sum(tnp.log(tnp.diagonal(factor)))


def info_nce(a: Any, b: Any) -> Any:
    a = a / tnp.sqrt((a * a).sum(1, keepdims=True))
    b = b / tnp.sqrt((b * b).sum(1, keepdims=True))
    scores = a @ b.T / 0.1
    both = tnp.mean(logsumexp(scores, axis=1)) + tnp.mean(logsumexp(scores, axis=0))
    return 0.5 * both - tnp.mean(tnp.diagonal(scores))


def k_means_step(x: Any, centres: Any) -> Any:
    d2 = ((x[:, None, :] - centres[None, :, :]) ** 2).sum(-1)
    chosen = nn.one_hot(tnp.argmin(d2, axis=1), centres.shape[0], dtype=x.dtype)
    return (chosen.T @ x) / tnp.maximum(chosen.sum(0), 1.0)[:, None]


def convolution_loss(kernels: Any, images: Any) -> Any:
    x = images
    for kernel in kernels:
        x = nn.max_pool(nn.relu(nn.conv(x, kernel, padding="SAME")), 2)
    return tnp.mean(x**2)


def network_loss(layers: Any, x: Any, y: Any) -> Any:
    for weights, bias in layers[:-1]:
        x = nn.relu(x @ weights + bias)
    return tnp.mean((x @ layers[-1][0] + layers[-1][1] - y) ** 2)


def sinkhorn(x: Any, y: Any) -> Any:
    """Return the dual potentials of entropic transport after ten log-domain iterations."""
    cost = ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1) / 0.1

    def step(_: Any, potentials: Any) -> Any:
        f, g = potentials
        f = -logsumexp(g[None, :] - cost, axis=1)
        return f, -logsumexp(f[:, None] - cost, axis=0)

    start = (tnp.zeros(x.shape[0], dtype=x.dtype), tnp.zeros(y.shape[0], dtype=x.dtype))
    return tracer.fori_loop(0, 10, step, start)


def cross_entropy(features: Any, classes: Any, labels: Any) -> Any:
    logits = features @ classes
    picked = tnp.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
    return tnp.mean(logsumexp(logits, axis=1) - picked)


def nearest_by_differences(queries: Any, data: Any) -> Any:
    distances = tnp.abs(queries[:, None, :] - data[None, :, :]).sum(-1)
    return tnp.top_k(-distances, 10)


def filtered(x: Any) -> Any:
    return tnp.abs(tnp.fft.ifft2(tnp.fft.fft2(x) * 0.5))


def sorted_columns(x: Any) -> Any:
    return tnp.sort(tnp.tanh(x), axis=0)


def ranks(x: Any) -> Any:
    return tnp.argsort(x * 2.0, axis=-1)


def normalised(x: Any, scale: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred / tnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale


def recurrent_loss(w: Any, xs: Any) -> Any:
    def step(state: Any, x: Any) -> Any:
        state = tnp.tanh(state @ w + x)
        return state, state

    _, states = tracer.scan(step, tnp.zeros(xs.shape[1:], dtype=xs.dtype), xs)
    return tnp.mean(states**2)


def _layers(rng: np.random.Generator) -> Any:
    sizes = (64, 256, 256, 10)
    return [(_normal(rng, a, b) / a**0.5, _normal(rng, b)) for a, b in pairwise(sizes)]


def _double(rng: np.random.Generator, *shape: int) -> Any:
    return _normal(rng, *shape, dtype=np.float64)


def _kernel_inputs(rng: np.random.Generator, n: int, d: int) -> tuple[Any, ...]:
    return _normal(rng, n, d), _normal(rng, n, d), _normal(rng, n)


def _images(rng: np.random.Generator) -> tuple[Any, ...]:
    kernels = [_normal(rng, 3, 3, a, b) / 9 for a, b in ((3, 16), (16, 32))]
    return kernels, _normal(rng, 256, 32, 32, 3)


HELD_OUT: dict[str, LimitedProgram] = {
    "attention, 8 heads of 4096": LimitedProgram(
        attention, lambda rng: tuple(_normal(rng, 8, 4096, 64) for _ in range(3)), "256MB"
    ),
    "attention, gradient, 4 heads of 2048": LimitedProgram(
        tracer.grad(lambda q, k, v: tnp.sum(attention(q, k, v) ** 2), argnums=(0, 1, 2)),
        lambda rng: tuple(_normal(rng, 4, 2048, 64) for _ in range(3)),
        None,
    ),
    "Matern-5/2 product": LimitedProgram(
        matern, lambda rng: (*_kernel_inputs(rng, 10_000, 3), np.ones(3, np.float32)), "32MB"
    ),
    "Matern-5/2 gradient": LimitedProgram(
        tracer.grad(matern_loss, argnums=(0, 3)),
        lambda rng: (*_kernel_inputs(rng, 6000, 3), np.ones(3, np.float32)),
        "64MB",
    ),
    "rational quadratic product, d = 100": LimitedProgram(
        rational_quadratic, lambda rng: _kernel_inputs(rng, 8000, 100), "64MB"
    ),
    "rational quadratic product, no limit": LimitedProgram(
        rational_quadratic, lambda rng: _kernel_inputs(rng, 6000, 20), None
    ),
    "sparse process": LimitedProgram(
        sparse_process_loss,
        lambda rng: (_double(rng, 50_000, 3), _double(rng, 50_000), _double(rng, 200, 3), 0.1),
        "64MB",
    ),
    "sparse process, gradient": LimitedProgram(
        tracer.grad(sparse_process_loss, argnums=(2, 3)),
        lambda rng: (_double(rng, 50_000, 3), _double(rng, 50_000), _double(rng, 200, 3), 0.1),
        "128MB",
    ),
    "exact process, n = 2000": LimitedProgram(
        exact_process_loss, lambda rng: (_double(rng, 2000, 3), _double(rng, 2000)), None
    ),
    "exact process, gradient": LimitedProgram(
        tracer.grad(exact_process_loss),
        lambda rng: (_double(rng, 1500, 3), _double(rng, 1500)),
        None,
    ),
    "InfoNCE, gradient": LimitedProgram(
        tracer.grad(info_nce, argnums=(0, 1)),
        lambda rng: (_normal(rng, 6000, 128), _normal(rng, 6000, 128)),
        "256MB",
    ),
    "k-means step": LimitedProgram(
        k_means_step, lambda rng: (_normal(rng, 100_000, 16), _normal(rng, 256, 16)), "64MB"
    ),
    "convolutions, gradient": LimitedProgram(tracer.grad(convolution_loss), _images, None),
    "convolutions, gradient, limit": LimitedProgram(tracer.grad(convolution_loss), _images, "32MB"),
    "network, gradient": LimitedProgram(
        tracer.grad(network_loss),
        lambda rng: (_layers(rng), _normal(rng, 100_000, 64), _normal(rng, 100_000, 10)),
        "128MB",
    ),
    "network, gradient, no limit": LimitedProgram(
        tracer.grad(network_loss),
        lambda rng: (_layers(rng), _normal(rng, 50_000, 64), _normal(rng, 50_000, 10)),
        None,
    ),
    "Sinkhorn": LimitedProgram(
        sinkhorn, lambda rng: (_normal(rng, 3000, 3), _normal(rng, 3000, 3)), "64MB"
    ),
    "Sinkhorn, no limit": LimitedProgram(
        sinkhorn, lambda rng: (_normal(rng, 3000, 3), _normal(rng, 3000, 3)), None
    ),
    "cross-entropy, 50,000 classes, gradient": LimitedProgram(
        tracer.grad(cross_entropy, argnums=(0, 1)),
        lambda rng: (
            _normal(rng, 1024, 64),
            _normal(rng, 64, 50_000),
            rng.integers(0, 50_000, 1024),
        ),
        "128MB",
    ),
    "nearest by L1": LimitedProgram(
        nearest_by_differences,
        lambda rng: (_normal(rng, 1000, 16), _normal(rng, 50_000, 16)),
        "64MB",
    ),
    "FFT of 2048 x 2048": LimitedProgram(filtered, lambda rng: (_normal(rng, 2048, 2048),), None),
    "sort of columns": LimitedProgram(
        sorted_columns, lambda rng: (_normal(rng, 4_000_000, 2),), None
    ),
    "ranks": LimitedProgram(ranks, lambda rng: (_normal(rng, 2_000_000),), None),
    "layer normalisation": LimitedProgram(
        normalised, lambda rng: (_normal(rng, 8192, 1024), _normal(rng, 1024)), None
    ),
    "recurrent network, gradient": LimitedProgram(
        tracer.grad(recurrent_loss),
        lambda rng: (_normal(rng, 128, 128) / 12, _normal(rng, 200, 256, 128)),
        None,
    ),
}
