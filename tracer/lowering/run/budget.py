"""A number of bytes that all programs of a process share on its CPUs."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, TypeAlias, TypeVar

from tracer.errors import MemoryBudgetError
from tracer.lowering.devices.registry import find_device
from tracer.units import format_bytes, parse_bytes

R = TypeVar("R")
_Ticket: TypeAlias = Any
"""A lock, which is taken while its owner waits."""
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

    An interrupt may come at any call of a Python function, also of one that cleans up: what waits
    and what runs are tickets in dicts, which a single call of C takes out of them.
    """

    def __init__(self, nbytes: int, timeout: float | None) -> None:
        self.nbytes, self.timeout = nbytes, timeout
        self._running: dict[_Ticket, int] = {}
        self._held = _array_bytes()
        self._waiting: dict[_Ticket, None] = {}
        self._lock = threading.RLock()

    def run(self, program: _Program, start: Callable[[], R]) -> R:
        """Start a program when there is room for it.

        Raises
        ------
        MemoryBudgetError
            There is none: at once where nothing runs that could leave some, or after the timeout.
        """
        ticket = threading.Lock()
        try:
            self._admit(ticket, program.needed_bytes)
            results = start()
            self._hold(program.result_bytes)
            return results
        finally:
            self._running.pop(ticket, None)
            self._wake()

    def admit_array(self, nbytes: int) -> None:
        """Count an array that the host's data will be copied to, when there is room for it.

        Raises
        ------
        MemoryBudgetError
            There is none.
        """
        ticket = threading.Lock()
        try:
            self._admit(ticket, nbytes)
            self._hold(nbytes)
        finally:
            self._running.pop(ticket, None)

    def _hold(self, nbytes: int) -> None:
        with self._lock:
            self._held += nbytes

    def _admit(self, ticket: _Ticket, nbytes: int) -> None:
        until = None if self.timeout is None else time.monotonic() + self.timeout
        try:
            ticket.acquire()
            self._waiting[ticket] = None
            while not self._is_admitted(ticket, nbytes, until):
                ticket.acquire(timeout=_LOOK_AGAIN_SECONDS)
        finally:
            self._waiting.pop(ticket, None)
            self._wake()

    def _is_admitted(self, ticket: _Ticket, nbytes: int, until: float | None) -> bool:
        """Let a call in if it is the first and there is room; refuse it if it waits for nothing."""
        with self._lock:
            is_first = list(self._waiting)[0] is ticket  # noqa: RUF015 - other threads change it
            if is_first and not self._has_room(nbytes) and not self._running:
                gc.collect()  # Arrays in cycles are nobody's.
                if not self._has_room(nbytes):
                    raise self._refusal(nbytes, "and nothing runs that could leave some")
            if is_first and self._has_room(nbytes):
                self._running[ticket] = nbytes
                return True
            if until is not None and time.monotonic() >= until:
                raise self._refusal(nbytes, f"and none was left in {self.timeout:g} s")
            return False

    def _wake(self) -> None:
        """Let those that wait look again."""
        for ticket in list(self._waiting):
            with suppress(RuntimeError):  # It looks already.
                ticket.release()

    @property
    def _running_bytes(self) -> int:
        return sum(list(self._running.values()))

    def _has_room(self, nbytes: int) -> bool:
        if self._held + self._running_bytes + nbytes <= self.nbytes:
            return True
        self._held = _array_bytes()
        return self._held + self._running_bytes + nbytes <= self.nbytes

    def _refusal(self, nbytes: int, why: str) -> MemoryBudgetError:
        return MemoryBudgetError(
            f"the memory budget of {format_bytes(self.nbytes)} has no room for "
            f"{format_bytes(nbytes)} beside {format_bytes(self._held)} of arrays and "
            f"{format_bytes(self._running_bytes)} of running calls, {why}",
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
