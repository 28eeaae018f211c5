"""Functions of two elements, mapped over arrays."""

from __future__ import annotations

from typing import Any

from tracer.autodiff.transforms import vmap
from tracer.numpy.associative import Combine


def of_elements(combine: Combine, ndim: int) -> Combine:
    """Map a function of scalars over all axes."""
    mapped: Any = combine
    for _ in range(ndim):
        mapped = vmap(mapped)
    return mapped  # type: ignore[no-any-return]
