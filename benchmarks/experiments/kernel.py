"""A kernel matrix times a vector in double precision: section 5.1 and figure 2 of the paper."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.experiments import inputs
from benchmarks.experiments.records import OURS, Case, Settings, System
from benchmarks.experiments.runs import Array, some

TITLE = "kernel product"
SIZES = {
    "small": (1_000, 10_000),
    "full": (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000),
}
LIMITS = {"small": ("20MB", "100MB"), "full": ("100MB", "1GB", "5GB", "20GB")}
MINUTES = 100_000
"""Above, a call takes minutes, so only the two smallest limits run, and those that fit anyway."""
PEERS_TO = 300_000
"""Above, ours runs alone under 1 GB: each pair of points takes everybody the time that it took."""
STORED_TO = 100_000
"""Peers that store the matrix are tried up to here, where it has 80 GB; larger ones cannot fit."""
CUBED_TO = 10_000
"""A chunk of 1,000 x 1,000 takes it a fifth of a second: the largest size would take days."""
BLOCKED = (
    System("jax.jit, in chunks by hand", "jax_programs:kernel", ("jax",), {"chunk": 100}),
    System("KeOps", "keops:kernel", ("pykeops", "torch")),
    System("NumPy, in blocks by hand", "numpy_programs:kernel_in_blocks", devices=("cpu",)),
    System("C, AVX and OpenMP", "native:kernel", ("gcc",), devices=("cpu",)),
)
CUBED = System("Cubed", "cubed_programs:kernel", ("cubed",), devices=("cpu",))
WHOLE = (
    System("jax.jit", "jax_programs:kernel", ("jax",), {"chunk": 0}),
    System("torch, eager", "torch_programs:kernel", ("torch",), {"compiled": False}),
    System("torch.compile", "torch_programs:kernel", ("torch",), {"compiled": True}),
    System("NumPy", "numpy_programs:kernel", devices=("cpu",)),
    System("scikit-learn", "scikit:kernel", ("sklearn",), devices=("cpu",)),
    System("GPflow", "gpflow_programs:kernel", ("gpflow",)),
)


def cases(settings: Settings) -> Iterator[Case]:
    """Yield one case for each size, with every limit as a system."""
    for n in SIZES[settings.size]:
        limits: tuple[str | None, ...] = (*LIMITS[settings.size], None)
        limits = limits if n <= MINUTES else limits[:2] if n <= PEERS_TO else limits[1:2]
        ours = (
            System(
                f"{OURS}, {limit or 'no limit'}",
                "ours:kernel",
                arguments={"limit": limit},
            )
            for limit in limits
        )
        whole = WHOLE if n <= STORED_TO else ()
        blocked = BLOCKED if n <= PEERS_TO else ()
        peers = (*blocked, *whole, *((CUBED,) if n <= CUBED_TO else ()))
        yield Case(
            TITLE,
            f"n = {n:,}",
            {"n": n},
            (*ours, *peers),
            lambda n=n: reference(n),  # type: ignore[misc]
            1e-10,
        )


def reference(n: int) -> Array:
    """Return some rows of the product, by differences in float64 and feature by feature."""
    x, v = inputs.kernel(n)
    rows = some(n, 64)
    squares = np.zeros((len(rows), n))
    for column in x.T:
        squares += (column[rows, None] - column[None, :]) ** 2
    product: Array = np.exp(-0.5 * squares) @ v
    return product
