"""Nearest neighbours by brute force: section 5.2 and tables 1 and 3 of the paper."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.experiments import inputs
from benchmarks.experiments.records import OURS, Case, Settings, System
from benchmarks.experiments.runs import Array, some

TITLE = "nearest neighbours"
K = 10
ABOVE = "100MB"
"""The limit, above the bytes of queries and points: those of the largest set are 4 GB."""
QUERIES = {"small": 1_000, "full": 10_000}
RANDOM = {
    "small": ((10_000, 3), (10_000, 10), (10_000, 100)),
    "full": tuple((n, d) for n in (10_000, 1_000_000, 10_000_000) for d in (3, 10, 100)),
}
STORED_NUMBERS = 20_000_000_000
"""Peers that store queries x points are tried up to here (80 GB); larger ones cannot fit."""
PAIRS = 10_000_000_000
"""Above so many pairs only ours and the two libraries for this run: a call takes others minutes."""
CHECKED = 32


@dataclass(frozen=True)
class Problem:
    """A set of points and a metric."""

    source: str
    n: int
    d: int
    metric: str


def problems(settings: Settings) -> Iterator[Problem]:
    """Yield the paper's, as far as the data is there; says what is not."""
    for n, d in RANDOM[settings.size]:
        yield Problem("random", n, d, "L2")
    if settings.size == "small":
        yield Problem("random", 10_000, 10, "L1")
        yield Problem("random", 10_000, 50, "cosine")
    folder = None if settings.data is None else Path(settings.data)
    for source, n, d, metrics in (
        ("Fashion-MNIST", 60_000, 784, ("L2", "L1")),
        ("MNIST", 60_000, 784, ("L2", "L1")),
        ("text embeddings", 120_000, 50, ("cosine",)),
    ):
        if folder is None or not (folder / inputs.SETS[source]).exists():
            print(f"{TITLE}: {source} skipped: no {inputs.SETS[source]} in --data")
            continue
        few = n if settings.size == "full" else n // 10
        for metric in metrics:
            yield Problem(source, few, d, metric)


def systems(problem: Problem, queries: int) -> Iterator[System]:
    """Yield ours and the peers that can express the metric."""
    yield System(f"{OURS}, {ABOVE}", "ours:neighbours", arguments={"above": ABOVE})
    if queries * problem.n <= STORED_NUMBERS:
        yield System("jax.jit", "jax_programs:neighbours", ("jax",), {"chunk": 0})
        for name, compiled in (("torch, eager", False), ("torch.compile", True)):
            yield System(name, "torch_programs:neighbours", ("torch",), {"compiled": compiled})
        yield System("NumPy", "numpy_programs:neighbours", devices=("cpu",))
    yield System("scikit-learn", "scikit:neighbours", ("sklearn",), devices=("cpu",))
    yield System("FAISS", "scikit:faiss_flat", ("faiss",))
    if queries * problem.n > PAIRS:
        return
    yield System("jax.jit, in chunks by hand", "jax_programs:neighbours", ("jax",), {"chunk": 32})
    yield System("KeOps", "keops:neighbours", ("pykeops", "torch"))
    if problem.metric != "L1":
        blocked = "numpy_programs:neighbours_in_blocks"
        yield System("NumPy, in blocks by hand", blocked, devices=("cpu",))
    if problem.metric != "cosine":
        yield System("C, AVX and OpenMP", "native:neighbours", ("gcc",), devices=("cpu",))


def cases(settings: Settings) -> Iterator[Case]:
    """Yield one case for each problem."""
    m = QUERIES[settings.size]
    for problem in problems(settings):
        shape = {**vars(problem), "m": m, "k": K, "data": settings.data}
        yield Case(
            TITLE,
            f"{problem.source}, {problem.metric}, {problem.n:,} x {problem.d}",
            shape,
            tuple(systems(problem, m)),
            lambda problem=problem: reference(problem, m, settings.data),  # type: ignore[misc]
            # Norms and products cancel in float32; neighbours at distances that differ less
            # than this may be exchanged.
            1e-4,
            work=m,
        )


def reference(problem: Problem, m: int, data: str | None) -> Callable[[Any], float]:
    """Return the error of places, against distances in float64."""
    queries, points = inputs.neighbours(problem.source, problem.n, problem.d, m, data)
    return Expected(queries[some(m, CHECKED)], points, problem.metric).error


class Expected:
    """Distances in float64 from some queries to all points.

    Places are right when the distances to them are the smallest, in order.
    """

    def __init__(self, queries: Array, points: Array, metric: str) -> None:
        self._distances = np.stack([distances(query, points, metric) for query in queries])

    def error(self, places: Array) -> float:
        """Return the largest difference from the right distances, relative to the largest."""
        right = np.sort(np.partition(self._distances, K, axis=1)[:, :K], axis=1)
        found = np.take_along_axis(self._distances, np.asarray(places).astype(int), 1)
        distinct = all(len(set(row)) == K for row in np.asarray(places).tolist())
        return float(np.abs(found - right).max() / right.max()) if distinct else np.inf


def distances(query: Array, points: Array, metric: str) -> Array:
    """Return distances in float64, in pieces of points: all of them again would not fit."""
    return np.concatenate(
        [
            _distances(query.astype(np.float64), points[start : start + 100_000], metric)
            for start in range(0, len(points), 100_000)
        ]
    )


def _distances(query: Array, points: Array, metric: str) -> Any:
    points = points.astype(np.float64)
    if metric == "cosine":
        norms = np.linalg.norm(points, axis=1) * np.linalg.norm(query)
        return 1 - points @ query / norms
    differences = points - query
    return np.abs(differences).sum(1) if metric == "L1" else (differences**2).sum(1)
