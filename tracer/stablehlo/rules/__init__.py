"""The rules of StableHLO's and CHLO's ops, by kind. Importing this room fills the table."""

from tracer.stablehlo.rules import (
    control,
    elementwise,
    indexing,
    library_calls,
    linear_algebra,
    normalisation,
    numpy_routines,
    products,
    random,
    reductions,
    refusals,
    scatters,
    shapes,
    sorting,
    windows,
)

__all__ = [
    "control",
    "elementwise",
    "indexing",
    "library_calls",
    "linear_algebra",
    "normalisation",
    "numpy_routines",
    "products",
    "random",
    "reductions",
    "refusals",
    "scatters",
    "shapes",
    "sorting",
    "windows",
]
