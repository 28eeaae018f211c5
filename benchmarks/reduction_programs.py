"""Sums, extremes and normalisations of rows, columns and whole arrays.

Rows are short (10 and 64 numbers) and long: compilers write short loops out, and lose the vectors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.primitive_parts import JAX, TORCH, Primitive, normal, together

_FAMILY = "reductions"


def reductions() -> tuple[Primitive, ...]:
    """Return the operations of this family."""
    found: list[Primitive] = []
    for shape in ((2_000_000, 10), (300_000, 64), (20_000, 1_000)):
        size = " x ".join(f"{n:,}" for n in shape)
        x, pair = normal(*shape), together(normal(*shape), normal(*shape))
        found += [
            Primitive(_FAMILY, f"sum, {size}", x, lambda xp: lambda x: x.sum()),
            Primitive(_FAMILY, f"largest, {size}", x, lambda xp: lambda x: x.max()),
            Primitive(_FAMILY, f"mean squared difference, {size}", pair,
                      lambda xp: lambda x, y: ((x - y) ** 2).mean()),
            Primitive(_FAMILY, f"sums of rows, {size}", x, lambda xp: lambda x: x.sum(1)),
            Primitive(_FAMILY, f"largest of rows, {size}", x,
                      lambda xp: lambda x: xp.largest(x, 1)),
            Primitive(_FAMILY, f"place of the largest of rows, {size}", x,
                      lambda xp: lambda x: x.argmax(1)),
            Primitive(_FAMILY, f"norms of rows, {size}", x,
                      lambda xp: lambda x: xp.linalg.norm(x, None, 1)),
            Primitive(_FAMILY, f"means of columns, {size}", x, lambda xp: lambda x: x.mean(0)),
            Primitive(_FAMILY, f"variances of columns, {size}", x,
                      lambda xp: lambda x: xp.variance(x, 0)),
            Primitive(_FAMILY, f"largest of columns, {size}", x,
                      lambda xp: lambda x: xp.largest(x, 0)),
            Primitive(_FAMILY, f"softmax of rows, {size}", x, lambda xp: xp.softmax),
            Primitive(_FAMILY, f"log-sum-exp of rows, {size}", x, lambda xp: xp.logsumexp),
            Primitive(_FAMILY, f"normalised rows, {size}", x, lambda xp: xp.normalised),
            Primitive(_FAMILY, f"normalised rows, gradient, {size}", pair,
                      lambda xp: lambda x, w: (xp.normalised(x) * w).sum(), argnums=(0,),
                      sides=(JAX, TORCH)),
            Primitive(_FAMILY, f"log-softmax, gradient, {size}", pair,
                      lambda xp: lambda x, w: (xp.log_softmax(x) * w).sum(), argnums=(0,),
                      sides=(JAX, TORCH)),
        ]  # fmt: skip
    images = normal(32, 64, 56, 56)
    found += [
        Primitive(_FAMILY, "sums of channels, 32 x 64 x 56 x 56", images,
                  lambda xp: lambda x: x.sum((0, 2, 3))),
        Primitive(_FAMILY, "means of images, 32 x 64 x 56 x 56", images,
                  lambda xp: lambda x: x.mean((2, 3))),
        Primitive(_FAMILY, "variances of channels, 32 x 64 x 56 x 56", images,
                  lambda xp: lambda x: xp.variance(x, (0, 2, 3))),
    ]  # fmt: skip
    return tuple(found)


def numpy_names() -> dict[str, Any]:
    """Return how NumPy writes what others have a function for."""
    from scipy.special import log_softmax, logsumexp, softmax

    return {
        "largest": lambda x, axis: x.max(axis),
        "variance": lambda x, axis: x.var(axis),
        "softmax": lambda x: softmax(x, 1),
        "logsumexp": lambda x: logsumexp(x, 1),
        "log_softmax": lambda x: log_softmax(x, 1),
        "normalised": lambda x: _normalised(np, x),
    }


def jax_names(xp: Any, nn: Any, special: Any) -> dict[str, Any]:
    """Return what JAX and tracer have by the same names."""
    return {
        "largest": lambda x, axis: x.max(axis),
        "variance": lambda x, axis: x.var(axis),
        "softmax": lambda x: nn.softmax(x, 1),
        "logsumexp": lambda x: special.logsumexp(x, 1),
        "log_softmax": lambda x: nn.log_softmax(x, 1),
        "normalised": lambda x: _normalised(xp, x),
    }


def torch_names(torch: Any) -> dict[str, Any]:
    """Return torch's functions, where an operation of one kernel is there."""
    return {
        "largest": torch.amax,
        "variance": lambda x, axis: torch.var(x, axis, correction=0),
        "softmax": lambda x: torch.softmax(x, 1),
        "logsumexp": lambda x: torch.logsumexp(x, 1),
        "log_softmax": lambda x: torch.log_softmax(x, 1),
        "normalised": lambda x: torch.nn.functional.layer_norm(x, x.shape[1:]),
    }


def _normalised(xp: Any, x: Any) -> Any:
    return (x - x.mean(1, keepdims=True)) / xp.sqrt(x.var(1, keepdims=True) + 1e-5)
