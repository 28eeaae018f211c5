"""Arrays by URL, through fsspec: of what another machine has, parts are read as they are needed."""

from __future__ import annotations

import io
import math
import zlib
from typing import Any

import numpy as np

from tracer.errors import StorageError
from tracer.storage.sources import Array, Source, ends_early, pick_by_runs, pieces, readable

_HEADER_BYTES = 1 << 16


class RemoteFile(Source):
    """A `.npy` file of a file system of fsspec's, of which ranges of bytes are read."""

    least_ahead = 1  # An answer takes longer than a thread, however short it is.

    def __init__(self, system: Any, path: str, name: str, version: tuple[int, ...]) -> None:
        self.name, self._system, self._path, self.version = name, system, path, version
        header = io.BytesIO(self._read(0, _HEADER_BYTES))
        with readable(name, "NumPy's format", "write it with np.save"):
            read = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }[np.lib.format.read_magic(header)]
            shape, by_columns, dtype = read(header)
        if by_columns or dtype.hasobject:
            raise StorageError(
                f"{name} holds {'columns' if by_columns else 'objects'} one after the other",
                mend="write it again, with np.save of numpy.ascontiguousarray(x)",
            )
        self.shape, self.dtype, self._offset = tuple(shape), dtype, header.tell()

    def _read(self, start: int, stop: int) -> bytes:
        try:
            return bytes(self._system.cat_file(self._path, start=start, end=stop))
        except Exception as error:  # of the file system's library
            raise StorageError(
                f"cannot read {self.name} at byte {start:,}: {error}",
                mend="see what the storage says of it",
            ) from error

    def _fill(self, target: Array, position: int) -> None:
        first = self._offset + position * self.dtype.itemsize
        found = self._read(first, first + target.nbytes)
        if len(found) < target.nbytes:
            raise ends_early(self.name, first + len(found))
        target[...] = np.frombuffer(found, self.dtype, target.size)

    def fill(self, block: Array, starts: tuple[int, ...]) -> None:
        """Read a block, from these places on."""
        for piece, position in pieces(block, starts, self.shape):
            self._fill(piece, position)

    def pick(self, block: Array, rows: Array) -> None:
        """Read these parts along the first axis; those near each other together."""
        row = math.prod(block.shape[1:])
        pick_by_runs(block, rows, 1, lambda part, first: self._fill(part.reshape(-1), first * row))


def version_of(system: Any, path: str) -> tuple[int, ...]:
    """Return the size of a file, and a number of what its system says of its last change."""
    try:
        known = system.info(path)
    except Exception as error:  # of the file system's library
        raise StorageError(
            f"there is no file {path}: {error}", mend="look at the URL, and at who may read it"
        ) from error
    said = [known.get(key) for key in ("ETag", "etag", "mtime", "LastModified", "created")]
    return int(known.get("size") or 0), zlib.crc32(repr(said).encode())


__all__ = ["RemoteFile", "version_of"]
