"""What tracer changes in the whole process when it is asked to, and only then.

This is the one switch of `allocator` (glibc's heap), `library_threads` (BLAS) and
`tracer.compilation.collection` (Python's garbage collector). While it is off, importing, compiling
and calling leave all three alone.
"""

from __future__ import annotations

import os
import threading
from types import TracebackType

from tracer.errors import ArgumentError, DeviceError
from tracer.lowering.cpu import allocator, c_heap

_VARIABLE = "TRACER_TUNE_HOST_ALLOCATOR"
_ANSWERS = {"": False, "0": False, "1": True}
_LOCK = threading.Lock()


class TunedHostAllocator:
    """The tuning of this process: there is one, as there is one heap.

    Returned by `tune_host_allocator`; the end of a ``with`` statement undoes it, too.

    Attributes
    ----------
    is_on : bool
        Whether it is in force.
    """

    def __init__(self) -> None:
        self.is_on = False
        self._is_told_of_forks = False

    def undo(self) -> None:
        """Set glibc's defaults again, end the thread, and give freed memory back to the system.

        Later calls change nothing, and a second undo does nothing. The docstring of
        `tune_host_allocator` says what glibc does not take back.
        """
        with _LOCK:
            if self.is_on:
                self.is_on = False
                allocator.end()

    def __enter__(self) -> TunedHostAllocator:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.undo()

    def __repr__(self) -> str:
        return f"<tuned host allocator, {'on' if self.is_on else 'off'}>"

    def _begin(self) -> None:
        with _LOCK:
            if self.is_on:
                return
            if not self._is_told_of_forks:
                os.register_at_fork(after_in_child=self._forked)
                self._is_told_of_forks = True
            allocator.begin()
            self.is_on = True

    def _forked(self) -> None:
        if self.is_on:
            allocator.begin_anew()


_TUNED = TunedHostAllocator()


def is_tuned() -> bool:
    """Tell whether the process is tuned now; each call of a program checks."""
    return _TUNED.is_on


def tune_host_allocator() -> TunedHostAllocator:
    """Make this process keep resident memory close to the plan, and reuse freed memory.

    For programs on CPUs, with glibc. Planned bytes and XLA's count keep a `memory_limit` with and
    without this. The difference is what the C library keeps of freed memory; docs/memory-model.md
    has figures. The settings below belong to the whole process, other libraries included, so they
    are off unless asked for: here, or with ``TRACER_TUNE_HOST_ALLOCATOR=1`` in the environment when
    tracer is imported. Ask before the first array is made: XLA's threads keep heaps that they
    already have.

    What it sets:

    * ``M_ARENA_MAX`` = 1: all threads share one heap.
    * ``M_MMAP_THRESHOLD`` and ``M_TRIM_THRESHOLD``: 1 MiB and 128 KiB until a compiled program is
      called, then 32 MiB and 64 MiB. Freed blocks then stay for the next call, as far as that
      call's limit has room for them; otherwise they are given back before it (``malloc_trim``). To
      find out which stay, blocks are allocated and freed before a call.
    * ``M_MMAP_MAX`` = 0 while a program with blocks above 32 MiB runs, and a thread, "tracer-heap",
      that gives freed memory back when no such program has run for a second.
    * One thread for BLAS while a program runs whose calls of LAPACK are short.
    * ``gc.set_threshold(1_000_000)`` while a program is planned.

    What it buys: resident memory within the limit, also after many calls and beside other programs;
    calls that wait for no new pages; short calls of LAPACK that waiting threads do not slow down;
    quicker planning of large programs.

    With jaxlib 0.11 and 0.12 resident memory needs one thing more. YNNPACK packs into aligned
    blocks there, glibc keeps what it cuts off of them in a cache of each thread, and the next block
    does not fit where the last one was. Only the environment can switch these caches off, before
    Python starts: ``GLIBC_TUNABLES=glibc.malloc.tcache_count=0``. Planned bytes and XLA's count
    keep the limit on these versions without it.

    Returns
    -------
    TunedHostAllocator
        A context manager, with `undo()`. Asking twice is asking once, and returns the same.

    Raises
    ------
    DeviceError
        The C library is not glibc (musl, macOS): nothing was set.

    Notes
    -----
    Undoing sets glibc's defaults (128 KiB, 128 KiB, 65536 mapped blocks, heaps by the number of
    cores), gives freed memory back and ends the thread. Three things stay. glibc no longer adapts
    its thresholds by itself once somebody has set one. If a thread asked for a heap meanwhile, the
    number of heaps stays one. A hook of `os.register_at_fork` stays, which then does nothing.

    Examples
    --------
    >>> import tracer
    >>> with tracer.tune_host_allocator() as tuned:
    ...     tuned.is_on
    True
    >>> tuned.is_on
    False
    """
    if not c_heap.IS_GLIBC:
        raise DeviceError(
            "tune_host_allocator sets what glibc's heap keeps, and the C library here is not glibc",
            mend=f"leave the call out, and {_VARIABLE} out of the environment: limits of planned "
            "bytes hold without it",
        )
    _TUNED._begin()
    return _TUNED


def tune_if_asked() -> None:
    """Tune the process if the environment says so.

    Raises
    ------
    ArgumentError
        The variable has a value that is neither yes nor no.
    """
    text = os.environ.get(_VARIABLE, "")
    if text not in _ANSWERS:
        raise ArgumentError(
            f"{_VARIABLE} is {text!r} in the environment",
            mend=f"set {_VARIABLE}=1 to ask for tracer.tune_host_allocator(), or leave it out",
        )
    if _ANSWERS[text]:
        tune_host_allocator()
