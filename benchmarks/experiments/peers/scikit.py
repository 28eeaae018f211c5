"""scikit-learn and FAISS: the libraries that are made for the job."""

from __future__ import annotations

import numpy as np

from benchmarks.experiments import inputs
from benchmarks.experiments.runs import Run, some

METRICS = {"L2": "euclidean", "L1": "manhattan", "cosine": "cosine"}


def kernel(n: int, device: str, cap_bytes: int) -> Run:
    """Compute `rbf_kernel(x) @ v`."""
    from sklearn.metrics.pairwise import rbf_kernel

    x, v = inputs.kernel(n)
    return Run(lambda: rbf_kernel(x, gamma=0.5) @ v, lambda found: found[some(n, 64)])


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
    """Search by brute force."""
    from sklearn.neighbors import NearestNeighbors

    queries, points = inputs.neighbours(source, n, d, m, data)
    index = NearestNeighbors(n_neighbors=k, algorithm="brute", metric=METRICS[metric]).fit(points)
    return Run(
        lambda: index.kneighbors(queries, return_distance=False),
        lambda found: found[some(m, 32)],
    )


def faiss_flat(
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
    """Search FAISS's exact index; cosines are inner products of points of norm one."""
    import faiss

    queries, points = inputs.neighbours(source, n, d, m, data)
    kinds = {"L2": faiss.METRIC_L2, "L1": faiss.METRIC_L1, "cosine": faiss.METRIC_INNER_PRODUCT}
    if metric == "cosine":
        queries = queries / np.linalg.norm(queries, axis=1, keepdims=True)
        points = points / np.linalg.norm(points, axis=1, keepdims=True)
    index = faiss.IndexFlat(points.shape[1], kinds[metric])
    index.add(points)
    return Run(lambda: index.search(queries, k)[1], lambda found: found[some(m, 32)])
