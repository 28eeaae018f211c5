"""The rules of ATen's ops, by kind. Importing this room fills the table."""

from tracer.torch.rules import (
    convolutions,
    creation,
    distances,
    elementwise,
    fourier,
    indexing,
    linear_algebra,
    normalization,
    pooling,
    products,
    reductions,
    refusals,
    resizing,
    shapes,
    sorting,
)

__all__ = [
    "convolutions",
    "creation",
    "distances",
    "elementwise",
    "fourier",
    "indexing",
    "linear_algebra",
    "normalization",
    "pooling",
    "products",
    "reductions",
    "refusals",
    "resizing",
    "shapes",
    "sorting",
]
