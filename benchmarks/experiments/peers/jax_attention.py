"""JAX: `jax.nn.dot_product_attention`, as XLA compiles it, or with cuDNN's kernel."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.experiments.attention import Attended
from benchmarks.experiments.peers.jax_programs import place_on, prepared
from benchmarks.experiments.runs import Run


def attention(implementation: str, device: str, cap_bytes: int, **problem: Any) -> Run:
    """Compute the result, or the gradients of the sum of its squares."""
    place_on(device)
    asked = Attended(**problem)

    def program(q: Any, k: Any, v: Any) -> Any:
        return jax.nn.dot_product_attention(q, k, v, implementation=implementation)

    def squares(q: Any, k: Any, v: Any) -> Any:
        return jnp.sum(program(q, k, v).astype(jnp.float32) ** 2)

    function = jax.grad(squares, argnums=(0, 1, 2)) if asked.gradient else program
    arrays = tuple(jnp.asarray(part, asked.dtype) for part in asked.arrays())
    return prepared(
        function, arrays, lambda found: asked.checked(jax.tree.leaves(found)), device, cap_bytes
    )
