"""What is to be compiled: one call, for one device or a mesh, under one limit."""

from __future__ import annotations

from dataclasses import dataclass

from tracer import lowering
from tracer.array.trace import Traced
from tracer.compilation.donation import donated_leaves
from tracer.compilation.options import CompileOptions, limit_of_free
from tracer.compilation.retracing import Mode
from tracer.compilation.signature import Call
from tracer.ir import ShapeDtype
from tracer.optimizer.budget import Budget
from tracer.optimizer.candidates import Way
from tracer.optimizer.model.liveness import node_count

_SECONDS = 10
_COMPILATIONS = 3
"""What a search may spend: so many seconds, and what it takes to compile the program so often."""


@dataclass(frozen=True)
class Choice:
    """What the search chose for a call, and the types of that call's leaves."""

    types: tuple[ShapeDtype, ...]
    mode: Mode
    way: Way

    def is_like(self, other: Choice) -> bool:
        """Tell whether the same was chosen for other types."""
        return (self.mode, self.way) == (other.mode, other.way)

    def is_for_larger(self, types: tuple[ShapeDtype, ...]) -> bool:
        """Tell whether each of these is of the same dtype and rank, and along no axis longer."""
        if len(types) != len(self.types):
            return False
        pairs = [*zip(types, self.types, strict=True)]
        return all(
            mine.dtype == theirs.dtype and mine.ndim == theirs.ndim for mine, theirs in pairs
        ) and all(
            size <= most
            for mine, theirs in pairs
            for size, most in zip(mine.shape, theirs.shape, strict=True)
        )


@dataclass(frozen=True, eq=False)
class Task:
    """A call and what was asked for, read once: all that finds a program for it is given this.

    Attributes
    ----------
    name : str
        The function's.
    call : Call
        Without data.
    donated : tuple of int
        The leaves of the call that are donated.
    device : Device
        What the program is planned for; the first of a mesh.
    limit : int or None
        In bytes, of each device.
    options : CompileOptions
        All else that the user said. Its limit and device are those from which the above are read.
    like : Choice or None
        What was chosen for larger shapes: it is tried before anything else.
    """

    name: str
    call: Call
    donated: tuple[int, ...]
    device: lowering.Device
    limit: int | None
    options: CompileOptions
    like: Choice | None = None

    @property
    def traced(self) -> Traced:
        """The function's graph for the types of the call."""
        return self.call.traced

    def budget(self) -> Budget:
        """Return what one search for a program may spend.

        Unless the user says so, ten seconds and what it takes to compile the program three times.
        """
        seconds = self.options.planning_seconds
        prices = lowering.target_of(self.device).prices
        if seconds is None:
            compiling = prices.compiling_nodes * node_count(self.traced.graph)
            return Budget(_SECONDS * prices.planning_rate + _COMPILATIONS * compiling)
        return Budget(seconds * prices.planning_rate)


def read_task(call: Call, options: CompileOptions, name: str, like: Choice | None = None) -> Task:
    """Return what is to be done for a call.

    Raises
    ------
    ArgumentError
        The call has no argument that is to be donated.
    DeviceError
        There is no such device.
    """
    spread = options.spread
    device = lowering.find_device(options.device) if spread is None else spread.mesh.flat[0]
    # The program's plan keeps the call, to find the smallest limit when it is asked for.
    call = call.without_data()
    donated = donated_leaves(call, options.donation)
    limit = options.limit
    if isinstance(limit, str):
        # Processes of a mesh plan for the device that has least.
        free = (
            lowering.free_bytes(device)
            if spread is None
            else lowering.least_free_bytes(spread.mesh, f"find memory_limit={limit!r} for {name}")
        )
        limit = limit_of_free(limit, free)
    return Task(name, call, donated, device, limit, options, like)
