"""The rules of JAX's primitives, by kind. Importing this room fills the table."""

from tracer.jax.rules import (
    callbacks,
    calls,
    control,
    elementwise,
    indexing,
    linear_algebra,
    lowered,
    products,
    random,
    reductions,
    refusals,
    shapes,
    sorting,
    windows,
)

__all__ = [
    "callbacks",
    "calls",
    "control",
    "elementwise",
    "indexing",
    "linear_algebra",
    "lowered",
    "products",
    "random",
    "reductions",
    "refusals",
    "shapes",
    "sorting",
    "windows",
]
