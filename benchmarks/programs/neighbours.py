"""Nearest neighbours: the indices are exact, and of equal distances the lowest index comes first.

Coordinates are whole numbers up to 255, as in images, so squared and absolute distances are exact
in float32 however they are summed, and some of them are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.framework import Framework, Rng
from benchmarks.programs.workload import (
    Array,
    Check,
    Workload,
    relative_error,
    sizes,
    some_rows,
    squared_distances,
)


def squared(np: Any, x: Any, y: Any) -> Any:
    return ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)


def absolute(np: Any, x: Any, y: Any) -> Any:
    return np.abs(x[:, None, :] - y[None, :, :]).sum(-1)


def cosine(np: Any, x: Any, y: Any) -> Any:
    x = x / np.sqrt((x * x).sum(-1, keepdims=True))
    y = y / np.sqrt((y * y).sum(-1, keepdims=True))
    return 1 - x @ y.T


def nearest(distance: Callable[..., Any], k: int) -> Callable[[Framework], Callable[..., Any]]:
    """Return the k smallest distances and their places."""

    def make(f: Framework) -> Callable[..., Any]:
        def program(queries: Any, data: Any) -> Any:
            found, places = f.top_k(-distance(f.numpy, queries, data), k)
            return -found, places

        return program

    return make


def _inputs(rng: Rng, queries: int, n: int, d: int) -> tuple[Any, ...]:
    draw = rng.integers(0, 256, (queries + n, d)).astype(np.float32)
    return draw[:queries], draw[queries:]


def _in_float64(distance: Callable[..., Any], x: Array, y: Array) -> Array:
    if distance is squared:
        return squared_distances(x, y)
    x, y = x.astype(np.float64), y.astype(np.float64)
    if distance is absolute:
        return sum(np.abs(a[:, None] - b[None, :]) for a, b in zip(x.T, y.T, strict=True))  # type: ignore[return-value]
    found: Array = cosine(np, x, y)
    return found


def _check(distance: Callable[..., Any], k: int) -> Check:
    """Places must be those of NumPy; where distances are rounded, distances at the places count."""

    def check(inputs: tuple[Any, ...], found: Any) -> float:
        queries, data = inputs
        rows = some_rows(len(queries), 32)
        distances = _in_float64(distance, queries[rows], data)
        expected = np.argsort(distances, axis=1, kind="stable")[:, :k]
        values, places = found[0][rows], found[1][rows]
        sorted_values = np.take_along_axis(distances, expected, 1)
        if distance is not cosine and not np.array_equal(places, expected):
            return float("inf")
        at_places = np.take_along_axis(distances, places.astype(int), 1)
        return max(relative_error(values, sorted_values), relative_error(at_places, sorted_values))

    return check


def _workload(distance: Callable[..., Any], k: int, *, n: int = 100_000) -> Workload:
    return Workload(
        nearest(distance, k),
        _inputs,
        sizes(
            {"queries": 500, "n": 20_000, "d": 10},
            {"queries": 1_000, "n": n, "d": 10},
            {"queries": 1_000, "n": 1_000_000, "d": 10},
            ("20MB", "64MB", "128MB"),
        ),
        _check(distance, k),
        1e-4 if distance is cosine else 1e-6,
    )


WORKLOADS: Mapping[str, Workload] = {
    "1 neighbour, L2": _workload(squared, 1),
    "10 neighbours, L2": _workload(squared, 10),
    "100 neighbours, L2": _workload(squared, 100),
    "10 neighbours, L1": _workload(absolute, 10),
    "10 neighbours, cosine": _workload(cosine, 10),
    "10 neighbours, 1,000,000": _workload(squared, 10, n=1_000_000),
}
