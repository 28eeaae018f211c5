"""Locks between processes: a file that one has, until it lets go or ends."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from tracer.errors import StorageError


def held(path: Path, busy: str) -> IO[bytes]:
    """Return an open lock, whose file is made; closing it lets go, and so does dropping it.

    Raises
    ------
    StorageError
        Another has it (`busy` says what that means), or the file cannot be made.
    """
    try:
        lock = open(path, "ab", buffering=0)
    except KeyboardInterrupt:
        _remove(path)
        raise
    except OSError as error:
        raise StorageError(
            f"cannot write {path}: {error.strerror}", mend="make its folder, or choose another path"
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise StorageError(busy, mend="wait for its end, or choose another path") from error
    except KeyboardInterrupt:
        lock.close()
        _remove(path)
        raise
    return lock


def _remove(path: Path) -> None:
    """Remove a lock's file if nobody has the lock."""
    with suppress(OSError), open(path, "ab", buffering=0) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()


@contextmanager
def locked(path: Path, busy: str) -> Iterator[None]:
    """Have a lock inside; see `held`."""
    with held(path, busy):
        yield


__all__ = ["held", "locked"]
