"""A program in several parts that run in parallel, each on a thread of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache, cached_property
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
        started: list[Future[list[Buffer]]] = [
            _threads(os.getpid()).submit(lane, *buffers) for lane in others
        ]
        try:
            found = first(*buffers)
        finally:
            # Also where one fails: nothing runs on when the error is raised.
            wait(started)
        for future in started:
            found = [*found, *future.result()]
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


@cache
def _threads(_: int) -> ThreadPoolExecutor:
    """Return the threads of a process: a child that was forked has none of its parent's."""
    return ThreadPoolExecutor(usable_cores(), thread_name_prefix="tracer-lane")


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
