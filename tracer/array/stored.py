"""The type of an argument that stays in storage: the program gets its number, and reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tracer import ops
from tracer.array.recording import Recording, TracedArray
from tracer.errors import Source
from tracer.ir import ShapeDtype


@dataclass(frozen=True, slots=True)
class StoredType:
    """The type of an array in storage, beside `ShapeDtype`, which is that of one in memory."""

    type: ShapeDtype
    number: ClassVar[ShapeDtype] = ShapeDtype((), np.int32)
    """The type of what the program is given."""

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The dtype of the elements."""
        return self.type.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes along the axes."""
        return self.type.shape

    def __str__(self) -> str:
        return f"stored {self.type}"


def stored_argument(
    recording: Recording, type: StoredType, source: Source | None = None
) -> TracedArray:
    """Add an input for the number, and read the array where the function uses it."""
    number = recording.argument(StoredType.number, source)
    found: TracedArray = recording.record(
        ops.read_stored, [number], {"shape": type.shape, "whole": type.shape, "dtype": type.dtype}
    )
    return found


__all__ = ["StoredType", "stored_argument"]
