"""Where blocks come from: files of NumPy's format, and any object that can be sliced."""

from __future__ import annotations

import math
import mmap
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tracer.errors import StorageError, TracerError
from tracer.ir.storage import AT_ONCE, PAGE
from tracer.storage.ahead import LEAST_AHEAD, Array
from tracer.storage.direct import LEAST_DIRECT, DirectReads
from tracer.target.memory import free_bytes


class Source(ABC):
    """Reads blocks; threads may read together.

    Attributes
    ----------
    name : str
        For errors.
    shape : tuple of int
    dtype : numpy.dtype
    version : tuple of int or None
        Other numbers once what is stored was changed; None if nothing is known of that.
    least_ahead : int
        Bytes of a block from which on a thread of its own reads the next one sooner.
    piece_bytes : int
        Of what is decompressed whole, however little of it is read; 0 where any part is read alone.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    version: Any
    least_ahead: int = LEAST_AHEAD
    piece_bytes: int = 0

    @abstractmethod
    def fill(self, block: Array, starts: tuple[int, ...]) -> None:
        """Read a block, from these places on."""

    @abstractmethod
    def pick(self, block: Array, rows: Array) -> None:
        """Read these parts along the first axis, all of them inside."""

    def fill_within(self, memory: Array, starts: tuple[int, ...], shape: tuple[int, ...]) -> Array:
        """Read a block into memory that may be larger, and return it: a view of that."""
        block = block_at(memory, 0, shape, self.dtype)
        self.fill(block, starts)
        return block

    def rest(self) -> None:  # noqa: B027 - most keep nothing
        """Give back what is kept for the next read, at the end of a call."""


def block_at(memory: Array, place: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return a view of memory, of bytes, as a block that begins at one of them."""
    return np.ndarray(shape, dtype, memory.data, place)


class Sliceable(Source):
    """Any object with `shape`, `dtype` and slicing: of zarr, h5py, ...

    Parameters
    ----------
    array : object
    name : str
        For errors.
    path : Path, optional
        The file or folder that it was opened by. Whether that was changed is seen after each read;
        of a zarr by its metadata, as there may be millions of chunks.
    """

    def __init__(self, array: Any, name: str, path: Path | None = None) -> None:
        self.array, self.name, self.path = array, name, path
        self._watched = path if path is None or path.is_file() else _metadata(path)
        self._version = self._look()
        self.shape = tuple(int(size) for size in array.shape)
        self.dtype = np.dtype(array.dtype)
        chunks = getattr(array, "chunks", None)
        self._reads_into = hasattr(array, "read_direct")
        sizes = chunks if isinstance(chunks, tuple) else ()
        self._together = sizes[0] if sizes else 1
        self.piece_bytes = math.prod(sizes) * self.dtype.itemsize if sizes else 0

    @property
    def version(self) -> tuple[int, ...] | None:
        """Of the files of a path that it was opened by."""
        return None if self.path is None else version_of(self.path)

    def _look(self) -> tuple[int, ...] | None:
        return None if self._watched is None else version_of(self._watched)

    def fill(self, block: Array, starts: tuple[int, ...]) -> None:
        """Read a block, from these places on."""
        try:
            self._fill(block, starts)
        finally:
            if self._look() != self._version:  # zarr takes what is not there any more for zeros.
                raise changed(self.name)

    def _fill(self, block: Array, starts: tuple[int, ...]) -> None:
        index = tuple(
            slice(start, start + size) for start, size in zip(starts, block.shape, strict=True)
        )
        try:
            if self._reads_into and block.size:
                self.array.read_direct(block, index)  # h5py's: no more memory than the block.
                return
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
        _let_go(self.array)

    def pick(self, block: Array, rows: Array) -> None:
        """Read these parts along the first axis; those of one chunk together."""
        rest = (0,) * (block.ndim - 1)
        pick_by_runs(
            block, rows, self._together, lambda part, first: self.fill(part, (first, *rest))
        )


def _let_go(array: Any) -> None:
    """Give pages of a map back, which count as resident; what was written to them stays.

    Private changes would not: these are in no file.
    """
    pages = getattr(array, "_mmap", None) if isinstance(array, np.memmap) else None
    if pages is not None and array.mode != "c" and hasattr(mmap, "MADV_DONTNEED"):
        pages.madvise(mmap.MADV_DONTNEED)


def _metadata(folder: Path) -> Path:
    """Return the file that says what an array of zarr is, of format 3 or 2."""
    found = folder / "zarr.json"
    return found if found.exists() else folder / ".zarray"


def _spelled(part: slice) -> str:
    return f"{part.start}:{part.stop}"


def imported(module: str, path: Path | str) -> Any:
    """Return a library that reads and writes a format."""
    try:
        return __import__(module)
    except ImportError as error:
        raise StorageError(
            f"{path} needs {module}, which is not installed",
            mend=f"pip install {module}, or the extras of tracer: tracer[storage,parquet]",
        ) from error


@contextmanager
def readable(
    name: Path | str, kind: str, mend: str = "see what the storage says of it, or write it again"
) -> Iterator[None]:
    """Say of what cannot be read inside that it is not of its format: libraries raise anything."""
    try:
        yield
    except TracerError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.strerror:  # The system's: of no format at all.
            raise StorageError(
                f"{name} cannot be read: {error.strerror}",
                mend="look at it, and at who may read it",
            ) from error
        raise StorageError(f"{name} cannot be read as {kind}: {error}", mend=mend) from error


def changed(name: str) -> StorageError:
    """Return the error for a file that is not what it was when it was opened."""
    return StorageError(
        f"{name} was changed after it was opened",
        mend="open it again with tracer.open, when nobody writes to it any more",
    )


def ends_early(name: str, position: int) -> StorageError:
    """Return the error for a file that has no more bytes from a position on."""
    return StorageError(
        f"{name} ends at byte {position:,}, in the middle of the array", mend="write it again"
    )


def version_of(path: Path) -> tuple[int, ...]:
    """Return how many files there are, their bytes, and when the last one was written to."""
    files = [path] if path.is_file() else [item for item in path.rglob("*") if item.is_file()]
    found = [item.stat() for item in files]
    latest = max((item.st_mtime_ns for item in found), default=0)
    return len(found), sum(item.st_size for item in found), latest


class RawFile(Source):
    """An array in one piece of a file, row by row: `.npy` files, and what `np.memmap` looks at.

    Read with `preadv` into arrays of their own, not by looking at mapped pages: these count as
    resident memory of the process, and no limit is known to the system that fills them. Blocks of
    a file that the page cache cannot keep are read past it (`direct`).
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        offset: int,
        shape: Sequence[int],
        dtype: Any,
        direct: bool | None = None,
    ) -> None:
        self.path, self.offset = Path(path), offset
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        self.name = str(self.path)
        self._file = open(self.path, "rb", buffering=0)  # as long as the array
        self.version = self._stat()
        wanted = offset + math.prod(self.shape) * self.dtype.itemsize
        if self.version[0] < wanted:
            raise StorageError(
                f"{self.name} is cut short: it has {self.version[0]:,} bytes, and an array of "
                f"{self.dtype}{list(self.shape)} ends at {wanted:,}",
                mend="write it again",
            )
        self._wants_direct = direct

    def __del__(self) -> None:
        """Close the file."""
        if hasattr(self, "_file"):
            self._file.close()

    def _stat(self) -> tuple[int, int]:
        found = os.fstat(self._file.fileno())
        return found.st_size, found.st_mtime_ns

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        """Look at the file after a read: before, the read would wait for Python once more.

        Asking the system lets other threads run, and one of them copies a block to the program.
        """
        try:
            yield
        finally:
            if self._stat() != self.version:
                raise changed(self.name)

    def pick(self, block: Array, rows: Array) -> None:
        """Read these parts along the first axis.

        The system is told of all of them first: a device answers many reads at once sooner than
        one after the other.
        """
        row, file = row_bytes(block), self._file.fileno()
        with self._unchanged():
            pick_by_runs(
                block,
                rows,
                1,
                lambda part, first: self._fill(part.reshape(-1), self.offset + first * row),
                lambda first, count: _tell(file, self.offset + first * row, count * row),
            )

    def fill(self, block: Array, starts: tuple[int, ...]) -> None:
        """Read a block, from these places on."""
        with self._unchanged():
            for piece, position in pieces(block, starts, self.shape):
                self._fill(piece, self.offset + position * self.dtype.itemsize)

    def fill_within(self, memory: Array, starts: tuple[int, ...], shape: tuple[int, ...]) -> Array:
        """Read a block into memory that may be larger, past the page cache where that is faster."""
        found = self._read_directly(memory, starts, shape)
        return super().fill_within(memory, starts, shape) if found is None else found

    @cached_property
    def _direct(self) -> DirectReads | None:
        """How large blocks are read past the page cache; None if they are not.

        Asked with the first of them: what is free takes longer to tell than a short read.
        """
        wanted = self._wants_direct
        if wanted is None:
            wanted = self.offset + math.prod(self.shape) * self.dtype.itemsize > free_bytes()
        is_aligned = self.offset % self.dtype.itemsize == 0
        return DirectReads(self.path, self._file.fileno()) if wanted and is_aligned else None

    def _read_directly(
        self, memory: Array, starts: tuple[int, ...], shape: tuple[int, ...]
    ) -> Array | None:
        """Return None where a block is not in one piece, or cannot be read so."""
        nbytes = math.prod(shape) * self.dtype.itemsize
        in_one_piece = math.prod(shape[: walked_axes(shape, self.shape)]) == 1
        if nbytes < LEAST_DIRECT or not in_one_piece or self._direct is None:
            return None
        position = self.offset + position_of(starts, self.shape) * self.dtype.itemsize
        with self._unchanged(), self._named_errors(position):
            place = self._direct.read(memory, position, nbytes)
        return None if place is None else block_at(memory, place, shape, self.dtype)

    def _fill(self, target: Array, position: int) -> None:
        view, done = target.view(np.uint8).data, 0
        while done < len(view):
            with self._named_errors(position + done):
                count = os.preadv(self._file.fileno(), [view[done:]], position + done)
            if count == 0:
                raise ends_early(self.name, position + done)
            done += count

    @contextmanager
    def _named_errors(self, position: int) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(
                f"cannot read {self.name} at byte {position:,}: {error.strerror}",
                mend="look at the file and the device that it is on",
            ) from error


class ColumnFile(Source):
    """An array that is stored column by column: a file's, turned.

    Read as others are, as a map of a file that is cut short later ends the process.
    """

    def __init__(self, file: RawFile) -> None:
        self._file, self.name, self.version = file, file.name, file.version
        self.shape, self.dtype = file.shape[::-1], file.dtype

    def fill(self, block: Array, starts: tuple[int, ...]) -> None:
        """Read a block, from these places on; in memory twice is what is side by side."""
        turned, first = block.T, starts[::-1]
        walked = walked_axes(turned.shape, self._file.shape)
        for index in np.ndindex(*turned.shape[:walked]):
            part = np.empty(turned.shape[walked:], self.dtype)
            places = [start + i for start, i in zip(first, index, strict=False)]
            self._file.fill(part[(None,) * walked], (*places, *first[walked:]))
            turned[index] = part

    def pick(self, block: Array, rows: Array) -> None:
        """Read these parts along the first axis; those near each other together."""
        rest = (0,) * (block.ndim - 1)
        pick_by_runs(block, rows, 1, lambda part, first: self.fill(part, (first, *rest)))


def _tell(file: int, position: int, nbytes: int) -> None:
    """Tell the system what will be read, where it can be told."""
    if hasattr(os, "posix_fadvise"):
        with suppress(OSError):  # Only advice, which sandboxes deny.
            os.posix_fadvise(file, position, nbytes, os.POSIX_FADV_WILLNEED)


def row_bytes(block: Array) -> int:
    """Return the bytes of a part along the first axis."""
    return int(block.dtype.itemsize * math.prod(block.shape[1:]))


def pick_by_runs(
    block: Array,
    rows: Array,
    together: int,
    read: Callable[[Array, int], None],
    tell: Callable[[int, int], None] | None = None,
) -> None:
    """Read parts along the first axis, those of a run at once.

    Parameters
    ----------
    block : ndarray
        For the parts, in the order of `rows`.
    rows : ndarray
        Which ones.
    together : int
        See `runs`.
    read : callable
        Fills an array with the parts from a first one on.
    tell : callable, optional
        Is told of every run, its first row and how many rows, before the first is read.
    """
    found = list(runs(rows, row_bytes(block), together))
    if tell is not None:
        for _, first, count in found:
            tell(first, count)
    for picked, first, count in found:
        if picked.size == count == 1:
            place = int(picked[0])
            read(block[place : place + 1], first)
            continue
        near = np.empty((count, *block.shape[1:]), block.dtype)
        read(near, first)
        block[picked] = near[rows[picked] - first]


def runs(rows: Array, nbytes: int, together: int) -> Iterator[tuple[Array, int, int]]:
    """Yield which of some rows are read at once, the first row of these, and how many to read.

    Those of one chunk of so many rows (`together`); else those with less than a page between them,
    up to `AT_ONCE` bytes. In the order in which they are stored.
    """
    order = np.argsort(rows, kind="stable")
    places = rows[order]
    if together > 1:
        is_apart, most = np.diff(places // together) > 0, together
    else:
        is_apart = (np.diff(places) - 1) * nbytes > PAGE
        most = max(1, AT_ONCE // max(1, nbytes))
    ends = [*(np.flatnonzero(is_apart) + 1).tolist(), places.size]
    start = 0
    for end in ends:
        while start < end:
            first, stop = int(places[start]), end
            if places[end - 1] - first >= most:
                stop = int(np.searchsorted(places[start:end], first + most)) + start
            yield order[start:stop], first, int(places[stop - 1]) - first + 1
            start = stop


def pieces(
    block: Array, starts: Sequence[int], whole: Sequence[int]
) -> Iterator[tuple[Array, int]]:
    """Yield what of a block is side by side in storage, and how many elements are before it."""
    if not block.size:
        return
    walked = walked_axes(block.shape, whole)
    rows = block.reshape(math.prod(block.shape[:walked]), -1)
    for row, index in zip(rows, np.ndindex(*block.shape[:walked]), strict=True):
        places = [start + i for start, i in zip(starts, index, strict=False)]
        yield row, position_of((*places, *starts[walked:]), whole)


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


__all__ = [
    "Array",
    "ColumnFile",
    "RawFile",
    "Sliceable",
    "Source",
    "block_at",
    "changed",
    "ends_early",
    "imported",
    "pick_by_runs",
    "pieces",
    "position_of",
    "row_bytes",
    "runs",
    "version_of",
    "walked_axes",
]
