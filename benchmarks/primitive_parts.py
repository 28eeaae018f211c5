"""What the families of `benchmarks.primitives` are written with: an operation, and its inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Function = Callable[..., Any]
Inputs = Callable[[np.random.Generator], tuple[Any, ...]]
OURS, NUMPY, JAX, TORCH = "tracer", "numpy", "jax", "torch"


@dataclass(frozen=True)
class Primitive:
    """One operation: what it is called, its inputs, and its function for each side.

    `write` takes the names of a side and returns the function; `argnums` asks for the gradient of
    its result. `flops` are done at least, where that is known.
    """

    family: str
    name: str
    inputs: Inputs
    write: Callable[[Any], Function]
    argnums: tuple[int, ...] = ()
    sides: tuple[str, ...] = (NUMPY, JAX, TORCH)
    flops: float = 0.0
    may_hang: bool = False
    """Whether JAX may wait forever on CPUs: each LAPACK call of jaxlib's for many matrices blocks
    one of XLA's threads until all have done their part, and two may be called at once."""


def normal(*shape: int, dtype: str = "float32") -> Inputs:
    """Return the maker of one array of normal numbers."""
    return lambda rng: (rng.standard_normal(shape, np.float32).astype(dtype),)


def together(first: Inputs, *others: Inputs) -> Inputs:
    """Return the maker of the arrays of several."""
    return lambda rng: tuple(x for make in (first, *others) for x in make(rng))


def integers(high: int, *shape: int, dtype: str = "int32") -> Inputs:
    """Return the maker of one array of integers below `high`."""
    return lambda rng: (rng.integers(0, high, shape).astype(dtype),)
