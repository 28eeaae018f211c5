"""JAX: the same text under `jax.jit`, and in chunks by hand with `lax.map`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.experiments import inputs
from benchmarks.experiments.runs import Run, some
from benchmarks.unavailable import Unavailable

jax.config.update("jax_enable_x64", True)


def place_on(device: str) -> None:
    """Have everything run on the CPU or on the first GPU."""
    try:
        found = jax.devices(device)
    except RuntimeError as error:
        raise Unavailable(f"jax {jax.__version__}: {error}") from error
    jax.config.update("jax_default_device", found[0])


def prepared(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    values: Callable[[Any], Any],
    device: str,
    cap_bytes: int,
) -> Run:
    """Return a run; one that needs more than the cap by XLA's own count is not started."""
    arrays = jax.tree.map(jnp.asarray, arguments)
    compiled = jax.jit(function).lower(*arrays).compile()
    counted = compiled.memory_analysis()
    needed = counted.temp_size_in_bytes + counted.output_size_in_bytes
    if needed > cap_bytes:
        raise MemoryError(f"XLA counts {needed:,} bytes, more than the cap of {cap_bytes:,}")
    return Run(
        lambda: jax.block_until_ready(compiled(*arrays)),
        values,
        about=lambda: {"counted_bytes": needed},
        device_bytes=device_bytes if device != "cpu" else None,
    )


def device_bytes() -> tuple[int, int]:
    """Return the bytes in use on the default device, and the highest so far."""
    stats = jax.config.jax_default_device.memory_stats()
    return int(stats["bytes_in_use"]), int(stats["peak_bytes_in_use"])


def kernel(n: int, chunk: int, device: str, cap_bytes: int) -> Run:
    """Run the three lines of the examples, or rows in chunks from norms and a product."""
    place_on(device)

    def whole(x: Any, v: Any) -> Any:
        squares = ((x[:, None, :] - x[None, :, :]) ** 2).sum(-1)
        return jnp.exp(-0.5 * squares) @ v

    def by_hand(x: Any, v: Any) -> Any:
        norms = (x * x).sum(-1)

        def row(point: Any) -> Any:
            return jnp.exp(-0.5 * (point @ point + norms - 2 * x @ point)) @ v

        return jax.lax.map(row, x, batch_size=chunk)

    return prepared(
        by_hand if chunk else whole,
        inputs.kernel(n),
        lambda found: np.asarray(found)[some(n, 64)],
        device,
        cap_bytes,
    )


def neighbours(chunk: int, device: str, cap_bytes: int, **search: Any) -> Run:
    """Find the k nearest points of each query, whole or in chunks of queries."""
    asked = inputs.Search(**search)
    metric, k = asked.metric, asked.k
    place_on(device)

    def whole(queries: Any, points: Any) -> Any:
        return jax.lax.top_k(-inputs.distances(metric, jnp, queries, points), k)[1]

    def by_hand(queries: Any, points: Any) -> Any:
        norms = (points * points).sum(-1)

        def one(query: Any) -> Any:
            if metric == "L1":
                scores = jnp.abs(query - points).sum(-1)
            elif metric == "L2":
                scores = norms - 2 * points @ query
            else:
                scores = -(points @ query) / jnp.sqrt(norms)
            return jax.lax.top_k(-scores, k)[1]

        return jax.lax.map(one, queries, batch_size=chunk)

    return prepared(
        by_hand if chunk else whole,
        asked.arrays,
        asked.checked,
        device,
        cap_bytes,
    )
