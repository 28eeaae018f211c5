"""Arguments that are not in memory: objects that can be sliced, which programs read in parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import tracer
from tests.fuzz.evaluate import Array


@dataclass
class Sliced:
    """An array that can only be sliced."""

    array: Array

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes along the axes."""
        return self.array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the elements."""
        return self.array.dtype

    def __getitem__(self, index: Any) -> Array:
        return self.array[index]


def stored(arguments: Sequence[Any]) -> list[Any]:
    """Return the arguments with those in storage that have axes and elements."""
    return [tracer.open(Sliced(x)) if x.ndim and x.size else x for x in map(np.asarray, arguments)]


def numbers(arguments: Sequence[Any]) -> list[Array]:
    """Return what programs are given: the numbers of those in storage."""
    return [np.asarray(x.number if isinstance(x, tracer.StoredArray) else x) for x in arguments]


__all__ = ["numbers", "stored"]
