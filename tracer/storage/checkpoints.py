"""`checkpoint="folder"`: what loops carry, kept in files, so that a killed call goes on."""

from __future__ import annotations

import hashlib
import json
import math
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tracer.errors import StorageError
from tracer.ir import HostFunction, as_dtype
from tracer.storage.locks import locked
from tracer.storage.sources import Array

_OVER_SHARE = 0.1
"""A loop that is over is kept after this part of the time between two checkpoints."""
_MOST_SHARE = 0.05
"""Of the time, at most about this part is spent on writing checkpoints."""


class Checkpoints:
    """The checkpoints of a function's calls, each in a folder of its own; one call at a time.

    Parameters
    ----------
    folder : Path
    seconds : float
        The time between two checkpoints of a loop.

    Attributes
    ----------
    restoring, timing, saving : HostFunction
        What loops call when they begin, after each trip, and when they are to be kept.
    """

    def __init__(self, folder: Path, seconds: float) -> None:
        self.folder, self.seconds = folder, seconds
        self.restoring = HostFunction(self._restore, "restore a loop", ())
        self.timing = HostFunction(self._is_due, "time a loop", ())
        self.saving = HostFunction(self._save, "save a loop", ())
        self._lock = threading.Lock()
        self._owner: int | None = None
        self._run: Run | None = None

    @property
    def is_running_here(self) -> bool:
        """Tell whether this thread is inside of `running`."""
        return self._owner == threading.get_ident()

    @contextmanager
    def running(self, key: str) -> Iterator[Run]:
        """Keep what is carried inside, for calls of the same key; after a good end nothing is left.

        Raises
        ------
        StorageError
            Another process is in the same call, or the folder cannot be written.
        """
        place = self.folder / key
        with self._lock:
            try:
                place.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise _unwritten(place, error) from error
            with locked(place / "lock", f"another process is in the same call, kept in {place}"):
                run = self._run = Run(key, place, self.seconds)
                self._owner = threading.get_ident()
                try:
                    yield run
                    run.begin_anew()
                finally:
                    self._run = self._owner = None
                    if not run.has_checkpoint:
                        _remove(place)

    def _running(self) -> Run:
        assert self._run is not None
        return self._run

    def _restore(self, loop: int, inside: tuple[int, ...], carry: Sequence[Array]) -> Any:
        return (*self._running().restore(loop, inside, carry),)

    def _is_due(self, loop: int, is_over: bool) -> tuple[bool]:
        return (self._running().is_due(loop, is_over=is_over),)

    def _save(self, loop: int, inside: tuple[int, ...], carry: Sequence[Array]) -> tuple[()]:
        self._running().save(loop, inside, carry)
        return ()


@dataclass
class Run:
    """One call: how far each loop has come, and the files of what they carried."""

    key: str
    place: Path
    seconds: float
    flushes: list[Callable[[], None]] = field(default_factory=list)
    """Called before something is kept: what was written has to be on the disk."""
    trips: dict[int, int] = field(default_factory=dict)
    _last: dict[int, float] = field(default_factory=dict)
    _spent: float = 0.0
    """What the last checkpoint took."""

    @property
    def has_checkpoint(self) -> bool:
        """Tell whether there is a checkpoint, of this call or of an earlier one that failed."""
        return any(self.place.glob("loop-*"))

    def begin_anew(self) -> None:
        """Forget the checkpoints."""
        for path in self.place.glob("loop-*"):
            path.unlink()

    def restore(
        self, loop: int, inside: tuple[int, ...], carry: Sequence[Array]
    ) -> Sequence[Array]:
        """Return what a loop carried when it was kept last; else what it begins with.

        What was kept in another trip of a loop around it is not for this one.
        """
        self.trips[loop], self._last[loop] = 0, time.monotonic()
        found = self._read(loop, carry)
        if found is None or found[0][:-1] != [self.trips[outer] for outer in inside]:
            return carry
        self.trips[loop] = found[0][-1]
        return found[1]

    def is_due(self, loop: int, *, is_over: bool) -> bool:
        """Count a trip, or the end, of a loop; tell whether it is time to keep what it carries."""
        self.trips[loop] += not is_over
        share = _OVER_SHARE if is_over else 1.0
        wanted = max(share * self.seconds, self._spent / _MOST_SHARE)
        return time.monotonic() - self._last[loop] >= wanted

    def save(self, loop: int, inside: tuple[int, ...], carry: Sequence[Array]) -> None:
        """Keep what a loop carries: written, on the disk, and only then given its name."""
        start = time.monotonic()
        for flush in self.flushes:
            flush()
        path = self.place / f"loop-{loop}"
        partial = self.place / f"partial-{loop}"
        trips = [self.trips[number] for number in (*inside, loop)]
        try:
            with open(partial, "wb") as file:
                _write(file, trips, carry)
                file.flush()
                os.fsync(file.fileno())
            os.rename(partial, path)
        except OSError as error:
            raise _unwritten(path, error) from error
        self._last[loop] = time.monotonic()
        self._spent = self._last[loop] - start

    def _read(self, loop: int, carry: Sequence[Array]) -> tuple[list[int], list[Array]] | None:
        path = self.place / f"loop-{loop}"
        try:
            with open(path, "rb") as file:
                return _read(file, carry)
        except FileNotFoundError:
            return None
        except (StorageError, ValueError, KeyError, TypeError, OSError) as error:
            warnings.warn(f"the checkpoint {path} is damaged, and not used: {error}", stacklevel=2)
            return None


def _remove(place: Path) -> None:
    """Remove a folder of files; `shutil.rmtree` closes what is not its own after an interrupt."""
    with suppress(OSError):
        for path in place.iterdir():
            path.unlink(missing_ok=True)
        place.rmdir()


def _types(carry: Sequence[Array]) -> list[list[Any]]:
    return [[str(as_dtype(item.dtype)), list(item.shape)] for item in carry]


def _write(file: BinaryIO, trips: list[int], carry: Sequence[Array]) -> None:
    """Write a line about the arrays, their elements, and a checksum of both."""
    head = json.dumps({"trips": trips, "types": _types(carry)}).encode() + b"\n"
    checksum = hashlib.blake2b(head, digest_size=16)
    file.write(head)
    for item in carry:
        data = np.ascontiguousarray(item).reshape(-1).view(np.uint8).data
        checksum.update(data)
        file.write(data)
    file.write(checksum.digest())


def _read(file: BinaryIO, carry: Sequence[Array]) -> tuple[list[int], list[Array]]:
    head = file.readline()
    known = json.loads(head)
    if known["types"] != _types(carry):
        raise _damaged(f"it holds {known['types']}, and the loop carries {_types(carry)}")
    checksum = hashlib.blake2b(head, digest_size=16)
    found = []
    for item in carry:
        data = file.read(math.prod(item.shape) * item.dtype.itemsize)
        checksum.update(data)
        found.append(np.frombuffer(data, item.dtype).reshape(item.shape))
    if file.read() != checksum.digest():
        raise _damaged("its checksum is not that of its elements")
    return list(map(int, known["trips"])), found


def _damaged(what: str) -> StorageError:
    return StorageError(what, mend="remove it")


def _unwritten(path: Path, error: OSError) -> StorageError:
    return StorageError(
        f"cannot write the checkpoint {path}: {error.strerror or error}",
        mend="make room, or choose a folder on another disk",
    )


__all__ = ["Checkpoints", "Run"]
