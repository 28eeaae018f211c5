"""Where blocks come from: files of NumPy's format, and any object that can be sliced."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tracer.errors import StorageError

Array = np.ndarray[Any, Any]


class Source(Protocol):
    """Reads blocks; threads may read together."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def fill(self, block: Array, starts: tuple[int, ...]) -> None:
        """Read a block, from these places on."""
        ...


class Sliceable:
    """Any object with `shape`, `dtype` and slicing: of zarr, h5py, ..."""

    def __init__(self, array: Any, name: str) -> None:
        self.array, self.name = array, name
        self.shape = tuple(int(size) for size in array.shape)
        self.dtype = np.dtype(array.dtype)

    def fill(self, block: Array, starts: tuple[int, ...]) -> None:
        """Read a block, from these places on."""
        index = tuple(
            slice(start, start + size) for start, size in zip(starts, block.shape, strict=True)
        )
        try:
            found = np.asarray(self.array[index])
        except Exception as error:
            raise StorageError(
                f"cannot read {list(map(_spelled, index))} of {self.name}: {error}",
                mend="see what the storage says of it",
            ) from error
        if found.shape != block.shape:
            raise StorageError(
                f"{self.name} gave an array of shape {found.shape} for a block of shape "
                f"{block.shape}",
                mend="slices of it must be as long as its shape says",
            )
        block[...] = found


def _spelled(part: slice) -> str:
    return f"{part.start}:{part.stop}"


class RawFile:
    """An array in one piece of a file, row by row: `.npy` files, and what `np.memmap` looks at.

    Read with `preadv` into arrays of their own, not by looking at mapped pages: these count as
    resident memory of the process, and no limit is known to the system that fills them.
    """

    def __init__(
        self, path: str | os.PathLike[str], offset: int, shape: Sequence[int], dtype: Any
    ) -> None:
        self.path, self.offset = Path(path), offset
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        self.name = str(self.path)
        self._file = open(self.path, "rb", buffering=0)  # as long as the array
        self._state = self._stat()
        wanted = offset + math.prod(self.shape) * self.dtype.itemsize
        if self._state[0] < wanted:
            raise StorageError(
                f"{self.name} is cut short: it has {self._state[0]:,} bytes, and an array of "
                f"{self.dtype}{list(self.shape)} ends at {wanted:,}",
                mend="write it again",
            )

    def __del__(self) -> None:
        """Close the file."""
        if hasattr(self, "_file"):
            self._file.close()

    def _stat(self) -> tuple[int, int]:
        found = os.fstat(self._file.fileno())
        return found.st_size, found.st_mtime_ns

    def fill(self, block: Array, starts: tuple[int, ...]) -> None:
        """Read a block, from these places on."""
        if self._stat() != self._state:
            raise StorageError(
                f"{self.name} was changed after it was opened",
                mend="open it again with tracer.open, when nobody writes to it any more",
            )
        if not block.size:
            return
        walked = walked_axes(block.shape, self.shape)
        rows = block.reshape(math.prod(block.shape[:walked]), -1)
        for row, index in zip(rows, np.ndindex(*block.shape[:walked]), strict=True):
            places = [start + i for start, i in zip(starts, index, strict=False)]
            position = position_of((*places, *starts[walked:]), self.shape)
            self._fill(row, self.offset + position * self.dtype.itemsize)

    def _fill(self, target: Array, position: int) -> None:
        view, done = target.view(np.uint8).data, 0
        while done < len(view):
            try:
                count = os.preadv(self._file.fileno(), [view[done:]], position + done)
            except OSError as error:
                raise StorageError(
                    f"cannot read {self.name} at byte {position + done:,}: {error.strerror}",
                    mend="look at the file and the device that it is on",
                ) from error
            if count == 0:
                raise StorageError(
                    f"{self.name} ends at byte {position + done:,}, in the middle of the array",
                    mend="write it again",
                )
            done += count


def walked_axes(shape: Sequence[int], whole: Sequence[int]) -> int:
    """Return how many leading axes of a block are walked, to find what is side by side."""
    axis = len(shape)
    while axis and shape[axis - 1] == whole[axis - 1]:
        axis -= 1
    return max(0, axis - 1)  # Along one axis a block may have a part: that is side by side.


def position_of(index: Sequence[int], whole: Sequence[int]) -> int:
    """Return how many elements are before one, row by row."""
    place = 0
    for i, size in zip(index, whole, strict=True):
        place = place * size + i
    return place


__all__ = ["Array", "RawFile", "Sliceable", "Source", "position_of", "walked_axes"]
