"""What every measured process does before its baseline: load what libraries load once."""

from __future__ import annotations

from typing import Any

import tracer
import tracer.numpy as tnp
from tracer import nn


def load_libraries() -> None:
    """Run a small program of each library that loads code or tables at its first use.

    The product is too small to be rewritten for YNNPACK: Eigen takes it, and with it oneDNN.
    """
    x = tnp.ones((48, 48), "float32")

    def everything(x: Any) -> Any:
        image = x.reshape(1, 48, 48, 1)
        return (
            x.T @ x,
            tnp.exp(x @ x),
            nn.conv(image, tnp.ones((3, 3, 1, 8), "float32")),
            tnp.linalg.cholesky(x + 48 * tnp.eye(48, dtype="float32")),
            tnp.abs(tnp.fft.fft(x)),
            tnp.sort(x),
            tnp.top_k(x, 2)[0],
        )

    for leaf in tracer.compile(everything)(x):
        leaf.block_until_ready()
