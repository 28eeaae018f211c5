"""Where results go: files of NumPy's format, zarr and hdf5, complete or not there."""

from __future__ import annotations

import io
import math
import os
import shutil
import struct
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

from tracer.errors import DTypeError, StorageError
from tracer.ir.storage import PAGE
from tracer.storage.checkpoints import Run
from tracer.storage.direct import LEAST_DIRECT, DirectWrites
from tracer.storage.locks import held
from tracer.storage.sources import Array, imported, position_of, walked_axes

_CHUNK_BYTES = 4 << 20
_LEAST_PAST_CACHE = 1 << 26
"""Bytes of a result that is written past the page cache. What is smaller may soon be read again."""


class Target(Protocol):
    """Takes blocks, in any order; `finish` when all are there."""

    def offset_in_page(self, starts: tuple[int, ...]) -> int:
        """Return where in a page of memory a block that begins at these places is best put."""
        ...

    def put(self, starts: tuple[int, ...], block: Array) -> None:
        """Write a block from these places on."""
        ...

    def finish(self) -> None:
        """Bring everything to the disk."""
        ...

    def close(self) -> None:
        """Let go of what is open."""
        ...


class RawTarget:
    """Elements of a file, row by row; their space is taken when it is made.

    Many bytes are written past the page cache, where memory lies in pages as the file does.

    Parameters
    ----------
    path : Path
        A file that is there, and in which this is what comes last.
    offset : int
        Where the first element is.
    shape, dtype
    """

    def __init__(
        self, path: Path, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        self.offset, self.shape, self.dtype = offset, shape, dtype
        self._file = open(path, "r+b", buffering=0)  # as long as the array
        nbytes = math.prod(shape) * dtype.itemsize
        try:
            if nbytes:
                os.posix_fallocate(self._file.fileno(), self.offset, nbytes)
        except OSError:
            self._file.close()
            raise
        is_large = nbytes >= _LEAST_PAST_CACHE
        self._direct = DirectWrites(path, self._file.fileno()) if is_large else None

    def _position(self, index: tuple[int, ...]) -> int:
        return self.offset + position_of(index, self.shape) * self.dtype.itemsize

    def offset_in_page(self, starts: tuple[int, ...]) -> int:
        """Return where in a page of memory a block that begins at these places is best put."""
        return self._position(starts) % PAGE

    def put(self, starts: tuple[int, ...], block: Array) -> None:
        """Write a block from these places on."""
        walked = walked_axes(block.shape, self.shape)
        rows = np.ascontiguousarray(block).reshape(math.prod(block.shape[:walked]), -1)
        for row, index in zip(rows, np.ndindex(*block.shape[:walked]), strict=True):
            places = [start + i for start, i in zip(starts, index, strict=False)]
            self._put(row, (*places, *starts[walked:]))

    def _put(self, row: Array, index: tuple[int, ...]) -> None:
        position, view = self._position(index), row.view(np.uint8).data
        head = -position % PAGE
        lies_alike = (row.ctypes.data + head) % PAGE == 0
        if self._direct is not None and lies_alike and len(view) - head >= LEAST_DIRECT:
            self._through_cache(view[:head], position)
            done = head + self._direct.write(view[head:], position + head)
            position, view = position + done, view[done:]
        self._through_cache(view, position)

    def _through_cache(self, view: memoryview, position: int) -> None:
        while view:
            count = os.pwrite(self._file.fileno(), view, position)
            position, view = position + count, view[count:]

    def finish(self) -> None:
        """Bring everything to the disk."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        if self._direct is not None:
            self._direct.close()
        self._file.close()


def _npy(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], *, is_there: bool) -> Target:
    header = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": False,
        "shape": shape,
    }
    text = io.BytesIO()
    np.lib.format.write_array_header_2_0(text, header)
    with open(path, "r+b" if is_there else "wb", buffering=0) as file:
        file.write(_to_a_page(text.getvalue()))
        return RawTarget(path, file.tell(), shape, dtype)


def _to_a_page(header: bytes) -> bytes:
    """Return NumPy's header with more of the spaces at its end: the elements begin with a page."""
    spaces = -len(header) % PAGE
    (length,) = struct.unpack("<I", header[8:12])
    return header[:8] + struct.pack("<I", length + spaces) + header[12:-1] + b" " * spaces + b"\n"


class SliceTarget:
    """An array of zarr, in a folder."""

    def __init__(self, array: Any, path: Path) -> None:
        self.array, self.path = array, path

    def offset_in_page(self, starts: tuple[int, ...]) -> int:
        """Return the beginning: chunks are compressed."""
        return 0

    def put(self, starts: tuple[int, ...], block: Array) -> None:
        """Write a block from these places on."""
        index = tuple(
            slice(start, start + size) for start, size in zip(starts, block.shape, strict=True)
        )
        self.array[index] = block

    def finish(self) -> None:
        """Bring everything to the disk: each chunk is a file."""
        for found in (*self.path.rglob("*"), self.path):
            _sync(found)

    def close(self) -> None:
        """Do nothing: no file is open."""


def _zarr(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], *, is_there: bool) -> Target:
    zarr = imported("zarr", path)
    if is_there:
        return SliceTarget(zarr.open_array(str(path), mode="r+"), path)
    chunks = _chunks(shape, dtype)
    made = zarr.create_array(str(path), shape=shape, dtype=dtype, chunks=chunks)
    return SliceTarget(made, path)


def _hdf5(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], *, is_there: bool) -> Target:
    """Have HDF5 make the file, and write the elements ourselves.

    Of a file that HDF5 cannot write, on a full disk, it keeps what it has not written: it can then
    neither be closed nor, on some collections of garbage, does the process survive.
    """
    h5py = imported("h5py", path)
    pages = {"alignment_threshold": LEAST_DIRECT, "alignment_interval": PAGE}
    with h5py.File(path, **({"mode": "r"} if is_there else {"mode": "w", **pages})) as file:
        made = file["data"].id if is_there else _dataset(h5py, file.id, shape, dtype)
        offset = made.get_offset() or 0  # None of no elements.
    return RawTarget(path, offset, shape, dtype)


def _dataset(h5py: Any, file: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Make a dataset in one piece that has its place in the file, and no elements yet."""
    wanted = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    wanted.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    wanted.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    kind, space = h5py.h5t.py_create(dtype, logical=True), h5py.h5s.create_simple(shape)
    return h5py.h5d.create(file, b"data", kind, space, wanted)


def _chunks(shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[int, ...]:
    """Return chunks of whole rows, of a few megabytes."""
    row = max(1, math.prod(shape[1:]) * dtype.itemsize)
    return (max(1, min(shape[0], _CHUNK_BYTES // row)), *shape[1:]) if shape else ()


_KINDS: dict[str, Any] = {".npy": _npy, ".zarr": _zarr, ".h5": _hdf5, ".hdf5": _hdf5}


class Result:
    """A result on its way to storage: under another name until it is complete.

    Parameters
    ----------
    path : Path
    shape, dtype
        Of the result.
    run : Run, optional
        The call, if it has checkpoints. After a failure what was written stays where one was made,
        and the same call goes on with it.

    Raises
    ------
    StorageError
        The path exists, or has no ending of a format.
    DTypeError
        No format has elements of this dtype.
    """

    def __init__(
        self,
        path: Path,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        run: Run | None = None,
    ) -> None:
        self.path, self.run = path, run
        if path.suffix.lower() not in _KINDS:
            raise StorageError(
                f"{path} has no ending of a format that results are written in",
                mend=f"use one of {', '.join(sorted(_KINDS))}",
            )
        if dtype.isbuiltin == 2:  # Another library's; formats have no name for it.
            raise DTypeError(
                f"{path} cannot hold {dtype}: no format for results can be read again with it",
                mend="return it as float32 or float16, by x.astype",
            )
        self._refuse_what_exists()
        self.partial = partial_path(path, run)
        self._lock = path.with_name(f"{path.name}.tracer-lock")
        self._held: IO[bytes] | None = None
        self._shape, self._dtype = shape, dtype

    def _refuse_what_exists(self) -> None:
        if self.path.exists():
            raise StorageError(f"{self.path} exists", mend="remove it, or choose another path")

    def begin(self) -> None:
        """Make the file; apart from the constructor, so that an interrupt loses nothing made.

        Raises
        ------
        StorageError
            Another process writes to it, or did so meanwhile, or there is no space.
        """
        path, run, shape, dtype = self.path, self.run, self._shape, self._dtype
        self._held = held(self._lock, f"another call, or another process, writes to {path}")
        try:
            self._refuse_what_exists()  # One that had the lock until now may have made it.
            make = _KINDS[path.suffix.lower()]
            # Without a checkpoint nothing needs what is there, which may not be whole.
            is_there = run is not None and run.has_checkpoint and self.partial.exists()
            if not is_there:
                _remove(self.partial)
            self._target = make(self.partial, shape, dtype, is_there=is_there)
        except BaseException as error:  # also an interrupt: to make a large file takes time
            self.give_up()
            if isinstance(error, OSError) or type(error) is RuntimeError:  # h5py's, at a close.
                raise self._error(error) from error
            raise

    def offset_in_page(self, starts: tuple[int, ...]) -> int:
        """Return where in a page of memory a block that begins at these places is best put."""
        place: int = self._target.offset_in_page(starts)
        return place

    def put(self, starts: tuple[int, ...], block: Array) -> None:
        """Write a block from these places on."""
        try:
            self._target.put(starts, block)
        except OSError as error:
            raise self._error(error) from error

    def flush(self) -> None:
        """Bring what was written so far to the disk."""
        try:
            self._target.finish()
        except OSError as error:
            raise self._error(error) from error

    def finish(self) -> None:
        """Bring everything to the disk, and give it its name, unless a file has it by now."""
        try:
            self._target.finish()
            self._target.close()
            self._refuse_what_exists()  # Made by others while this was computed.
            os.rename(self.partial, self.path)
            _sync(self.path.parent)  # The name, too.
        except OSError as error:
            raise self._error(error) from error
        self._unlock()

    def give_up(self) -> None:
        """Remove what was written, if it is not complete, and no checkpoint needs it."""
        if self._held is None or self._held.closed:
            return
        if hasattr(self, "_target"):
            self._target.close()
        if self.run is None or not self.run.has_checkpoint:
            _remove(self.partial)
        self._unlock()

    def _unlock(self) -> None:
        self._lock.unlink(missing_ok=True)
        if self._held is not None:
            self._held.close()

    def _error(self, error: OSError | RuntimeError) -> StorageError:
        return StorageError(
            f"cannot write {self.path}: {getattr(error, 'strerror', None) or error}",
            mend="make room, or choose a path on another disk",
        )


def _sync(path: Path) -> None:
    """Bring a file to the disk, or the names in a folder, where the file system can do that."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    except OSError:
        if not path.is_dir():
            raise
    finally:
        os.close(file)


def partial_path(path: Path, run: Run | None) -> Path:
    """Return the name that a result has until it is complete."""
    between = "" if run is None else f".{run.key}"
    return path.with_name(f"{path.name}{between}.tracer-partial")


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


__all__ = ["Result", "partial_path"]
