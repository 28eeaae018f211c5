"""Sums, extremes and normalisations of rows, columns and whole arrays.

Rows are short (10 and 64 numbers) and long: compilers write short loops out, and lose the vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.primitive_parts import JAX, TORCH, Primitive, normal, together

_FAMILY = "reductions"


# What is done to a matrix, its name, and who does it: gradients are not NumPy's.
_OF_ONE: dict[str, Callable[[Any], Any]] = {
    "sum": lambda xp: lambda x: x.sum(),
    "largest": lambda xp: lambda x: x.max(),
    "sums of rows": lambda xp: lambda x: x.sum(1),
    "largest of rows": lambda xp: lambda x: xp.largest(x, 1),
    "place of the largest of rows": lambda xp: lambda x: x.argmax(1),
    "norms of rows": lambda xp: lambda x: xp.linalg.norm(x, None, 1),
    "means of columns": lambda xp: lambda x: x.mean(0),
    "variances of columns": lambda xp: lambda x: xp.variance(x, 0),
    "largest of columns": lambda xp: lambda x: xp.largest(x, 0),
    "softmax of rows": lambda xp: xp.softmax,
    "log-sum-exp of rows": lambda xp: xp.logsumexp,
    "normalised rows": lambda xp: xp.normalised,
}
_GRADIENTS: dict[str, Callable[[Any], Any]] = {
    "normalised rows, gradient": lambda xp: lambda x, w: (xp.normalised(x) * w).sum(),
    "log-softmax, gradient": lambda xp: lambda x, w: (xp.log_softmax(x) * w).sum(),
}
_OF_IMAGES: dict[str, Callable[[Any], Any]] = {
    "sums of channels": lambda xp: lambda x: x.sum((0, 2, 3)),
    "means of images": lambda xp: lambda x: x.mean((2, 3)),
    "variances of channels": lambda xp: lambda x: xp.variance(x, (0, 2, 3)),
}
_MATRICES = ((2_000_000, 10), (300_000, 64), (20_000, 1_000))
_IMAGES = (32, 64, 56, 56)


def _mean_squared(xp: Any) -> Any:
    return lambda x, y: ((x - y) ** 2).mean()


def reductions() -> tuple[Primitive, ...]:
    """Return the operations of this family."""
    found: list[Primitive] = []
    for shape in _MATRICES:
        size, one = " x ".join(f"{n:,}" for n in shape), normal(*shape)
        pair = together(one, one)
        found += [Primitive(_FAMILY, f"{name}, {size}", one, f) for name, f in _OF_ONE.items()]
        found.append(Primitive(_FAMILY, f"mean squared difference, {size}", pair, _mean_squared))
        found += [
            Primitive(_FAMILY, f"{name}, {size}", pair, f, argnums=(0,), sides=(JAX, TORCH))
            for name, f in _GRADIENTS.items()
        ]
    size = " x ".join(map(str, _IMAGES))
    found += [
        Primitive(_FAMILY, f"{name}, {size}", normal(*_IMAGES), f) for name, f in _OF_IMAGES.items()
    ]
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
