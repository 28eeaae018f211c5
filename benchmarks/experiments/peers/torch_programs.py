"""PyTorch, eager and compiled, the same text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from benchmarks.experiments import inputs
from benchmarks.experiments.runs import Run, some
from benchmarks.measure import address_space
from benchmarks.unavailable import Unavailable


def prepared(
    function: Callable[..., Any],
    arrays: tuple[Any, ...],
    values: Callable[[Any], Any],
    compiled: bool,
    device: str,
    cap_bytes: int,
) -> Run:
    """Return a run; compilation is at the first call, which is therefore here, under the cap."""
    place = place_of(device)
    tensors = tuple(torch.as_tensor(array).to(place) for array in arrays)
    program = torch.compile(function) if compiled else function

    def call() -> Any:
        with torch.no_grad():
            return program(*tensors)

    if compiled:
        with address_space(cap_bytes):
            call()
    return finished(call, values, device)


def place_of(device: str) -> str:
    """Return torch's name of a device."""
    if device == "gpu" and not torch.cuda.is_available():
        raise Unavailable(f"torch {torch.__version__} finds no GPU here")
    return "cuda" if device == "gpu" else device


def finished(call: Callable[[], Any], values: Callable[[Any], Any], device: str) -> Run:
    """Return a run of a call, which waits for the GPU if it computes there."""
    if device == "cpu":
        return Run(call, values)

    def waited() -> Any:
        results = call()
        torch.cuda.synchronize()
        return results

    return Run(waited, values, device_bytes=device_bytes)


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


def neighbours(compiled: bool, device: str, cap_bytes: int, **search: Any) -> Run:
    """Find the k nearest points of each query."""
    asked = inputs.Search(**search)

    def program(queries: Any, points: Any) -> Any:
        return torch.topk(
            inputs.distances(asked.metric, torch, queries, points), asked.k, largest=False
        )[1]

    return prepared(
        program,
        asked.arrays,
        lambda found: asked.checked(found.cpu().numpy()),
        compiled,
        device,
        cap_bytes,
    )
