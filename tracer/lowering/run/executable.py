"""A compiled program: the hot path from buffers to buffers."""

from __future__ import annotations

import copy
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, partial
from typing import Any, Protocol

from tracer.errors import DonatedArrayError, TracerError, user_source
from tracer.ir import ShapeDtype
from tracer.lowering import shims
from tracer.lowering.cpu import host_allocator
from tracer.lowering.cpu.allocator import LARGE_BYTES, NEW_PAGES_BYTES, Needs, heap_for
from tracer.lowering.cpu.library_threads import one_thread, wants_one_thread
from tracer.lowering.devices.agreement import meet
from tracer.lowering.devices.device import Device
from tracer.lowering.devices.forks import FORKS, absent_threads
from tracer.lowering.devices.placement import Placement
from tracer.lowering.emit.context import HostCall
from tracer.lowering.memory.copies import ArrayCopy, aliases_of, copies_of
from tracer.lowering.memory.stats import Counts, MemoryStats, measure
from tracer.lowering.run.budget import ASKED
from tracer.lowering.run.failures import absent, execution_failure, given_twice
from tracer.lowering.run.host_calls import Finished, raised_by_host
from tracer.lowering.run.large_arrays import memory_for
from tracer.lowering.run.sharded import xla_sharding
from tracer.lowering.run.transfer import delete_given, without_exported
from tracer.lowering.shims import Buffer

# jaxlib keeps Python objects that a call lets go of, some 250 bytes, until it next copies an array
# to a device or is told to drop them. 300,000 calls in a row took 77 MB.
_CALLS_BETWEEN = 256
# Measured as resident memory with jaxlib 0.10.2: 0.26 MB for a program of one kernel, 3.5 MB for
# one of twenty products, whose module has 139 kB.
_EMPTY_PROGRAM = 200_000
_HELD_PER_BYTE = 25


class _Typed(Protocol):
    """A graph, or what is known of one."""

    @property
    def input_types(self) -> tuple[ShapeDtype, ...]: ...
    @property
    def output_types(self) -> tuple[ShapeDtype, ...]: ...


class Executable:
    """A graph compiled for one device.

    Made by `compile_graph`. Calling it is the hot path: it takes about four microseconds, returns
    before the program has run, and does not check shapes and dtypes (XLA compares sizes in bytes
    only), so callers do.

    Attributes
    ----------
    device : Device
        Where it runs.
    donate : tuple of int
        Inputs whose buffers are given away at each call.
    placement : Placement or None
        How inputs and outputs are spread over a mesh of devices; then `device` is its first one.
    purpose : str
        What processes say to each other before they run it together.
    notes : tuple of str
        What the plan has to say of how it was compiled.
    counts : Counts
        XLA's count of its bytes.
    host_calls : tuple of HostCall
        The Python functions that it calls: with any, a call returns when the program has ended.
    asked_aliases : mapping of int to int
        The results that XLA was asked to write over donated inputs; `aliases` is what it did.
    large : tuple of int
        The results whose memory is made before a call, in large pages.
    """

    def __init__(
        self,
        raw: Any,
        graph: _Typed,
        device: Device,
        donate: Sequence[int],
        aliases: Mapping[int, int],
        placement: Placement | None = None,
        purpose: str = "",
        notes: tuple[str, ...] = (),
        counts: Counts | None = None,
        *,
        host_calls: Sequence[HostCall] = (),
        large: Sequence[int] = (),
    ) -> None:
        self.raw = raw
        self.host_calls = tuple(host_calls)
        self.notes = notes
        self.counts = counts or Counts.of(raw.get_compiled_memory_stats())
        self.device = device
        self.placement = placement
        self._room: float | None = None
        self.donate = tuple(donate)
        self._unguarded = tuple(
            position for position in donate if placement is not None or position not in aliases
        )
        """Donated inputs of which XLA does not see that they are given twice.

        It does not know of those that no result takes over, and several devices end the process.
        """
        self.asked_aliases = dict(aliases)
        self._taken_over = frozenset(aliases.values())
        """Outputs that are written over donated inputs."""
        self.input_types = graph.input_types
        self.output_types = graph.output_types
        self.large = tuple(large)
        self._large_types = [graph.output_types[position] for position in large]
        self._execute = self._way_to_run(purpose)
        self._calls = 0
        shardings: list[Any] = [device.sharding] * len(graph.output_types)
        if placement is not None:
            shardings = [
                xla_sharding(sharding, type.ndim)
                for sharding, type in zip(placement.outputs, graph.output_types, strict=True)
            ]
        self._handlers = [
            shims.result_handler(type.shape, type.dtype, sharding)
            for type, sharding in zip(graph.output_types, shardings, strict=True)
        ]

    def __call__(self, *buffers: Buffer) -> list[Buffer]:
        """Run the program.

        Parameters
        ----------
        *buffers : Buffer
            One for each input, of its type and on the device.

        Returns
        -------
        list of Buffer
            One for each output. They may not be computed yet.

        Raises
        ------
        DonatedArrayError
            A buffer was donated before, or is donated and passed twice.
        DTypeError
            An argument is no buffer.
        ExecutionError
            XLA failed, for one because the device is out of memory.
        BaseException
            What a Python function raised that the program calls.
        DeviceError
            The process was forked after XLA had started.
        """
        if FORKS.is_child:
            raise absent_threads()
        given = self._given_away(buffers) if self.donate else buffers
        try:
            if ASKED.budget is not None or host_allocator.is_tuned():
                results = self._prepared(given)
            elif self._large_types:
                results = self._run(given)
            else:  # As `_run`, without a call of Python's: most calls are this one.
                results = self._execute(given).consume_with_handlers(self._handlers)
        except TracerError:
            raise
        except (RuntimeError, TypeError) as error:
            raised = raised_by_host(error) if self.host_calls else None
            if raised is None:
                raise self._with_donated(execution_failure(error, given), given) from error
            if isinstance(raised, TracerError) and raised.where is None:
                raised.where = user_source()  # XLA's threads, on which it was raised, know of none.
            raise self._with_donated(raised, given) from None
        if self.donate:
            # Also where no result took it over: the promise is that it is gone in any case, so that
            # a program does not work by luck.
            delete_given(given, self.donate)
        self._calls += 1
        if not self._calls % _CALLS_BETWEEN:
            shims.collect_garbage()
        return results

    def _given_away(self, buffers: Sequence[Buffer]) -> Sequence[Buffer]:
        """Return the buffers of a call that takes some of them; see `without_exported`."""
        if self._unguarded:
            self._check_twice(buffers)
        return without_exported(buffers, self.donate, self.device)

    def _with_donated(self, error: BaseException, given: Sequence[Buffer]) -> BaseException:
        """Say in an error of a call which arguments it took."""
        gone = [
            position
            for position in self.donate
            # What an earlier call took leaves no buffer.
            if isinstance(given[position], Buffer) and given[position].is_deleted()
        ]
        if gone and not isinstance(error, DonatedArrayError):
            error.add_note(
                f"The call took what was donated to it, argument {', '.join(map(str, gone))}: pass "
                "new arrays to call again. All other arrays are as they were."
            )
        return error

    def _check_twice(self, buffers: Sequence[Buffer]) -> None:
        """Refuse a donated buffer that is passed twice; XLA refuses the others."""
        for position in self._unguarded:
            if sum(buffer is buffers[position] for buffer in buffers) > 1:
                raise given_twice(position)

    @property
    def is_here(self) -> bool:
        """Whether this process can run it, or a part of it."""
        placement = self.placement
        return self.device.is_local if placement is None else bool(placement.mesh.local)

    def _way_to_run(self, purpose: str) -> Callable[[Sequence[Buffer]], Any]:
        """Return the function that starts a run; one that raises if the program cannot run."""
        is_cpu, placement = self.device.platform == "cpu", self.placement
        if not self.is_here:
            return self._refuse
        start = self.raw.execute_sharded
        if self.host_calls:
            stops = tuple({call.stop for call in self.host_calls if call.stop is not None})
            start = partial(Finished, self.raw, stops, _AS_IT_IS if placement is None else _ONE_RUN)
        elif placement is not None and is_cpu:
            start = self._one_at_a_time
        if placement is None:
            return start  # type: ignore[no-any-return]
        members = placement.mesh.processes
        return partial(_run_together, start, purpose, members) if len(members) > 1 else start

    def _one_at_a_time(self, buffers: Sequence[Buffer]) -> Any:
        """Run on several CPU devices, to the end.

        Their parts wait for one another on the threads of one pool: the parts of two runs at a
        time wait forever.
        """
        return _Waiting(self.raw, buffers)

    def _refuse(self, _: Sequence[Buffer]) -> Any:
        raise absent(self.device if self.placement is None else self.placement.mesh)

    def _run(self, given: Sequence[Buffer]) -> list[Buffer]:
        if self._large_types:
            given = [*given, *memory_for(self._large_types, self.device)]
        return self._execute(given).consume_with_handlers(self._handlers)  # type: ignore[no-any-return]

    def _prepared(self, given: Sequence[Buffer]) -> list[Buffer]:
        """Run when the budget has room; with the heap and LAPACK's threads that suit it."""
        budget = ASKED.budget if self.device.platform == "cpu" else None
        start = partial(self._tuned if host_allocator.is_tuned() else self._run, given)
        return start() if budget is None else budget.run(self, start)

    def _tuned(self, given: Sequence[Buffer]) -> list[Buffer]:
        with self._heap(), one_thread() if self._wants_one_thread else _AS_IT_IS:
            return self._run(given)

    @property
    def _devices(self) -> int:
        return 1 if self.placement is None else len(self.placement.mesh.local)

    @cached_property
    def needed_bytes(self) -> int:
        """What a call takes beside its arguments, on all devices of this process."""
        memory = self.memory
        return self._devices * max(0, memory.peak_bytes - memory.argument_bytes)

    @cached_property
    def result_bytes(self) -> int:
        """Bytes of the results that take no argument's place, on all devices of this process."""
        return self._devices * max(0, self.memory.output_bytes - self.memory.alias_bytes)

    def _heap(self) -> AbstractContextManager[None]:
        """Return the function that prepares the heap for a call, if there is something to do."""
        return _AS_IT_IS if self._needs is None else heap_for(self._needs, self._room)

    @cached_property
    def _wants_one_thread(self) -> bool:
        """Whether threads of LAPACK would be in the way of XLA's; read at the first tuned call."""
        is_alone = self.device.platform == "cpu" and self.placement is None
        return is_alone and wants_one_thread(self.hlo())

    @cached_property
    def _needs(self) -> Needs | None:
        """What a call allocates; None where all blocks are too small to be new pages each time."""
        memory = self.memory
        results = [
            type.nbytes
            for position, type in enumerate(self.output_types)
            if position not in self._taken_over
        ]
        blocks = (memory.temporary_bytes, *results, memory.scratch_bytes)
        largest = max([*results, memory.temporary_bytes]) + memory.product_bytes
        if self.device.platform != "cpu" or largest < NEW_PAGES_BYTES:
            return None
        return Needs(
            sum(results) + memory.temporary_bytes + memory.scratch_bytes,
            tuple(nbytes for nbytes in blocks if nbytes >= LARGE_BYTES),
            memory.product_bytes,
            memory.peak_bytes,
        )

    def with_limit(self, limit: int | None) -> Executable:
        """Return the same program, whose freed blocks may stay in memory as a limit allows.

        Parameters
        ----------
        limit : int or None
            What the process may hold for this program; None for no limit.
        """
        made = copy.copy(self)
        made._room = math.inf if limit is None else limit - self.memory.peak_bytes
        return made

    @property
    def held_bytes(self) -> int:
        """About what the program itself holds of the process' memory, running or not.

        It grows with XLA's optimised program (its constants included), which XLA keeps beside the
        machine code.
        """
        modules = self.raw.hlo_modules()
        texts = (len(module.as_serialized_hlo_module_proto()) for module in modules)
        return _EMPTY_PROGRAM + _HELD_PER_BYTE * sum(texts)

    @cached_property
    def memory(self) -> MemoryStats:
        """What the program needs in bytes, by XLA's count and our model of what XLA hides."""
        return measure(self.raw, self.counts, self.device.platform)

    @cached_property
    def aliases(self) -> Mapping[int, int]:
        """The result in the memory of an input, by XLA's own configuration."""
        found = aliases_of(self.hlo())
        inputs = len(self.input_types)
        return {position: result for position, result in found.items() if position < inputs}

    @cached_property
    def copies(self) -> Sequence[ArrayCopy]:
        """The arrays that the program copies."""
        return copies_of(self.hlo())

    def hlo(self) -> str:
        """Return the optimised HLO as text, in the order of execution."""
        return str(self.raw.hlo_modules()[0].to_string())


_AS_IT_IS = nullcontext()


class _Waiting:
    """A run on several CPU devices, in the form of jaxlib's results."""

    def __init__(self, raw: Any, buffers: Sequence[Buffer]) -> None:
        self._raw, self._buffers = raw, buffers

    def consume_with_handlers(self, handlers: list[Any]) -> list[Buffer]:
        """Run, and wait for all results."""
        with _ONE_RUN:
            results: list[Buffer] = self._raw.execute_sharded(self._buffers).consume_with_handlers(
                handlers
            )
            for result in results:
                result.block_until_ready()
        return results


_ONE_RUN = threading.Lock()


def _run_together(
    start: Callable[[Sequence[Buffer]], Any],
    purpose: str,
    members: tuple[int, ...],
    buffers: Sequence[Buffer],
) -> Any:
    """Start a run when other processes are about to start the same one.

    XLA would otherwise mix up their data, or wait for them forever.
    """
    meet(purpose, members)
    return start(buffers)
