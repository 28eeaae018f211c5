"""Programs that call Python while they run: where they can, and how errors come back."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from tracer.errors import UnsupportedError
from tracer.ir import Graph, Node, Stop
from tracer.lowering.devices.device import Device
from tracer.lowering.devices.hardware import target_of
from tracer.lowering.emit.context import HostCall
from tracer.lowering.shims import Buffer

if TYPE_CHECKING:
    from tracer.lowering.devices.placement import Placement

_ERROR = "tracer host call error"
_NUMBER = re.compile(rf"{_ERROR} (\d+)")
_INTERRUPT = re.compile(r"^KeyboardInterrupt\b", re.MULTILINE)
_ENDING_SECONDS = 10.0
"""How long a call that was interrupted waits for a step of its program to end."""
_MOST_KEPT = 64
"""Errors that nobody asks for: further calls of a run that had failed already."""

_kept: dict[int, BaseException] = {}
_numbers = itertools.count()
_lock = threading.Lock()


class _HostCallError(RuntimeError):
    """What XLA is told of an error in a Python function: where it is kept."""


def for_xla(call: HostCall) -> Callable[..., tuple[Any, ...]]:
    """Return a function for XLA, which makes a text of what a function raises: a number in it.

    It is given the buffers of the operands, then those of the results. NumPy copies to them while
    other threads run, such as one that reads ahead; XLA's copies of returned arrays keep the
    interpreter: a Gram matrix of a file took 1.06 times as long.
    """

    def run(_: Any, *buffers: Any) -> tuple[()]:
        try:
            arrays = [np.asarray(buffer) for buffer in buffers]
            if call.writes:
                return call.run(*arrays)
            given, results = arrays[: call.operands], arrays[call.operands :]
            for result, found in zip(results, call.run(*given), strict=True):
                np.copyto(result, found)
            return ()
        except BaseException as error:  # also KeyboardInterrupt: XLA's threads end no process
            raise _HostCallError(f"{_ERROR} {_keep(_first(error))}.") from None

    return run


def _first(error: BaseException) -> BaseException:
    """Return the interrupt during which an error was raised, such as by a lock of `threading`."""
    found: BaseException | None = error
    while found is not None and not isinstance(found, KeyboardInterrupt):
        found = found.__context__
    return found or error


def _keep(error: BaseException) -> int:
    with _lock:
        while len(_kept) >= _MOST_KEPT:
            del _kept[next(iter(_kept))]
        number = next(_numbers)
        _kept[number] = error
    return number


def raised_by_host(error: Exception) -> BaseException | None:
    """Return what a Python function raised, for the error that XLA made of it; None for others."""
    found = _NUMBER.search(str(error))
    if found is None:  # Before `for_xla` could keep it: an interrupt may come at once.
        return KeyboardInterrupt() if _INTERRUPT.search(str(error)) else None
    with _lock:
        return _kept.pop(int(found[1]), None)


class Finished:
    """A run of a program that calls Python, in the form of jaxlib's results.

    It waits until the program has ended: then all that it prints is printed, and errors are raised
    by the call that they belong to. A program with `stops` ends early where the main thread is
    interrupted. It runs within the context `alone`.
    """

    def __init__(
        self,
        raw: Any,
        stops: Sequence[Stop],
        alone: AbstractContextManager[Any],
        buffers: Sequence[Buffer],
    ) -> None:
        self._raw, self._stops, self._alone, self._buffers = raw, stops, alone, buffers

    def consume_with_handlers(self, handlers: list[Any]) -> list[Buffer]:
        """Run, and wait for all results."""
        if self._stops and threading.current_thread() is threading.main_thread():
            return self._beside(handlers)
        return self._run(handlers)

    def _beside(self, handlers: list[Any]) -> list[Buffer]:
        """Run on another thread: only in Python code is the main thread interrupted."""
        for stop in self._stops:
            stop.is_set = False
        found: list[list[Buffer]] = []
        raised: list[BaseException] = []
        # A Future's lock is Python's code: an interrupt may keep it.
        running, begun = threading.Lock(), threading.Lock()

        def run() -> None:
            if not begun.acquire(blocking=False):
                return
            try:
                found.append(self._run(handlers))
            except BaseException as error:  # raised again in the main thread
                raised.append(error)
            finally:
                running.release()

        running.acquire()
        try:
            threading.Thread(target=run, name="tracer-interruptible", daemon=True).start()
            running.acquire()
        except BaseException as error:  # by a signal: the program ends at its next step
            for stop in self._stops:
                stop.is_set = True
            will_begin = not begun.acquire(blocking=False)
            if will_begin and not found and not raised:
                running.acquire(timeout=_ENDING_SECONDS)
            raise _first(error) from None
        if raised:
            raise raised[0]
        return found[0]

    def _run(self, handlers: list[Any]) -> list[Buffer]:
        with self._alone:
            started = self._raw.execute_sharded(self._buffers, with_tokens=True)
            token = started.consume_token()
            results: list[Buffer] = started.consume_with_handlers(handlers)
            token.block_until_ready()
            for result in results:
                result.block_until_ready()
        return results


def require_host_calls(graph: Graph, device: Device, placement: Placement | None) -> None:
    """Refuse a graph that calls Python for a device that cannot, or functions on several devices.

    Arrays in storage are read and written by each device, the parts that it computes with.

    Raises
    ------
    UnsupportedError
        With the op and the user's line.
    """
    if not graph.calls_host:
        return
    calls = list(_host_calls(graph))
    if target_of(device).kernels.host_calls:
        calls = [] if placement is None else [node for node in calls if "function" in node.params]
    if not calls:
        return
    node, place = calls[0], device if placement is None else placement.mesh
    function = node.params.get("function")
    name = "an argument in storage" if function is None else function.name
    raise UnsupportedError(
        f"{name} calls Python while the program runs, which programs for {place} cannot do",
        mend="compile for one CPU, such as with device='cpu:0', or return the values and look at "
        "them after the call",
        where=node.source,
    )


def _host_calls(graph: Graph) -> Iterator[Node]:
    for node in graph.nodes:
        if node.op is not None and node.op.calls_host:
            yield node
        for body in node.body_graphs:
            yield from _host_calls(body)


__all__ = ["Finished", "for_xla", "raised_by_host", "require_host_calls"]
