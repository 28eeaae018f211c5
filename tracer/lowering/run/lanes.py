"""A program in several parts that run in parallel, each on a thread of its own."""

from __future__ import annotations

import os
import threading
from _thread import start_new_thread
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from queue import SimpleQueue
from typing import Any

from tracer.ir import Graph
from tracer.lowering.cpu.host_allocator import is_tuned
from tracer.lowering.devices.device import Device
from tracer.lowering.memory.copies import ArrayCopy
from tracer.lowering.memory.stats import MemoryStats
from tracer.lowering.run.compiler import compile_graph
from tracer.lowering.run.executable import Executable
from tracer.lowering.shims import Buffer
from tracer.target import usable_cores


class LanesExecutable(Executable):
    """Programs that take the same inputs, and one that makes the outputs of all their outputs.

    A program runs on the thread that calls it, so that programs which threads call run side by
    side; within one program XLA lets parts wait for each other's temporaries.

    Parameters
    ----------
    lanes : sequence of Executable
        The parts that run in parallel.
    join : Executable
        Takes the outputs of the lanes, one after the other.
    """

    def __init__(self, lanes: Sequence[Executable], join: Executable) -> None:
        self.lanes = tuple(lanes)
        self.join = join
        self.raw = join.raw
        self.notes = tuple(note for part in (*lanes, join) for note in part.notes)
        self.device = join.device
        self.placement = None
        self._room = None
        self.donate = ()
        self._taken_over = frozenset()
        self.input_types = lanes[0].input_types
        self.output_types = join.output_types

    def __call__(self, *buffers: Buffer) -> list[Buffer]:
        """Run all lanes and put their outputs together; see `Executable`."""
        if self._room is None or not is_tuned():
            return self._run(buffers)
        with self._heap():
            return self._run(buffers)

    def _run(self, buffers: Sequence[Buffer]) -> list[Buffer]:
        first, *others = self.lanes
        started = [_Started(lane, buffers) for lane in others]
        _threads(os.getpid()).run(started)
        try:
            found = first(*buffers)
        finally:
            # Also where one fails: nothing runs on when the error is raised.
            for lane in started:
                lane.wait()
        for lane in started:
            found = [*found, *lane.results()]
        return self.join(*found)

    @cached_property
    def memory(self) -> MemoryStats:
        """What all lanes need at a time, with the outputs."""
        lanes, join = [lane.memory for lane in self.lanes], self.join.memory
        arguments = lanes[0].argument_bytes
        between = sum(lane.peak_bytes - lane.argument_bytes for lane in lanes)
        return MemoryStats(
            argument_bytes=arguments,
            output_bytes=join.output_bytes,
            alias_bytes=0,
            temporary_bytes=sum(lane.temporary_bytes + lane.output_bytes for lane in lanes)
            + join.temporary_bytes,
            scratch_bytes=sum(lane.scratch_bytes for lane in lanes),
            product_bytes=max(lane.product_bytes for lane in lanes),
            peak_bytes=arguments + between + join.peak_bytes - join.argument_bytes,
        )

    @cached_property
    def aliases(self) -> Mapping[int, int]:
        """The result in the memory of an input: there is none."""
        return {}

    @cached_property
    def copies(self) -> Sequence[ArrayCopy]:
        """The arrays that the program copies: not known by the names of the whole program."""
        return []

    def hlo(self) -> str:
        """Return the optimised HLO of each lane, and of what puts their outputs together."""
        return "\n".join(part.hlo() for part in (*self.lanes, self.join))


class _Started:
    """A call of a lane on another thread.

    An interrupt may keep the locks of Python's own code, such as a Future's, and a thread that asks
    for one waits forever. This one is of C, as is all that `_Threads` has.
    """

    def __init__(self, lane: Executable, buffers: Sequence[Buffer]) -> None:
        self._lane, self._buffers = lane, buffers
        self._found: list[Buffer] = []
        self._raised: BaseException | None = None
        self._running = threading.Lock()
        self._running.acquire()

    def run(self) -> None:
        """Call the lane, and keep what it returns or raises."""
        try:
            self._found = self._lane(*self._buffers)
        except BaseException as error:  # raised again where the results are needed
            self._raised = error
        finally:
            self._running.release()

    def wait(self) -> None:
        """Wait for the end of the call."""
        with self._running:
            pass

    def results(self) -> list[Buffer]:
        """Return what the call returned, or raise what it raised."""
        if self._raised is not None:
            raise self._raised
        return self._found


class _Threads:
    """Threads that wait for calls of lanes, one for each core, and end with the process."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[_Started] = SimpleQueue()
        self._missing = usable_cores()

    def run(self, calls: Sequence[_Started]) -> None:
        """Have calls run, as soon as threads are free."""
        while self._missing > 0:
            start_new_thread(self._serve, ())
            self._missing -= 1
        for call in calls:
            self._calls.put(call)

    def _serve(self) -> None:
        while True:
            self._calls.get().run()


@cache
def _threads(_: int) -> _Threads:
    """Return the threads of a process: a child that was forked has none of its parent's."""
    return _Threads()


def compile_lanes(
    lanes: Sequence[Graph],
    join: Graph,
    *,
    device: Device | str | None = None,
    options: Mapping[str, Any] | None = None,
) -> LanesExecutable:
    """Compile programs that run side by side.

    Parameters
    ----------
    lanes : sequence of Graph
        Each takes all inputs.
    join : Graph
        Makes the outputs from the lanes' results, one after the other.
    device, options
        As for `compile_graph`.
    """
    compiled = [compile_graph(graph, device=device, options=options) for graph in lanes]
    return LanesExecutable(compiled, compile_graph(join, device=device, options=options))


__all__ = ["LanesExecutable", "compile_lanes"]
