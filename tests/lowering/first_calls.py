"""Programs whose first call a fresh process measures: one for each library, and no warm-up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tracer
import tracer.numpy as tnp
from tracer import nn

SIZE = 48
LIMIT = 1_000_000


def _convolution(x: Any) -> Any:
    return nn.conv(x.reshape(1, SIZE, SIZE, 1), x[:9, :8].reshape(3, 3, 1, 8))


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "product": lambda x: x.T @ x,
    "product for YNNPACK": lambda x: x @ x,
    "convolution": _convolution,
    "sort": lambda x: tnp.sort(x, axis=1),
    "Fourier transform": lambda x: tnp.fft.fft(x),
    "Cholesky": tnp.linalg.cholesky,
    "symmetric": lambda x: tnp.linalg.eigh(x)[0],
    "singular values": lambda x: tnp.linalg.svd(x, compute_uv=False),
}


def prepared(name: str, is_limited: bool) -> Callable[[], Any]:
    """Return a call that is compiled."""
    program = tracer.compile(PROGRAMS[name], memory_limit=LIMIT if is_limited else None)
    x = tnp.asarray(np.eye(SIZE, dtype=np.float32) * SIZE + 1)
    program.plan(x)
    return lambda: tracer.tree.map(lambda leaf: leaf.block_until_ready(), program(x))
