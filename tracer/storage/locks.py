"""Locks between processes: a file that one has, until it lets go or ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tracer.errors import StorageError


def held(path: Path, busy: str) -> int:
    """Return an open lock, whose file is made; closing it lets go.

    Raises
    ------
    StorageError
        Another has it (`busy` says what that means), or the file cannot be made.
    """
    try:
        lock = os.open(path, os.O_CREAT | os.O_RDWR, 0o666)
    except OSError as error:
        raise StorageError(
            f"cannot write {path}: {error.strerror}", mend="make its folder, or choose another path"
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise StorageError(busy, mend="wait for its end, or choose another path") from error
    return lock


@contextmanager
def locked(path: Path, busy: str) -> Iterator[None]:
    """Have a lock inside; see `held`."""
    lock = held(path, busy)
    try:
        yield
    finally:
        os.close(lock)


__all__ = ["held", "locked"]
