"""A program with its arguments and the memory that it may take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.framework import Rng

Function = Callable[..., Any]
Arguments = Callable[[Rng], tuple[Any, ...]]


@dataclass(frozen=True)
class LimitedProgram:
    """A program, what makes its arguments, and its limit.

    Attributes
    ----------
    function : callable
    inputs : callable
        Takes a generator of random numbers.
    limit : str, float or None
        Bytes, or which part it may take of what it takes as written; None for as it is.
    """

    function: Function
    inputs: Arguments
    limit: str | float | None = None

    def arrays(self) -> tuple[Any, ...]:
        """Return the arguments, the same in every process."""
        return self.inputs(np.random.default_rng(0))


def normal(*shapes: tuple[int, ...]) -> Arguments:
    """Return what makes float32 arguments."""
    return lambda rng: tuple(rng.standard_normal(shape, dtype=np.float32) for shape in shapes)
