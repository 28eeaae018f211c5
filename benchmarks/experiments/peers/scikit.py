"""scikit-learn and FAISS: the libraries that are made for the job."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.experiments import inputs
from benchmarks.experiments.runs import Run, some
from benchmarks.unavailable import Unavailable

METRICS = {"L2": "euclidean", "L1": "manhattan", "cosine": "cosine"}


def kernel(n: int, device: str, cap_bytes: int) -> Run:
    """Compute `rbf_kernel(x) @ v`."""
    from sklearn.metrics.pairwise import rbf_kernel

    x, v = inputs.kernel(n)
    return Run(lambda: rbf_kernel(x, gamma=0.5) @ v, lambda found: found[some(n, 64)])


def neighbours(device: str, cap_bytes: int, **search: Any) -> Run:
    """Search by brute force."""
    from sklearn.neighbors import NearestNeighbors

    asked = inputs.Search(**search)
    queries, points = asked.arrays
    metric = METRICS[asked.metric]
    index = NearestNeighbors(n_neighbors=asked.k, algorithm="brute", metric=metric).fit(points)
    return Run(lambda: index.kneighbors(queries, return_distance=False), asked.checked)


def faiss_flat(device: str, cap_bytes: int, **search: Any) -> Run:
    """Search FAISS's exact index; cosines are inner products of points of norm one."""
    import faiss

    asked = inputs.Search(**search)
    queries, points = asked.arrays
    kinds = {"L2": faiss.METRIC_L2, "L1": faiss.METRIC_L1, "cosine": faiss.METRIC_INNER_PRODUCT}
    if asked.metric == "cosine":
        queries = queries / np.linalg.norm(queries, axis=1, keepdims=True)
        points = points / np.linalg.norm(points, axis=1, keepdims=True)
    if device == "cpu":
        index = faiss.IndexFlat(points.shape[1], kinds[asked.metric])
        index.add(points)
        return Run(lambda: index.search(queries, asked.k)[1], asked.checked)
    if not hasattr(faiss, "StandardGpuResources") or not faiss.get_num_gpus():
        raise Unavailable(f"FAISS {faiss.__version__} finds no GPU here, or is faiss-cpu")
    resources = faiss.StandardGpuResources()
    index = faiss.GpuIndexFlat(resources, points.shape[1], kinds[asked.metric])
    index.add(points)

    def device_bytes() -> tuple[int, int]:
        """Return the bytes of the points, and with the scratch that FAISS has taken for good."""
        held = sum(nbytes for of in resources.getMemoryInfo().values() for _, nbytes in of.values())
        return points.nbytes, held

    # `search` returns places on the host, so it has waited.
    return Run(lambda: index.search(queries, asked.k)[1], asked.checked, device_bytes=device_bytes)
