"""The compiled programs that a process keeps, bounded in bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Generic, Protocol, TypeVar

DEFAULT_BYTES = 512 << 20
"""About two thousand programs of one kernel."""


class _Sized(Protocol):
    @property
    def held_bytes(self) -> int: ...


K = TypeVar("K")
V = TypeVar("V", bound=_Sized)


class ProgramCache(Generic[K, V]):
    """Keeps programs up to a number of bytes; what was asked for longest ago goes first.

    Users of a program keep it alive, whether it is still here or not.

    Parameters
    ----------
    most_bytes : int
        What all programs together may hold. One that alone holds more is not kept.

    Attributes
    ----------
    nbytes : int
        What they hold, by `held_bytes` of each.
    """

    def __init__(self, most_bytes: int = DEFAULT_BYTES) -> None:
        self.most_bytes = most_bytes
        self.nbytes = 0
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: K) -> V | None:
        """Return a program, which is then the last to go; None if it is not here."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
            return found[0]

    def keep(self, key: K, program: V) -> V:
        """Return the program that another thread has kept meanwhile, or keep this one."""
        nbytes = program.held_bytes
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                return found[0]
            self._kept[key] = program, nbytes
            self.nbytes += nbytes
            self._shrink()
        return program

    def bound(self, most_bytes: int) -> None:
        """Set how many bytes the programs may hold, from now on."""
        with self._lock:
            self.most_bytes = most_bytes
            self._shrink()

    def clear(self) -> None:
        """Forget all programs."""
        with self._lock:
            self._kept.clear()
            self.nbytes = 0

    def _shrink(self) -> None:
        while self.nbytes > self.most_bytes:
            _, (_, nbytes) = self._kept.popitem(last=False)
            self.nbytes -= nbytes


__all__ = ["DEFAULT_BYTES", "ProgramCache"]
