"""Attention, losses of networks, and a sparse Gaussian process, split over the data by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import logsumexp

from benchmarks.programs.convolution import LAYOUT
from benchmarks.programs.gaussian import JITTER
from benchmarks.programs.networks import TEMPERATURE

Program = Callable[..., Any]


def _attention(causal: bool) -> Callable[[int], Program]:
    def make(batch: int) -> Program:
        def program(q: Any, k: Any, v: Any) -> Any:
            @jax.checkpoint
            def row(one: Any) -> Any:
                place, query = one
                scores = jnp.einsum("hd,hsd->hs", query, k) / q.shape[-1] ** 0.5
                if causal:
                    scores = jnp.where(jnp.arange(q.shape[1]) <= place, scores, -jnp.inf)
                return jnp.einsum("hs,hsd->hd", jax.nn.softmax(scores), v)

            rows = (jnp.arange(q.shape[1]), jnp.swapaxes(q, 0, 1))
            return jnp.swapaxes(jax.lax.map(row, rows, batch_size=batch), 0, 1)

        return program

    return make


def _attention_gradient(causal: bool) -> Callable[[int], Program]:
    def make(batch: int) -> Program:
        forward = _attention(causal)(batch)
        return jax.grad(lambda q, k, v: (forward(q, k, v) ** 2).sum(), argnums=(0, 1, 2))

    return make


def _contrastive(batch: int) -> Program:
    def loss(a: Any, b: Any) -> Any:
        @jax.checkpoint
        def row(pair: Any) -> Any:
            left, right = pair
            return logsumexp(b @ left / TEMPERATURE) - left @ right / TEMPERATURE

        return jax.lax.map(row, (a, b), batch_size=batch).mean()

    return jax.grad(loss, argnums=(0, 1))


def _cross_entropy(batch: int) -> Program:
    def loss(features: Any, weights: Any, labels: Any) -> Any:
        @jax.checkpoint
        def row(one: Any) -> Any:
            scores = one[0] @ weights
            return logsumexp(scores) - scores[one[1]]

        return jax.lax.map(row, (features, labels), batch_size=batch).mean()

    return jax.grad(loss, argnums=(0, 1))


def _perceptron(batch: int) -> Program:
    def loss(weights: Any, x: Any, y: Any) -> Any:
        @jax.checkpoint
        def row(one: Any) -> Any:
            hidden = one[0]
            for w in weights[:-1]:
                hidden = jnp.tanh(hidden @ w)
            return ((hidden @ weights[-1])[0] - one[1]) ** 2

        return jax.lax.map(row, (x, y), batch_size=batch).mean()

    return jax.grad(loss)


def _convolution(batch: int) -> Program:
    def convolve(images: Any, kernel: Any) -> Any:
        return jax.lax.conv_general_dilated(
            images, kernel, (1, 1), "SAME", dimension_numbers=LAYOUT
        )

    def loss(parameters: Any, images: Any, labels: Any) -> Any:
        first, second, last = parameters

        @jax.checkpoint
        def row(one: Any) -> Any:
            image, label = one
            hidden = jnp.maximum(convolve(image[None], first), 0)
            _, height, width, features = hidden.shape
            halves = (1, height // 2, 2, width // 2, 2, features)
            hidden = jnp.maximum(convolve(hidden.reshape(halves).mean((2, 4)), second), 0)
            scores = hidden.mean((1, 2))[0] @ last
            return logsumexp(scores) - scores[label]

        return jax.lax.map(row, (images, labels), batch_size=batch).mean()

    return jax.value_and_grad(loss)


def _means_step(batch: int) -> Program:
    def program(points: Any, centres: Any) -> Any:
        nearest = jax.lax.map(
            lambda point: ((point - centres) ** 2).sum(-1).argmin(), points, batch_size=batch
        )
        sums = jnp.zeros_like(centres).at[nearest].add(points)
        counts = jnp.zeros(len(centres), points.dtype).at[nearest].add(1)
        return sums / jnp.maximum(counts, 1)[:, None]

    return program


def _covariance(x: Any, y: Any, lengthscale: Any) -> Any:
    x, y = x / lengthscale, y / lengthscale
    return jnp.exp(-0.5 * ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1))


def _bound(batch: int) -> Program:
    """Accumulate the Gram matrix over slices of the data; `batch` divides their number."""

    def loss(z: Any, lengthscale: Any, noise: Any, x: Any, y: Any) -> Any:
        n, m = x.shape[0], z.shape[0]
        inner = jnp.linalg.cholesky(_covariance(z, z, lengthscale) + JITTER * jnp.eye(m))

        @jax.checkpoint
        def step(sums: Any, one: Any) -> Any:
            cross = _covariance(z, one[0], lengthscale)
            a = solve_triangular(inner, cross, lower=True) / jnp.sqrt(noise)
            return (sums[0] + a @ a.T, sums[1] + a @ one[1]), None

        slices = (x.reshape(-1, batch, x.shape[1]), y.reshape(-1, batch))
        (gram, projected), _ = jax.lax.scan(step, (jnp.zeros((m, m)), jnp.zeros(m)), slices)
        outer = jnp.linalg.cholesky(jnp.eye(m) + gram)
        c = solve_triangular(outer, projected, lower=True) / jnp.sqrt(noise)
        fit = -0.5 * n * jnp.log(2 * jnp.pi * noise) - jnp.log(jnp.diagonal(outer)).sum()
        return fit - 0.5 * (y @ y) / noise + 0.5 * (c @ c) - 0.5 * (n / noise - jnp.trace(gram))

    return jax.value_and_grad(loss, argnums=(0, 1, 2))


PROGRAMS: Mapping[str, tuple[Callable[[int], Program], tuple[int, ...]]] = {
    "attention": (_attention(False), (64, 256)),
    "attention, causal": (_attention(True), (64, 256)),
    "attention gradient": (_attention_gradient(False), (64, 256)),
    "attention gradient, causal": (_attention_gradient(True), (64, 256)),
    "contrastive gradient": (_contrastive, (128, 512)),
    "cross-entropy gradient": (_cross_entropy, (32, 128)),
    "perceptron gradient": (_perceptron, (1024, 8192)),
    "convolution gradient": (_convolution, (32, 128)),
    "k-means step": (_means_step, (200, 1000)),
    "sparse GP gradient": (_bound, (500, 2500)),
}
