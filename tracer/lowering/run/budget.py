"""A number of bytes that all programs of a process share on its CPUs."""

from __future__ import annotations

import gc
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from tracer.errors import MemoryBudgetError
from tracer.lowering.devices.registry import find_device
from tracer.units import format_bytes, parse_bytes

_LOOK_AGAIN_SECONDS = 0.05
"""Arrays that other threads drop wake nobody."""


class _Program(Protocol):
    @property
    def needed_bytes(self) -> int:
        """Beside its arguments, on all devices of this process."""
        ...

    @property
    def result_bytes(self) -> int:
        """Of its results, on all devices of this process."""
        ...


class Budget:
    """What is admitted, in the order in which it asked.

    Arrays count with the bytes of their buffers, each buffer once. They are counted when there is
    doubt; until then every result and every copy of the host's data is taken to live on.
    """

    def __init__(self, nbytes: int, timeout: float | None) -> None:
        self.nbytes, self.timeout = nbytes, timeout
        self._running = 0
        self._held = _array_bytes()
        self._waiting: deque[object] = deque()
        self._changed = threading.Condition()

    @contextmanager
    def admitted(self, program: _Program) -> Iterator[None]:
        """Run a program inside, when there is room for it.

        Raises
        ------
        MemoryBudgetError
            There is none: at once where nothing runs that could leave some, or after the timeout.
        """
        nbytes = program.needed_bytes
        self._admit(nbytes)
        try:
            yield
        finally:
            with self._changed:
                self._running -= nbytes
                self._held += program.result_bytes
                self._changed.notify_all()

    def admit_array(self, nbytes: int) -> None:
        """Count an array that the host's data will be copied to, when there is room for it.

        Raises
        ------
        MemoryBudgetError
            There is none.
        """
        self._admit(nbytes)
        with self._changed:
            self._running -= nbytes
            self._held += nbytes

    def _admit(self, nbytes: int) -> None:
        ticket, until = object(), None if self.timeout is None else time.monotonic() + self.timeout
        with self._changed:
            self._waiting.append(ticket)
            try:
                while self._waiting[0] is not ticket or not self._has_room(nbytes):
                    self._wait(nbytes, until, is_first=self._waiting[0] is ticket)
                self._running += nbytes
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()

    def _has_room(self, nbytes: int) -> bool:
        if self._held + self._running + nbytes <= self.nbytes:
            return True
        self._held = _array_bytes()
        return self._held + self._running + nbytes <= self.nbytes

    def _wait(self, nbytes: int, until: float | None, *, is_first: bool) -> None:
        if is_first and not self._running:
            gc.collect()  # Arrays in cycles are nobody's.
            if self._has_room(nbytes):
                return
            raise self._refusal(nbytes, "and nothing runs that could leave some")
        if until is not None and time.monotonic() >= until:
            raise self._refusal(nbytes, f"and none was left in {self.timeout:g} s")
        self._changed.wait(_LOOK_AGAIN_SECONDS)

    def _refusal(self, nbytes: int, why: str) -> MemoryBudgetError:
        return MemoryBudgetError(
            f"the memory budget of {format_bytes(self.nbytes)} has no room for "
            f"{format_bytes(nbytes)} beside {format_bytes(self._held)} of arrays and "
            f"{format_bytes(self._running)} of running calls, {why}",
            mend="drop arrays that are not needed, compile with a smaller memory_limit, or state a "
            "larger budget",
            budget_bytes=self.nbytes,
            needed_bytes=nbytes,
            array_bytes=self._held,
        )


def _array_bytes() -> int:
    """Return the bytes of all buffers on CPUs that arrays have."""
    found: dict[int, int] = {}
    for array in find_device("cpu").client.live_arrays():
        for part in array._arrays:
            if not part.is_deleted():
                found[part.unsafe_buffer_pointer()] = part.on_device_size_in_bytes()
    return sum(found.values())


class _Asked:
    budget: Budget | None = None


ASKED = _Asked()
"""What the user has asked for."""


def memory_budget(limit: Any, *, timeout: float | None = None) -> None:
    """Let the programs of all threads share a number of bytes.

    A compiled function needs what its plan says (`plan.compiled_bytes`, without arguments that are
    arrays already), and every array that lives counts, eager ones too. A call that does not fit
    waits, in the order of the calls, until others have ended. It is refused before it runs where
    nothing else runs that could leave room. For programs on CPUs; a limit of its own each program
    has as well (`tracer.compile(memory_limit=)`).

    Parameters
    ----------
    limit : int, str or None
        Bytes, such as 8_000_000_000 or "8GB"; None for no budget.
    timeout : float, optional
        For how many seconds a call waits; without end by default.

    Raises
    ------
    ArgumentError
        The limit is no number of bytes.

    Examples
    --------
    >>> import tracer, tracer.numpy as tnp
    >>> tracer.memory_budget("1GB", timeout=60)
    >>> float(tnp.ones(1000).sum())
    1000.0
    >>> tracer.memory_budget(None)
    """
    ASKED.budget = None if limit is None else Budget(parse_bytes(limit), timeout)


__all__ = ["ASKED", "Budget", "memory_budget"]
