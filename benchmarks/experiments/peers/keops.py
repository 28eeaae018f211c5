"""KeOps (Charlier et al., JMLR 2021) with its PyTorch front: symbolic matrices, never stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from pykeops.torch import LazyTensor

from benchmarks.experiments import inputs
from benchmarks.experiments.peers.torch_programs import finished, place_of
from benchmarks.experiments.runs import Run, some


def _prepared(
    function: Callable[..., Any], arrays: Any, values: Callable[[Any], Any], device: str
) -> Run:
    place = place_of(device)
    tensors = [torch.as_tensor(array).to(place).contiguous() for array in arrays]
    # KeOps compiles a formula at its first call; the sizes do not matter to it.
    function(*(tensor[:200] for tensor in tensors))
    return finished(lambda: function(*tensors), values, device)


def kernel(n: int, device: str, cap_bytes: int) -> Run:
    """Compute exp(-|x_i - x_j|^2 / 2) @ v."""

    def program(x: Any, v: Any) -> Any:
        squares = ((LazyTensor(x[:, None, :]) - LazyTensor(x[None, :, :])) ** 2).sum(-1)
        return (-0.5 * squares).exp() @ v[:, None]

    return _prepared(
        program, inputs.kernel(n), lambda found: found.cpu().numpy()[some(n, 64), 0], device
    )


def neighbours(device: str, cap_bytes: int, **search: Any) -> Run:
    """Find the k nearest points of each query."""
    asked = inputs.Search(**search)
    metric = asked.metric

    def program(queries: Any, points: Any) -> Any:
        if metric == "cosine":
            queries = queries / (queries * queries).sum(-1, keepdim=True).sqrt()
            points = points / (points * points).sum(-1, keepdim=True).sqrt()
        x, y = LazyTensor(queries[:, None, :]), LazyTensor(points[None, :, :])
        if metric == "cosine":
            scores = -(x | y)
        else:
            scores = (x - y).abs().sum(-1) if metric == "L1" else ((x - y) ** 2).sum(-1)
        return scores.argKmin(asked.k, dim=1)

    return _prepared(
        program, asked.arrays, lambda found: asked.checked(found.cpu().numpy()), device
    )
