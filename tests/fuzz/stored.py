"""Arguments that programs read in parts, as if they were not in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import tracer
from tests.fuzz.evaluate import Array


def stored(arguments: Sequence[Any]) -> list[Any]:
    """Return the arguments with those in storage that have axes and elements."""
    return [tracer.open(x) if x.ndim and x.size else x for x in map(np.asarray, arguments)]


def numbers(arguments: Sequence[Any]) -> list[Array]:
    """Return what programs are given: the numbers of those in storage."""
    return [np.asarray(x.number if isinstance(x, tracer.StoredArray) else x) for x in arguments]


__all__ = ["numbers", "stored"]
