"""NumPy: as written, and in blocks by hand with BLAS products."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.experiments import inputs
from benchmarks.experiments.runs import Array, Run, some

BLOCK_NUMBERS = 4_000_000
"""Numbers in a block of rows: 32 MB in float64."""


def kernel(n: int, device: str, cap_bytes: int) -> Run:
    """Run the three lines of the examples."""
    x, v = inputs.kernel(n)

    def call() -> Array:
        squares = ((x[:, None, :] - x[None, :, :]) ** 2).sum(-1)
        product: Array = np.exp(-0.5 * squares) @ v
        return product

    return Run(call, lambda found: found[some(n, 64)])


def kernel_in_blocks(n: int, device: str, cap_bytes: int) -> Run:
    """Take blocks of rows, from norms and a product, in place."""
    x, v = inputs.kernel(n)
    rows = max(1, min(n, BLOCK_NUMBERS // n))
    halves = 0.5 * (x * x).sum(-1)

    def call() -> Array:
        product = np.empty(n)
        for start in range(0, n, rows):
            part = slice(start, start + rows)
            block = x[part] @ x.T
            block -= halves[part, None]
            block -= halves[None, :]
            np.exp(block, out=block)
            product[part] = block @ v
        return product

    return Run(call, lambda found: found[some(n, 64)])


def _distances(metric: str, queries: Array, points: Array) -> Any:
    if metric == "cosine":
        queries = queries / np.sqrt((queries * queries).sum(-1, keepdims=True))
        points = points / np.sqrt((points * points).sum(-1, keepdims=True))
        return 1 - queries @ points.T
    differences = queries[:, None, :] - points[None, :, :]
    return np.abs(differences).sum(-1) if metric == "L1" else (differences**2).sum(-1)


def _smallest(distances: Array, k: int) -> Array:
    places = np.argpartition(distances, k, axis=1)[:, :k]
    order = np.argsort(np.take_along_axis(distances, places, 1), axis=1, kind="stable")
    found: Array = np.take_along_axis(places, order, 1)
    return found


def neighbours(
    source: str,
    n: int,
    d: int,
    m: int,
    k: int,
    metric: str,
    device: str,
    cap_bytes: int,
    data: str | None = None,
) -> Run:
    """Compute all distances as written, then a partition of each row."""
    queries, points = inputs.neighbours(source, n, d, m, data)
    return Run(
        lambda: _smallest(_distances(metric, queries, points), k),
        lambda found: found[some(m, 32)],
    )


def neighbours_in_blocks(
    source: str,
    n: int,
    d: int,
    m: int,
    k: int,
    metric: str,
    device: str,
    cap_bytes: int,
    data: str | None = None,
) -> Run:
    """Take blocks of queries, from norms and a BLAS product; for L2 and cosine."""
    queries, points = inputs.neighbours(source, n, d, m, data)
    rows = max(1, min(m, 4 * BLOCK_NUMBERS // n))

    def call() -> Array:
        squares = (points * points).sum(-1)
        found = np.empty((m, k), np.int64)
        for start in range(0, m, rows):
            part = slice(start, start + rows)
            block = queries[part] @ points.T
            if metric == "cosine":
                block /= np.sqrt(squares)
                np.negative(block, out=block)
            else:
                # The query's own norm changes no order.
                block *= -2
                block += squares
            found[part] = _smallest(block, k)
        return found

    return Run(call, lambda found: found[some(m, 32)])
