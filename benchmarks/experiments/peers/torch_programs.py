"""PyTorch, eager and compiled, the same text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from benchmarks.experiments import inputs
from benchmarks.experiments.runs import Run, some
from benchmarks.measure import address_space


def prepared(
    function: Callable[..., Any],
    arrays: tuple[Any, ...],
    values: Callable[[Any], Any],
    compiled: bool,
    device: str,
    cap_bytes: int,
) -> Run:
    """Return a run; compilation is at the first call, which is therefore here, under the cap."""
    place = "cuda" if device == "gpu" else device
    tensors = tuple(torch.as_tensor(array).to(place) for array in arrays)
    program = torch.compile(function) if compiled else function

    def call() -> Any:
        with torch.no_grad():
            results = program(*tensors)
        if device == "gpu":
            torch.cuda.synchronize()
        return results

    if compiled:
        with address_space(cap_bytes):
            call()
    return Run(call, values, device_bytes=device_bytes if device == "gpu" else None)


def device_bytes() -> tuple[int, int]:
    """Return the bytes in use on the GPU, and the highest so far."""
    return torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()


def kernel(n: int, compiled: bool, device: str, cap_bytes: int) -> Run:
    """Run the three lines of the examples."""

    def program(x: Any, v: Any) -> Any:
        squares = ((x[:, None, :] - x[None, :, :]) ** 2).sum(-1)
        return torch.exp(-0.5 * squares) @ v

    return prepared(
        program,
        inputs.kernel(n),
        lambda found: found.cpu().numpy()[some(n, 64)],
        compiled,
        device,
        cap_bytes,
    )


def distances(metric: str, queries: Any, points: Any) -> Any:
    """Return all distances, as one would write them down."""
    if metric == "cosine":
        queries = queries / (queries * queries).sum(-1, keepdim=True).sqrt()
        points = points / (points * points).sum(-1, keepdim=True).sqrt()
        return 1 - queries @ points.T
    differences = queries[:, None, :] - points[None, :, :]
    return differences.abs().sum(-1) if metric == "L1" else (differences**2).sum(-1)


def neighbours(
    source: str,
    n: int,
    d: int,
    m: int,
    k: int,
    metric: str,
    compiled: bool,
    device: str,
    cap_bytes: int,
    data: str | None = None,
) -> Run:
    """Find the k nearest points of each query."""

    def program(queries: Any, points: Any) -> Any:
        return torch.topk(distances(metric, queries, points), k, largest=False)[1]

    return prepared(
        program,
        inputs.neighbours(source, n, d, m, data),
        lambda found: found.cpu().numpy()[some(m, 32)],
        compiled,
        device,
        cap_bytes,
    )
