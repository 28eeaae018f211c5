"""Attention alone, beside the fused kernels: torch's and cuDNN's. Not in the paper.

The result, and the gradients of the sum of its squares to queries, keys and values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.experiments.records import OURS, Case, Settings, System
from benchmarks.experiments.runs import Array, some

TITLE = "attention"
HEADS, FEATURES = 8, 64
LENGTHS = {"small": (512, 1_024), "full": (1_024, 4_096, 16_384)}
LIMITS = {"small": "24MB", "full": "512MB"}
DTYPES = {"cpu": ("float32",), "gpu": ("float32", "bfloat16")}
"""The fused kernels of GPUs take bfloat16 (cuDNN's nothing wider)."""
CHECKED_GRADIENT = 4_096
"""NumPy's float64 computes one head in full."""
# Peers take products of float32 on a GPU's tensor cores, with 10 bits.
TOLERANCES = {("cpu", "float32"): 1e-4, ("gpu", "float32"): 5e-3, ("gpu", "bfloat16"): 5e-2}
JAX, TORCH = "jax_attention:attention", "torch_attention:attention"


@dataclass(frozen=True)
class Attended:
    """Queries, keys and values in a dtype, and what is checked of the results."""

    length: int
    dtype: str
    gradient: bool

    def arrays(self) -> tuple[Array, Array, Array]:
        """Return queries, keys and values (1, length, heads, features) in float32.

        For bfloat16 they are numbers that it has.
        """
        rng = np.random.default_rng(0)
        made = rng.standard_normal((3, 1, self.length, HEADS, FEATURES), dtype=np.float32)
        if self.dtype == "bfloat16":
            made = (made.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
        return made[0], made[1], made[2]

    def checked(self, found: tuple[Array, ...]) -> Array:
        """Return rows of the last head, of the result or of each gradient."""
        rows = some(self.length, 32)
        few: Array = np.stack([np.asarray(part, np.float64)[0, rows, -1] for part in found])
        return few

    def expected(self) -> Array:
        """Return the same in float64."""
        # Peers make inputs with this file in environments without tracer, which programs import.
        from benchmarks.programs.attention import head_gradient, shares_of

        q, k, v = (part[0, :, -1].astype(np.float64) for part in self.arrays())
        rows = some(self.length, 32)
        if not self.gradient:
            return (shares_of(q[rows], k, rows, causal=False) @ v)[None]
        return np.stack([part[rows] for part in head_gradient(q, k, v, causal=False)])


def systems(settings: Settings, dtype: str) -> Iterator[System]:
    """Yield ours and the peers that have the dtype."""
    for limit in (LIMITS[settings.size], None):
        name = f"{OURS}, {limit or 'no limit'}"
        yield System(name, "ours_attention:attention", arguments={"limit": limit})
    yield System("jax.jit", JAX, ("jax",), {"implementation": "xla"})
    yield System("torch, its fused attention", TORCH, ("torch",), {"backend": None})
    if dtype == "bfloat16":
        on_gpus = ("gpu",)
        yield System("jax.jit, cuDNN", JAX, ("jax",), {"implementation": "cudnn"}, on_gpus)
        yield System("torch, cuDNN", TORCH, ("torch",), {"backend": "CUDNN_ATTENTION"}, on_gpus)


def cases(settings: Settings) -> Iterator[Case]:
    """Yield the result and its gradients, in each dtype and at each length."""
    for dtype in DTYPES[settings.device]:
        for gradient in (False, True):
            for length in LENGTHS[settings.size]:
                asked = Attended(length, dtype, gradient)
                is_checked = not gradient or length <= CHECKED_GRADIENT
                yield Case(
                    f"{TITLE}, {'gradients' if gradient else 'result'}",
                    f"{dtype}, length {length:,}",
                    vars(asked),
                    tuple(systems(settings, dtype)),
                    asked.expected if is_checked else None,
                    TOLERANCES[settings.device, dtype],
                )
