"""Programs written for JAX and PyTorch, limited unchanged. Not in the paper.

Each is run as it is (`jax.jit`, eager torch, `torch.compile`) and by `tracer.jax.limit` or
`tracer.torch`. There is no reference in NumPy: values are compared with those of the first peer
that runs, in the same dtype.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.experiments.records import OURS, Case, Settings, System


@dataclass(frozen=True)
class Imported:
    """A program of `peers.imported_jax` or `peers.imported_torch`, and its sizes.

    Attributes
    ----------
    name : str
        Of the program, and its line in the tables.
    small, full : tuples of (int, str)
        The size and the limit at it, for each size of the suite.
    needs : tuple of str
        Packages beside JAX or torch.
    tolerance : float
        Between two orders of the sums, both in float32, relative to the largest element.
    """

    name: str
    small: tuple[tuple[int, str], ...]
    full: tuple[tuple[int, str], ...]
    needs: tuple[str, ...] = ()
    tolerance: float = 1e-4


JAX = (
    Imported("SE kernel, value and gradient", ((1_500, "12MB"),), ((20_000, "100MB"),)),
    Imported(
        "flax transformer block, gradient",
        ((256, "40MB"),),
        ((4_096, "200MB"), (8_192, "400MB")),
        ("flax",),
    ),
    Imported("causal attention, gradient", ((512, "24MB"),), ((4_096, "200MB"),)),
    Imported("Sinkhorn of ott", ((600, "4MB"),), ((20_000, "100MB"),), ("ott",)),
    Imported("cross-entropy, gradient", ((2_000, "12MB"),), ((50_000, "200MB"),)),
    Imported("exact GP of tinygp, gradient", ((500, "8MB"),), ((5_000, "600MB"),), ("tinygp",)),
    Imported("10 nearest neighbours", ((4_000, "8MB"),), ((100_000, "100MB"),)),
    Imported("t-SNE, gradient", ((500, "4MB"),), ((8_000, "300MB"),)),
)
TORCH = (
    Imported("kernel product of gpytorch", ((1_500, "8MB"),), ((20_000, "100MB"),), ("gpytorch",)),
    Imported("transformer, training step", ((128, "60MB"),), ((4_096, "400MB"),)),
    Imported("Chamfer distance, gradient", ((800, "3MB"),), ((9_000, "50MB"),)),
)


def cases(settings: Settings) -> Iterator[Case]:
    """Yield every program at every size, with its peers."""
    for written_for, programs in (("JAX", JAX), ("PyTorch", TORCH)):
        for program in programs:
            for n, limit in getattr(program, settings.size):
                systems = _jax_systems(program, limit)
                if written_for == "PyTorch":
                    systems = _torch_systems(program, limit)
                yield Case(
                    f"written for {written_for}",
                    f"{program.name}, n = {n:,}",
                    {"program": program.name, "n": n},
                    systems,
                    tolerance=program.tolerance,
                    beside_peers=True,
                )


def _jax_systems(program: Imported, limit: str) -> tuple[System, ...]:
    needs = ("jax", "networkx", *program.needs)
    return (
        System(f"{OURS}, {limit}", "imported_jax:limited", needs, {"limit": limit}, ("cpu",)),
        System("jax.jit", "imported_jax:jitted", needs),
    )


def _torch_systems(program: Imported, limit: str) -> tuple[System, ...]:
    needs = ("torch", "jaxlib", *program.needs)
    torch = "imported_torch:eager"
    return (
        System(f"{OURS}, {limit}", "imported_torch:limited", needs, {"limit": limit}, ("cpu",)),
        System("torch", torch, needs, {"compiled": False}),
        System("torch.compile", torch, (*needs, "g++"), {"compiled": True}),
    )
