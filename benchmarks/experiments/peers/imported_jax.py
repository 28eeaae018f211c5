"""Programs written for JAX, as their packages' pages write them: limited, and by `jax.jit`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.experiments.runs import Run, scaled
from benchmarks.unavailable import Unavailable

Made = tuple[Callable[..., Any], tuple[Any, ...]]


def limited(program: str, n: int, limit: str, device: str, cap_bytes: int) -> Run:
    """Run by `tracer.jax.limit`."""
    import tracer.jax
    from benchmarks.experiments.peers.ours import plan_figures
    from benchmarks.warm_up import load_libraries

    load_libraries()
    function, arguments = PROGRAMS[program](n)
    step = tracer.jax.limit(function, memory_limit=limit)
    start = time.perf_counter()
    plan = step.plan(*arguments)
    seconds = time.perf_counter() - start
    return Run(
        lambda: jax.block_until_ready(step(*arguments)),
        few,
        about=lambda: {**plan_figures(plan), "compile_seconds": seconds},
    )


def jitted(program: str, n: int, device: str, cap_bytes: int) -> Run:
    """Run by `jax.jit`; what needs more than the cap by XLA's own count is not started."""
    try:
        jax.config.update("jax_default_device", jax.devices(device)[0])
    except RuntimeError as error:
        raise Unavailable(f"jax {jax.__version__}: {error}") from error
    # What the compiler loads and makes once is not part of a program's time to compile.
    jax.jit(lambda x: jnp.exp(x @ x))(jnp.ones((48, 48)))
    function, arguments = PROGRAMS[program](n)
    start = time.perf_counter()
    compiled = jax.jit(function).lower(*arguments).compile()
    seconds = time.perf_counter() - start
    counted = compiled.memory_analysis()
    needed = counted.temp_size_in_bytes + counted.output_size_in_bytes
    if needed > cap_bytes:
        raise MemoryError(f"XLA counts {needed:,} bytes, more than the cap of {cap_bytes:,}")
    return Run(
        lambda: jax.block_until_ready(compiled(*arguments)),
        few,
        about=lambda: {"counted_bytes": needed, "compile_seconds": seconds},
    )


def few(results: Any) -> Any:
    """Return some elements of each result."""
    return scaled([np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(results)])


def _normal(*shape: int, seed: int = 0) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape, dtype=np.float32))


def _kernel(n: int) -> Made:
    def loss(x: jax.Array, v: jax.Array) -> jax.Array:
        squares = ((x[:, None, :] - x[None, :, :]) ** 2).sum(-1)
        return ((jnp.exp(-0.5 * squares) @ v) ** 2).mean()

    return jax.value_and_grad(loss), (_normal(n, 3), _normal(n, seed=1))


def _flax_block(n: int) -> Made:
    from flax import linen as nn

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            mask = nn.make_causal_mask(jnp.ones(x.shape[:2]))
            x = x + nn.SelfAttention(num_heads=8)(nn.LayerNorm()(x), mask=mask)
            h = nn.gelu(nn.Dense(4 * x.shape[-1])(nn.LayerNorm()(x)))
            return x + nn.Dense(x.shape[-1])(h)

    block = Block()
    parameters = block.init(jax.random.key(0), jnp.ones((1, 8, 256)))
    x, y = _normal(1, n, 256), _normal(1, n, 256, seed=1)

    def loss(parameters: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        return ((block.apply(parameters, x) - y) ** 2).mean()

    return jax.value_and_grad(loss), (parameters, x, y)


def _attention(n: int) -> Made:
    def loss(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        scores = jnp.einsum("hqd,hkd->hqk", q, k) / np.sqrt(64).astype(np.float32)
        hidden = jnp.arange(n)[:, None] < jnp.arange(n)[None, :]
        shares = jax.nn.softmax(jnp.where(hidden, -1e9, scores), axis=-1)
        return (jnp.einsum("hqk,hkd->hqd", shares, v) ** 2).sum()

    arguments = tuple(_normal(8, n, 64, seed=seed) for seed in range(3))
    return jax.grad(loss, argnums=(0, 1, 2)), arguments


def _sinkhorn(n: int) -> Made:
    from ott.geometry import pointcloud
    from ott.problems.linear import linear_problem
    from ott.solvers.linear import sinkhorn

    def cost(x: jax.Array, y: jax.Array) -> Any:
        problem = linear_problem.LinearProblem(pointcloud.PointCloud(x, y, epsilon=0.5))
        solved = sinkhorn.Sinkhorn(max_iterations=20, threshold=0)(problem)
        return solved.reg_ot_cost, solved.f

    return cost, (_normal(n, 3), _normal(n, 3, seed=1))


def _cross_entropy(n: int) -> Made:
    def loss(w: jax.Array, x: jax.Array, labels: jax.Array) -> jax.Array:
        logs = jax.nn.log_softmax(x @ w, axis=-1)
        return -jnp.take_along_axis(logs, labels[:, None], axis=-1).mean()

    rows = min(4_096, n)
    labels = jnp.asarray(np.random.default_rng(2).integers(n, size=rows))
    return jax.value_and_grad(loss), (_normal(64, n), _normal(rows, 64, seed=1), labels)


def _gaussian_process(n: int) -> Made:
    import tinygp

    def loss(log_scale: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        kernel = tinygp.kernels.ExpSquared(jnp.exp(log_scale))
        return -tinygp.GaussianProcess(kernel, x, diag=0.1).log_probability(y)

    return jax.value_and_grad(loss), (jnp.float32(0.3), _normal(n, 3), _normal(n, seed=1))


def _neighbours(n: int) -> Made:
    def nearest(queries: jax.Array, points: jax.Array) -> jax.Array:
        squares = ((queries[:, None, :] - points[None, :, :]) ** 2).sum(-1)
        return -jax.lax.top_k(-squares, 10)[0]

    return nearest, (_normal(n // 10, 16), _normal(n, 16, seed=1))


def _tsne(n: int) -> Made:
    def squares(x: jax.Array) -> jax.Array:
        return ((x[:, None, :] - x[None, :, :]) ** 2).sum(-1)

    def loss(y: jax.Array, x: jax.Array) -> jax.Array:
        other = 1 - jnp.eye(n, dtype=x.dtype)
        near = jnp.exp(-squares(x) / 2) * other
        p = near / near.sum()
        q = other / (1 + squares(y))
        q = q / q.sum()
        return (p * (jnp.log(p + 1e-12) - jnp.log(q + 1e-12))).sum()

    return jax.value_and_grad(loss), (_normal(n, 2), _normal(n, 10, seed=1))


PROGRAMS: dict[str, Callable[[int], Made]] = {
    "SE kernel, value and gradient": _kernel,
    "flax transformer block, gradient": _flax_block,
    "causal attention, gradient": _attention,
    "Sinkhorn of ott": _sinkhorn,
    "cross-entropy, gradient": _cross_entropy,
    "exact GP of tinygp, gradient": _gaussian_process,
    "10 nearest neighbours": _neighbours,
    "t-SNE, gradient": _tsne,
}
