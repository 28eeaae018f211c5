"""`StoredArray`: an array in storage, of which compiled functions read what they compute with."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np

from tracer.errors import ArgumentError, ArrayIndexError, DTypeError, StorageError
from tracer.ir import ShapeDtype, as_dtype, storage
from tracer.storage.ahead import Array, Block, Progress, Starts, following_blocks
from tracer.storage.meter import Meter
from tracer.storage.sources import Source
from tracer.units import format_bytes


class StoredArray(storage.InStorage):
    """An array in storage. Made by `tracer.open`.

    Compiled functions take it like any array. They read blocks of it while they run, the next one
    beside the computation, and only these count against the memory limit.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
    """

    def __init__(self, source: Source, origin: tuple[Any, ...] | None = None) -> None:
        """`origin`: a function, and what it is to be called with to open the same again."""
        self._source, self._origin = source, origin
        self.shape, self.dtype = source.shape, as_dtype(source.dtype)
        self.number = storage.register(self)
        self.meters: WeakValueDictionary[int, Meter] = WeakValueDictionary()
        """Of the calls that read it now, by `id`; weak, as an interrupt may end one anywhere."""
        self._lock = threading.Lock()
        self._readers: WeakKeyDictionary[storage.Reader, list[Progress]] = WeakKeyDictionary()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the path: it is opened again where it is unpickled."""
        if self._origin is None:
            raise ArgumentError(
                f"{self!r} was opened as an object, which only this process has",
                mend="open it by its path, or pickle what it was opened from",
            )
        opened, *arguments = self._origin
        return opened, tuple(arguments)

    def __copy__(self) -> StoredArray:
        """Return the same object: nothing changes it."""
        return self

    def __deepcopy__(self, memo: Any) -> StoredArray:
        """Return the same object: nothing changes it."""
        return self

    @property
    def type(self) -> ShapeDtype:
        """Shape and dtype."""
        return ShapeDtype(self.shape, self.dtype)

    @property
    def identity(self) -> tuple[Any, ...]:
        """What it is known by in another process: name, shape, dtype, and what its source says."""
        return (self._source.name, self.shape, str(self.dtype), self._source.version)

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements it has."""
        return self.type.size

    @property
    def nbytes(self) -> int:
        """Its bytes in storage, not compressed."""
        return self.type.nbytes

    def __len__(self) -> int:
        """Return the size of the first axis."""
        if not self.shape:
            raise DTypeError("len() of a 0-d array", mend="use x.size, or x[()] for the number")
        return self.shape[0]

    def __getitem__(self, index: Any) -> Array:
        """Read a part into memory, as a NumPy array; slices with step 1 and integers."""
        parts, dropped = _blocks(index, self.shape)
        starts, shape = zip(*parts, strict=True) if parts else ((), ())
        return np.squeeze(self._read(tuple(starts), tuple(shape)), dropped)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Read all of it into memory."""
        if copy is False:
            raise ArgumentError(
                f"{self!r} is in storage, and an array of it is a copy",
                mend="leave copy=False out",
            )
        found = self._read((0,) * self.ndim, self.shape)
        return found if dtype is None else found.astype(dtype)

    def require_pieces_within(self, limit: int) -> None:
        """Refuse a limit, in bytes, below what is decompressed whole.

        Raises
        ------
        StorageError
        """
        piece = self._source.piece_bytes
        if piece > limit:
            raise StorageError(
                f"{self._source.name} is in chunks of {format_bytes(piece)}, above memory_limit "
                f"{format_bytes(limit)}: a chunk is decompressed whole, however little is read",
                mend="write it in smaller chunks, or give a limit above some of them",
            )

    def _refuse(self, other: Any = None) -> Any:
        """Refuse an operator: that would read all of it."""
        raise storage.needed_in_memory(self)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _refuse
    __pow__ = __rpow__ = __matmul__ = __rmatmul__ = __and__ = __rand__ = __or__ = __ror__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __abs__ = __invert__ = _refuse

    def __array_ufunc__(self, *_: Any, **__: Any) -> Any:
        """Refuse NumPy's functions and the operators of its arrays, for the same reason."""
        raise storage.needed_in_memory(self)

    def __repr__(self) -> str:
        """Type and origin."""
        return f"StoredArray({self.type}, {self._source.name!r})"

    def read(self, starts: Starts, shape: Starts, reader: storage.Reader) -> Array:
        """Return a block, and begin to read the one that probably follows it."""
        nbytes = self.type.with_shape(shape).nbytes
        with self._progress(reader, starts) as progress:
            block = progress.awaited(starts)
            if block is None:
                block = self._block(progress.buffers.take(nbytes), starts, shape)
            places = following_blocks(starts, progress.last, shape, self.shape)
            following = next(places, None)
            progress.last = starts
            if following is not None and nbytes >= self._source.least_ahead:
                read = partial(self._block, shape=shape)
                progress.go_on(read, nbytes, itertools.chain([following], places))
            return progress.buffers.lent(block, is_last=following is None)

    @contextmanager
    def _progress(self, reader: storage.Reader, starts: Starts) -> Iterator[Progress]:
        """Take the progress that awaits this block; else that of a device which has begun none."""
        with self._lock:
            known = self._readers.setdefault(reader, [])
            free = [progress for progress in known if not progress.lock.locked()]
            found = next((progress for progress in free if progress.awaits(starts)), None)
            if found is None and len(known) < reader.devices:
                known.append(found := Progress())
            if found is None:
                found = min(free or known, key=lambda progress: progress.is_ahead)
        with found.lock:
            yield found

    def rest(self) -> None:
        """Drop what was read ahead, at the end of a call."""
        with self._lock:
            if self.meters:
                return
            for known in self._readers.values():
                for progress in known:
                    progress.stop()
            self._readers.clear()
        self._source.rest()

    def rows(self, places: Array) -> Array:
        """Return parts along the first axis. Rows near each other are read together, in order."""
        wanted = np.clip(places.reshape(-1), 0, len(self) - 1)
        found = np.empty((wanted.size, *self.shape[1:]), self._source.dtype)
        self._source.pick(found, wanted)
        self._count(found)
        return self._native(found).reshape((*places.shape, *self.shape[1:]))

    def write(self, starts: Starts, block: Array) -> None:
        """Refuse: it was opened to be read."""
        raise StorageError(f"{self._source.name} was opened to be read", mend="use f.into(path)")

    def _read(self, starts: Starts, shape: Starts) -> Array:
        block = np.empty(shape, self._source.dtype)
        self._source.fill(block, starts)
        self._count(block)
        return self._native(block)

    def _block(self, memory: Array, starts: Starts, shape: Starts) -> Block:
        """Read a block into memory that is large enough."""
        array = self._source.fill_within(memory, starts, shape)
        self._count(array)
        return Block(self._native(array), memory)

    def _native(self, block: Array) -> Array:
        """Return what was read with the bytes of each element in this machine's order."""
        return block if block.dtype == self.dtype else block.byteswap(inplace=True).view(self.dtype)

    def _count(self, block: Array) -> None:
        for known in self.meters.valuerefs():  # A list: other threads begin and end calls.
            meter = known()
            if meter is not None:
                meter.count(block.nbytes)


def _blocks(index: Any, shape: Starts) -> tuple[list[tuple[int, int]], Starts]:
    """Return start and size along each axis, and the axes that integers take away."""
    items = list(index) if isinstance(index, tuple) else [index]
    places = [i for i, item in enumerate(items) if item is Ellipsis]
    for place in places[:1]:
        items[place : place + 1] = [slice(None)] * (len(shape) - len(items) + 1)
    items += [slice(None)] * (len(shape) - len(items))
    if len(items) > len(shape):
        raise ArrayIndexError(
            f"{len(items)} indices for {len(shape)} axes", mend="give one for each axis, or fewer"
        )
    parts = [_part(item, size) for item, size in zip(items, shape, strict=True)]
    dropped = tuple(i for i, item in enumerate(items) if not isinstance(item, slice))
    return parts, dropped


def _part(item: Any, size: int) -> tuple[int, int]:
    """Return where an index begins, and how many elements it takes."""
    if isinstance(item, slice):
        start, stop, step = item.indices(size)
        if step == 1:
            return start, max(0, stop - start)
    elif isinstance(item, int | np.integer) and not isinstance(item, bool):
        if not -size <= item < size:
            raise ArrayIndexError(
                f"index {item} of an axis of {size} elements", mend="give a smaller index"
            )
        return int(item) % size, 1
    raise ArrayIndexError(
        f"{item!r} is no index of an array in storage",
        mend="give integers and slices with step 1, and take what you want out of that",
    )


__all__ = ["StoredArray"]
