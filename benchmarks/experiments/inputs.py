"""The inputs, the same in every process; NumPy only."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.experiments.runs import Array, some

SETS = {
    "Fashion-MNIST": "fashion_mnist.npz",
    "MNIST": "mnist.npz",
    "text embeddings": "lsa_gutenberg_50d.npz",
}
UCI = {"kin40k": "kin40k.npz", "tamielectric": "tamielectric.npz", "kegg": "keggundirected.npz"}
MADE_UP = {
    "made up": (None, 4),
    "as large as 3droad": (434_874, 3),
    "as large as houseelectric": (2_049_280, 11),
}
"""Regressions that are drawn: how many points, where that is fixed, and of how many features."""
FEATURES = 3


def kernel(n: int) -> tuple[Array, Array]:
    """Return points (n, 3) and weights (n,) in float64."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, FEATURES)), rng.standard_normal(n)


def neighbours(source: str, n: int, d: int, m: int, data: str | None) -> tuple[Array, Array]:
    """Return queries (m, d) and points (n, d) in float32."""
    if source == "random":
        # Drawn in float32 at once: ten million points of 100 features are 4 GB.
        rng = np.random.default_rng(0)
        queries = rng.standard_normal((m, d), dtype=np.float32)
        return queries, rng.standard_normal((n, d), dtype=np.float32)
    assert data is not None
    with np.load(Path(data) / SETS[source], allow_pickle=False) as file:
        if source == "text embeddings":
            points = file["sentences"]
            # Every query is a word: its place in the same space, not one of the sentences.
            return file["words"][:m].astype(np.float32), points[:n].astype(np.float32)
        test, train = (file[key].reshape(-1, 784) for key in ("x_test", "x_train"))
    return test[:m].astype(np.float32), train[:n].astype(np.float32)


@dataclass(frozen=True)
class Search:
    """What is asked: the `k` nearest of `n` points of `d` numbers, for each of `m` queries."""

    source: str
    n: int
    d: int
    m: int
    k: int
    metric: str
    data: str | None = None

    @cached_property
    def arrays(self) -> tuple[Array, Array]:
        """Queries and points."""
        return neighbours(self.source, self.n, self.d, self.m, self.data)

    def checked(self, found: Any) -> Array:
        """Return the places whose distances are compared."""
        return np.asarray(found)[some(self.m, 32)]


def distances(metric: str, numpy: Any, queries: Any, points: Any) -> Any:
    """Return all distances, as one would write them down with a module that is like NumPy."""
    if metric == "cosine":
        queries = queries / numpy.sqrt((queries * queries).sum(-1, keepdims=True))
        points = points / numpy.sqrt((points * points).sum(-1, keepdims=True))
        return 1 - queries @ points.T
    differences = queries[:, None, :] - points[None, :, :]
    return numpy.abs(differences).sum(-1) if metric == "L1" else (differences**2).sum(-1)


def regression(source: str, n: int, data: str | None) -> dict[str, Array]:
    """Return standardised float64 `x`, `y`, `x_test`, `y_test`; at most n training points."""
    x, y, test = _regression(source, n, data)
    rng = np.random.default_rng(0)
    train = rng.permutation(np.flatnonzero(~test))[:n]
    x_mean, x_scale = x[train].mean(0), x[train].std(0)
    # A feature that is constant says nothing and cannot be scaled.
    varies = x_scale > 0
    y_mean, y_scale = y[train].mean(), y[train].std()
    x = (x[:, varies] - x_mean[varies]) / x_scale[varies]
    y = (y - y_mean) / y_scale
    return {"x": x[train], "y": y[train], "x_test": x[test], "y_test": y[test]}


def _regression(source: str, n: int, data: str | None) -> tuple[Array, Array, Array]:
    if source in MADE_UP:
        rng = np.random.default_rng(1)
        total = n + max(n // 10, 1)
        x = rng.standard_normal((total, MADE_UP[source][1]))
        y = np.sin(2 * x[:, 0]) * np.cos(x[:, 1]) + 0.1 * rng.standard_normal(total)
        return x, y, np.arange(total) >= n
    assert data is not None
    if source == "etopo20":
        with np.load(Path(data) / "etopo20.npz", allow_pickle=False) as file:
            longitude, latitude = np.meshgrid(file["lon"], file["lat"])
            x = np.stack([longitude.ravel(), latitude.ravel()], 1)
            y = file["elev"].ravel().astype(np.float64)
        return x, y, np.random.default_rng(2).random(len(y)) < 0.1
    with np.load(Path(data) / UCI[source], allow_pickle=False) as file:
        return file["X"].astype(np.float64), file["y"].astype(np.float64), file["test_mask"][:, 0]


def sparse_gp(source: str, n: int, m: int, data: str | None) -> dict[str, Any]:
    """Return the data of `regression` and the first parameters of a model of m inducing points."""
    found = regression(source, n, data)
    places = np.random.default_rng(3).permutation(len(found["x"]))[:m]
    return {
        **found,
        "inducing": found["x"][places].copy(),
        "lengthscales": np.ones(found["x"].shape[1]),
        "variance": 1.0,
        "noise": 0.1,
    }
