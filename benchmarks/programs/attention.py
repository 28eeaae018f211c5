"""Attention of 8 heads with 64 features, causal and not, and its gradient."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.framework import Framework, Rng
from benchmarks.programs.workload import (
    Array,
    Check,
    Size,
    Workload,
    chunks,
    relative_error,
    sizes,
    some_rows,
)

HEADS, FEATURES = 8, 64


def attention(causal: bool) -> Callable[[Framework], Callable[..., Any]]:
    def make(f: Framework) -> Callable[..., Any]:
        np = f.numpy

        def program(q: Any, k: Any, v: Any) -> Any:
            scores = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
            if causal:
                places = np.arange(q.shape[-2])
                scores = np.where(places[:, None] >= places[None, :], scores, -np.inf)
            return f.nn.softmax(scores, axis=-1) @ v

        return program

    return make


def gradient(causal: bool) -> Callable[[Framework], Callable[..., Any]]:
    """Return the gradient to q, k and v of the result times the values `v`."""

    def make(f: Framework) -> Callable[..., Any]:
        forward = attention(causal)(f)

        def loss(q: Any, k: Any, v: Any) -> Any:
            return (forward(q, k, v) ** 2).sum()

        made: Callable[..., Any] = f.transforms.grad(loss, argnums=(0, 1, 2))
        return made

    return make


def _inputs(rng: Rng, length: int) -> tuple[Any, ...]:
    return tuple(rng.standard_normal((3, HEADS, length, FEATURES), dtype=np.float32))


def shares_of(q: Array, k: Array, first: Array, causal: bool) -> Array:
    """Return the softmax of the scores of some queries, which stand at the places `first`."""
    scores = q @ k.T / FEATURES**0.5
    if causal:
        scores[first[:, None] < np.arange(len(k))[None, :]] = -np.inf
    shares: Array = np.exp(scores - scores.max(1, keepdims=True))
    return shares / shares.sum(1, keepdims=True)


def _check_forward(causal: bool) -> Check:
    def check(inputs: tuple[Any, ...], found: Any) -> float:
        q, k, v = (np.asarray(x, np.float64) for x in inputs)
        rows = some_rows(q.shape[1])
        expected = [
            shares_of(q[head, rows], k[head], rows, causal) @ v[head] for head in range(HEADS)
        ]
        return relative_error(found[:, rows], np.stack(expected))

    return check


def _check_gradient(causal: bool) -> Check:
    """Check the first and the last head in full."""

    def check(inputs: tuple[Any, ...], found: Any) -> float:
        errors = []
        for head in (0, HEADS - 1):
            one = [np.asarray(x[head], np.float64) for x in inputs]
            pairs = zip(found, head_gradient(*one, causal), strict=True)
            errors += [relative_error(mine[head], expected) for mine, expected in pairs]
        return max(errors)

    return check


def head_gradient(q: Array, k: Array, v: Array, causal: bool) -> tuple[Array, Array, Array]:
    """Return the gradients of the sum of the squares of one head's result."""
    of_q, of_k, of_v = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    places = np.arange(len(q))
    for rows in chunks(len(q), 512):
        shares = shares_of(q[rows], k, places[rows], causal)
        pull = 2 * shares @ v
        of_v += shares.T @ pull
        of_shares = pull @ v.T
        of_scores = shares * (of_shares - (of_shares * shares).sum(1, keepdims=True))
        of_q[rows] = of_scores @ k / FEATURES**0.5
        of_k += of_scores.T @ q[rows] / FEATURES**0.5
    return of_q, of_k, of_v


def _sizes(medium: int, limits: tuple[str, str, str]) -> Mapping[str, Size]:
    return sizes({"length": 1_024}, {"length": medium}, {"length": 16_384}, limits)


_FORWARD = _sizes(4_096, ("24MB", "64MB", "256MB"))
_GRADIENT = _sizes(2_048, ("24MB", "48MB", "256MB"))

WORKLOADS: Mapping[str, Workload] = {
    "attention": Workload(attention(False), _inputs, _FORWARD, _check_forward(False), 1e-5),
    "attention, causal": Workload(attention(True), _inputs, _FORWARD, _check_forward(True), 1e-5),
    "attention gradient": Workload(
        gradient(False), _inputs, _GRADIENT, _check_gradient(False), 1e-4
    ),
    "attention gradient, causal": Workload(
        gradient(True), _inputs, _GRADIENT, _check_gradient(True), 1e-4
    ),
}
