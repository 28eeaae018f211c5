"""Cubed: chunked arrays with a bound on the memory of each task, on its threaded executor."""

from __future__ import annotations

from typing import Any

import cubed
import cubed.array_api as xp
import numpy as np

from benchmarks.experiments import inputs
from benchmarks.experiments.runs import Run, some

ALLOWED = "1GB"
CHUNK = 1_000


def kernel(n: int, device: str, cap_bytes: int) -> Run:
    """Run the three lines of the examples in the array API, in chunks of 1,000 x 1,000."""
    x, v = inputs.kernel(n)
    spec = cubed.Spec(allowed_mem=ALLOWED, reserved_mem="200MB")

    def call() -> Any:
        points = xp.asarray(x, chunks=(CHUNK, -1), spec=spec)
        weights = xp.asarray(v, chunks=CHUNK, spec=spec)
        differences = points[:, None, :] - points[None, :, :]
        squares = xp.sum(differences * differences, axis=-1)
        return np.asarray(xp.matmul(xp.exp(-0.5 * squares), weights[:, None]).compute())[:, 0]

    return Run(call, lambda found: found[some(n, 64)])
