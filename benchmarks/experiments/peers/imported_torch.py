"""Programs written for PyTorch: limited, eager, and by `torch.compile`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from benchmarks.experiments.runs import Run, scaled
from benchmarks.measure import address_space


@dataclass(frozen=True)
class Made:
    """A function and its arguments, and whether its gradient is wanted: then it is a loss."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    has_gradient: bool = True


def limited(program: str, n: int, limit: str, device: str, cap_bytes: int) -> Run:
    """Run by `tracer.torch.value_and_grad`, or `tracer.torch.limit` where no gradient is wanted."""
    import tracer.torch
    from benchmarks.experiments.peers.ours import plan_figures
    from benchmarks.warm_up import load_libraries

    load_libraries()
    made = PROGRAMS[program](n)
    make = tracer.torch.value_and_grad if made.has_gradient else tracer.torch.limit
    step: Any = make(made.function, memory_limit=limit)
    start = time.perf_counter()
    plan = step.plan(*made.arguments)
    seconds = time.perf_counter() - start

    def call() -> Any:
        with torch.no_grad():
            return step(*made.arguments)

    return Run(call, few, about=lambda: {**plan_figures(plan), "compile_seconds": seconds})


def eager(program: str, n: int, compiled: bool, device: str, cap_bytes: int) -> Run:
    """Run by torch; `torch.compile` compiles at the first call, which is therefore here."""
    made = PROGRAMS[program](n)
    function = torch.compile(made.function) if compiled else made.function
    first = made.arguments[0]
    wanted = list(first.parameters()) if isinstance(first, torch.nn.Module) else [first]

    def call() -> Any:
        if not made.has_gradient:
            with torch.no_grad():
                return function(*made.arguments)
        value = function(*made.arguments)
        return value.detach(), torch.autograd.grad(value, wanted)

    for leaf in wanted:
        leaf.requires_grad_(made.has_gradient)
    start = time.perf_counter()
    if compiled:
        with address_space(cap_bytes):
            call()
    seconds = time.perf_counter() - start
    return Run(call, few, about=lambda: {"compile_seconds": seconds} if compiled else {})


def few(results: Any) -> Any:
    """Return some elements of each result."""
    return scaled(
        [np.asarray(leaf.detach(), np.float64) for leaf in torch.utils._pytree.tree_leaves(results)]
    )


def _normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape, dtype=np.float32))


def _kernel(n: int) -> Made:
    import gpytorch

    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def product(x: torch.Tensor, new: torch.Tensor, v: torch.Tensor) -> Any:
        return kernel(new, x).to_dense() @ v

    # Not as many new points: for equally many gpytorch asks whether they are the same.
    points = _normal(n, 3), _normal(n - n // 10, 3, seed=2)
    return Made(product, (*points, _normal(n, 1, seed=1)), has_gradient=False)


class Block(torch.nn.Module):
    """A decoder's block, with attention as written."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.attended = torch.nn.Linear(width, 3 * width)
        self.mixed = torch.nn.Linear(width, width)
        self.hidden, self.back = (
            torch.nn.Linear(width, 4 * width),
            torch.nn.Linear(4 * width, width),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return (batch, length, width)."""
        batch, length, width = x.shape
        parts = self.attended(self.before(x)).view(batch, length, 3, self.heads, -1)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        scores = q @ k.mT / (width // self.heads) ** 0.5
        later = torch.ones(length, length, dtype=torch.bool).triu(1)
        shares = scores.masked_fill(later, float("-inf")).softmax(-1)
        x = x + self.mixed((shares @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.back(functional.gelu(self.hidden(self.between(x))))


def _transformer(n: int) -> Made:
    torch.manual_seed(0)
    words = 1_000
    model = torch.nn.Sequential(
        torch.nn.Embedding(words, 256), Block(256, 8), Block(256, 8), torch.nn.Linear(256, words)
    )
    text = torch.from_numpy(np.random.default_rng(0).integers(words, size=(1, n + 1)))

    def loss(model: Any, text: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(model(text[:, :-1])[0], text[0, 1:])

    return Made(loss, (model, text))


def _chamfer(n: int) -> Made:
    def loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        squares = ((x[:, None] - y[None]) ** 2).sum(-1)
        return squares.min(1).values.mean() + squares.min(0).values.mean()

    return Made(loss, (_normal(n, 3), _normal(n, 3, seed=1)))


PROGRAMS: dict[str, Callable[[int], Made]] = {
    "kernel product of gpytorch": _kernel,
    "transformer, training step": _transformer,
    "Chamfer distance, gradient": _chamfer,
}
