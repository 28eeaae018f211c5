"""Programs that a fresh process measures: layers that read all of the one before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tracer
import tracer.numpy as tnp
from benchmarks.warm_up import load_libraries

N, LAYERS = 512, 24


def loss(x: Any, a: Any, checkpointed: bool = False) -> Any:
    """Sum of squares after all layers, in segments of six for the manual form."""

    def segment(x: Any) -> Any:
        for _ in range(6):
            x = tnp.tanh(a @ x @ a)
        return x

    for _ in range(LAYERS // 6):
        x = tracer.checkpoint(segment)(x) if checkpointed else segment(x)
    return (x * x).sum()


def compiled(limit: int | None, *, checkpointed: bool = False, split: str = "auto") -> Any:
    """Return the compiled gradient."""
    return tracer.compile(
        tracer.grad(lambda x, a: loss(x, a, checkpointed)), memory_limit=limit, split=split
    )


def arrays() -> tuple[Any, Any]:
    """Return the two matrices."""
    rng = np.random.default_rng(0)
    x, a = (rng.standard_normal((N, N), dtype=np.float32) for _ in range(2))
    return x, a * np.float32(N**-0.5)


def chain(limit: int | None, checkpointed: bool = False) -> Callable[[], Any]:
    """Return what is measured."""
    load_libraries()
    x, a = map(tnp.asarray, arrays())
    program = compiled(limit, checkpointed=checkpointed)
    program.plan(x, a)
    return lambda: program(x, a).block_until_ready()
