"""Attention with tracer, as a user writes it."""

from __future__ import annotations

from typing import Any

import numpy as np

import tracer
import tracer.numpy as tnp
from benchmarks.experiments.attention import Attended
from benchmarks.experiments.peers.ours import place_on, prepared
from benchmarks.experiments.runs import Run


def attention(limit: str | None, device: str, cap_bytes: int, **problem: Any) -> Run:
    """Compute the result, or the gradients of the sum of its squares."""
    place_on(device)
    asked = Attended(**problem)

    def program(q: Any, k: Any, v: Any) -> Any:
        return tracer.nn.dot_product_attention(q, k, v)

    def squares(q: Any, k: Any, v: Any) -> Any:
        return tnp.sum(program(q, k, v).astype(np.float32) ** 2)

    function = tracer.grad(squares, argnums=(0, 1, 2)) if asked.gradient else program
    arrays = tuple(tnp.asarray(part).astype(asked.dtype) for part in asked.arrays())

    def values(found: Any) -> Any:
        return asked.checked(tracer.tree.leaves(found))

    return prepared(function, arrays, limit, values, device)
