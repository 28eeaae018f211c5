"""Programs that outgrow their memory, as a user would write them; shared by the planner benchmark.

Each entry makes inputs of a size and names a limit well below what the program takes as written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import tracer
import tracer.numpy as tnp
from tracer.nn import softmax


@dataclass(frozen=True)
class Workload:
    """A program, its inputs by size, and the limit it is run under."""

    program: Callable[..., Any]
    inputs: Callable[[np.random.Generator, int], tuple[Any, ...]]
    size: int
    limit: str


def _points(rng: np.random.Generator, n: int, d: int) -> np.ndarray[Any, Any]:
    return rng.standard_normal((n, d), dtype=np.float32)


def squared_distances(x: Any, y: Any) -> Any:
    return ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)


def kernel_product(x: Any, y: Any, v: Any) -> Any:
    return tnp.exp(-0.5 * squared_distances(x, y)) @ v


def kernel_loss(x: Any, y: Any, v: Any) -> Any:
    return tnp.sum(kernel_product(x, y, v) ** 2)


def log_density(x: Any, queries: Any) -> Any:
    return tracer.scipy.special.logsumexp(-0.5 * squared_distances(queries, x), axis=1)


def nearest(queries: Any, data: Any) -> Any:
    return tnp.top_k(-squared_distances(queries, data), 10)


def attention(q: Any, k: Any, v: Any) -> Any:
    scores = q @ tnp.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    return softmax(scores, axis=-1) @ v


def attention_loss(q: Any, k: Any, v: Any) -> Any:
    return tnp.sum(attention(q, k, v) ** 2)


def contrastive_loss(a: Any, b: Any) -> Any:
    scores = a @ b.T
    return tnp.mean(tracer.scipy.special.logsumexp(scores, axis=1) - tnp.sum(a * b, axis=1))


def perceptron_loss(weights: Any, x: Any, y: Any) -> Any:
    for w in weights:
        x = tnp.tanh(x @ w)
    return tnp.mean((x[:, 0] - y) ** 2)


def correlation_maxima(x: Any) -> Any:
    z = (x - tnp.mean(x, axis=0)) / tnp.std(x, axis=0)
    correlations = tnp.abs(z.T @ z / x.shape[0])
    return tnp.max(correlations - tnp.eye(x.shape[1], dtype=x.dtype), axis=1)


def potential_energy(x: Any) -> Any:
    return -0.5 * tnp.sum(1 / tnp.sqrt(squared_distances(x, x) + 1e-2))


def mean_discrepancy(x: Any, y: Any) -> Any:
    def mean(a: Any, b: Any) -> Any:
        return tnp.mean(tnp.exp(-squared_distances(a, b)))

    return mean(x, x) + mean(y, y) - 2 * mean(x, y)


def _layers(rng: np.random.Generator) -> list[np.ndarray[Any, Any]]:
    return [_points(rng, n, m) * n**-0.5 for n, m in ((32, 128), (128, 128), (128, 1))]


WORKLOADS: dict[str, Workload] = {
    "kernel product": Workload(
        kernel_product,
        lambda rng, n: (_points(rng, n, 3), _points(rng, n, 3), _points(rng, n, 1)[:, 0]),
        20_000,
        "64MB",
    ),
    "kernel product, d = 100": Workload(
        kernel_product,
        lambda rng, n: (_points(rng, n, 100), _points(rng, n, 100), _points(rng, n, 1)[:, 0]),
        10_000,
        "64MB",
    ),
    "kernel product, gradient": Workload(
        tracer.grad(kernel_loss, argnums=(0, 1, 2)),
        lambda rng, n: (_points(rng, n, 3), _points(rng, n, 3), _points(rng, n, 1)[:, 0]),
        10_000,
        "64MB",
    ),
    "10 nearest neighbours": Workload(
        nearest, lambda rng, n: (_points(rng, 1000, 64), _points(rng, n, 64)), 40_000, "64MB"
    ),
    "log density": Workload(
        log_density, lambda rng, n: (_points(rng, n, 3), _points(rng, n, 3)), 10_000, "64MB"
    ),
    "attention": Workload(
        attention, lambda rng, s: tuple(_heads(rng, s) for _ in range(3)), 2048, "64MB"
    ),
    "attention, gradient": Workload(
        tracer.grad(attention_loss, argnums=(0, 1, 2)),
        lambda rng, s: tuple(_heads(rng, s) for _ in range(3)),
        2048,
        "128MB",
    ),
    "contrastive loss, gradient": Workload(
        tracer.grad(contrastive_loss, argnums=(0, 1)),
        lambda rng, n: (_points(rng, n, 64), _points(rng, n, 64)),
        8192,
        "64MB",
    ),
    "perceptron, gradient": Workload(
        tracer.grad(perceptron_loss),
        lambda rng, n: (_layers(rng), _points(rng, n, 32), _points(rng, n, 1)[:, 0]),
        200_000,
        "128MB",
    ),
    "correlation maxima": Workload(
        correlation_maxima, lambda rng, n: (_points(rng, 200, n),), 8000, "64MB"
    ),
    "potential energy, gradient": Workload(
        tracer.grad(potential_energy), lambda rng, n: (_points(rng, n, 3),), 8000, "64MB"
    ),
    "mean discrepancy": Workload(
        mean_discrepancy, lambda rng, n: (_points(rng, n, 3), _points(rng, n, 3)), 8000, "64MB"
    ),
}


def _heads(rng: np.random.Generator, length: int) -> np.ndarray[Any, Any]:
    return rng.standard_normal((8, length, 64), dtype=np.float32)


def prepare(name: str, limit: str | None = None, size: int | None = None) -> Callable[[], Any]:
    """Make inputs, compile, and return `run` (for `benchmarks.measure`)."""
    workload = WORKLOADS[name]
    rng = np.random.default_rng(0)
    inputs = tracer.tree.map(tnp.asarray, workload.inputs(rng, size or workload.size))
    compiled = tracer.compile(workload.program, memory_limit=limit)
    compiled.plan(*inputs)
    _warm_up()

    def run() -> Any:
        results = compiled(*inputs)
        for leaf in tracer.tree.leaves(results):
            leaf.block_until_ready()
        return results

    return run


def _warm_up() -> None:
    """Have XLA load and start what it starts lazily, so that it is not counted as the program's."""
    x = tnp.ones((64, 64), "float32")
    warm = tracer.compile(lambda x: tnp.top_k(tnp.exp(x @ x), 2)[0])
    warm(x).block_until_ready()
