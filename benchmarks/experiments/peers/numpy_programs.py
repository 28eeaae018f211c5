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


def _smallest(distances: Array, k: int) -> Array:
    places = np.argpartition(distances, k, axis=1)[:, :k]
    order = np.argsort(np.take_along_axis(distances, places, 1), axis=1, kind="stable")
    found: Array = np.take_along_axis(places, order, 1)
    return found


def neighbours(device: str, cap_bytes: int, **search: Any) -> Run:
    """Compute all distances as written, then a partition of each row."""
    asked = inputs.Search(**search)
    queries, points = asked.arrays
    return Run(
        lambda: _smallest(inputs.distances(asked.metric, np, queries, points), asked.k),
        asked.checked,
    )


def neighbours_in_blocks(device: str, cap_bytes: int, **search: Any) -> Run:
    """Take blocks of queries, from norms and a BLAS product; for L2 and cosine."""
    asked = inputs.Search(**search)
    queries, points = asked.arrays
    rows = max(1, min(asked.m, 4 * BLOCK_NUMBERS // asked.n))

    def call() -> Array:
        squares = (points * points).sum(-1)
        found = np.empty((asked.m, asked.k), np.int64)
        for start in range(0, asked.m, rows):
            part = slice(start, start + rows)
            block = queries[part] @ points.T
            if asked.metric == "cosine":
                block /= np.sqrt(squares)
                np.negative(block, out=block)
            else:
                # The query's own norm changes no order.
                block *= -2
                block += squares
            found[part] = _smallest(block, asked.k)
        return found

    return Run(call, asked.checked)
