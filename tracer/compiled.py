"""From one traced call to a program that keeps its byte limit: the closed loop of planning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tracer import lowering, rules, tree
from tracer.errors import ArgumentError, MemoryLimitError
from tracer.ir import Graph, ShapeDtype
from tracer.numpy.array import Array
from tracer.optimizer.liveness import Liveness
from tracer.optimizer.passes import PassRow
from tracer.optimizer.pipeline import Candidate, Planner, PlannerOptions
from tracer.optimizer.plan import Plan, timeline_of
from tracer.optimizer.speed import Machine
from tracer.options import AUTO, CompileOptions
from tracer.retracing import FRUGAL_MODES, PLAIN, Mode, has_loops, modes
from tracer.signature import Call
from tracer.source import Source
from tracer.trace import Traced
from tracer.units import format_bytes


@dataclass(frozen=True, eq=False)
class Program:
    """A compiled program with all that a call of it needs."""

    execute: lowering.Executable
    captured: tuple[Array, ...]
    output_types: tuple[ShapeDtype, ...]
    output_devices: tuple[lowering.Device, ...]
    out_tree: tree.Structure
    is_single: bool
    donated: tuple[int, ...]
    device: lowering.Device
    graph: Graph
    plan: Plan

    def captured_buffers(self) -> Sequence[Any]:
        """Return the buffers of the arrays that the function closed over."""
        return [array._buffer for array in self.captured]

    def unflatten(self, outputs: list[Array]) -> Any:
        """Return the outputs in the structure the function gave them."""
        return tree.unflatten(self.out_tree, outputs)

    def stablehlo(self) -> str:
        """Return the program's StableHLO text."""
        return lowering.stablehlo(self.graph, device=self.device)


def build_program(call: Call, options: CompileOptions, name: str) -> Program:
    """Trace, plan, compile and check one signature.

    Raises
    ------
    MemoryLimitError
        No program for it keeps the limit.
    """
    compilers = _Compilers(call, options, name)
    compiler, candidate, execute = compilers.compile()
    traced, device = compiler.traced, compiler.device
    return Program(
        execute=execute,
        captured=tuple(traced.captured),
        output_types=traced.graph.output_types,
        output_devices=(device,) * len(traced.graph.outputs),
        out_tree=traced.out_tree,
        is_single=tree.is_leaf(traced.out_tree),
        donated=compiler.donated,
        device=device,
        graph=candidate.graph,
        plan=_plan(compilers, compiler, candidate, execute),
    )


class _Compilers:
    """The program as it was traced and, where that does not fit, as other modes trace it."""

    def __init__(self, call: Call, options: CompileOptions, name: str) -> None:
        self.call, self.options, self.name = call, options, name
        self.donated = _donated_leaves(call, options.donate_argnums)
        self.device = lowering.find_device(options.device)
        limit = options.limit
        self.limit = lowering.free_bytes(self.device) if limit == AUTO else limit
        self.plain = self._compiler(call.traced, PLAIN)
        self._found: dict[Mode, _Compiler] = {}

    def compile(self) -> tuple[_Compiler, Candidate, lowering.Executable]:
        """Return the first compiler that keeps the limit, with its program."""
        for compiler in self._tried():
            found = compiler.compile()
            if found is not None:
                return compiler, *found
        return self._smallest, *self._smallest.compile_smallest()

    def minimum_bytes(self) -> int:
        """Return the smallest limit that is known to be met, in bytes."""
        accepted = [c.accepted_bytes for c in (self.plain, *self._found.values())]
        smallest = self._smallest.smallest()[1].memory.peak_bytes
        return min(smallest, *(found for found in accepted if found is not None))

    def mode_row(self, compiler: _Compiler) -> PassRow | None:
        """Return the line of the plan's table that says what a mode changed; None without one."""
        if compiler is self.plain:
            return None
        mode = next(mode for mode, found in self._found.items() if found is compiler)
        return mode.row(self.plain.planner, compiler.planner)

    def _tried(self) -> Iterator[_Compiler]:
        """Yield the compilers, those that compute least first, each made when it is asked for."""
        yield self.plain
        if isinstance(self.limit, int):
            yield from self._in_modes(modes(self.limit - self.plain.planner.fixed_bytes))

    @cached_property
    def _smallest(self) -> _Compiler:
        """The compiler of the program with the smallest predicted peak; no limit plays a part."""
        compilers = [self.plain, *self._in_modes(FRUGAL_MODES)]
        compilers.sort(key=lambda compiler: compiler.planner.floor_bytes)
        best = compilers[0]
        for compiler in compilers[1:]:
            least = best.planner.smallest().peak_bytes
            if compiler.planner.floor_bytes < least > compiler.planner.smallest().peak_bytes:
                best = compiler
        return best

    def _in_modes(self, modes: Iterable[Mode]) -> Iterator[_Compiler]:
        """Yield a compiler for every mode that changes something, each program once."""
        if not has_loops(self.call.traced.graph):
            return
        yielded = {self.plain}
        for mode in modes:
            if mode not in self._found:
                traced = self.call.traced_to_keep_less(
                    mode.large_bytes, in_segments=mode.in_segments
                )
                self._found[mode] = self._known(self._compiler(traced, mode))
            found = self._found[mode]
            if found not in yielded:
                yielded.add(found)
                yield found

    def _known(self, compiler: _Compiler) -> _Compiler:
        """Return the compiler of the same program that there is already, or else this one."""
        mine = compiler.planner.graph.fingerprint
        known = (self.plain, *self._found.values())
        return next((c for c in known if c.planner.graph.fingerprint == mine), compiler)

    def _compiler(self, traced: Traced, mode: Mode) -> _Compiler:
        limit = self.limit
        assert not isinstance(limit, str)
        planner = Planner(
            traced.graph,
            PlannerOptions(
                limit_bytes=limit,
                threshold_bytes=self.options.threshold_bytes,
                split_bytes=self.options.split_bytes,
                machine=Machine(
                    cores=lowering.core_count(), cache_bytes=lowering.cache_bytes(self.device)
                ),
                split=self.options.split,
                match=rules.matching(self.options.disabled_rules),
                donated=frozenset(self.donated),
                sink_bytes=mode.large_bytes,
            ),
        )
        return _Compiler(traced, planner, self.device, self.donated, limit, self.name)


class _Compiler:
    """Tries the planner's candidates until XLA's own count confirms one."""

    def __init__(
        self,
        traced: Traced,
        planner: Planner,
        device: lowering.Device,
        donated: tuple[int, ...],
        limit: int | None,
        name: str,
    ) -> None:
        self.traced = traced
        self.planner = planner
        self.device = device
        self.donated = donated
        self.limit = limit
        self.name = name
        self._smallest: tuple[Candidate, lowering.Executable] | None = None
        self.accepted_bytes: int | None = None

    def compile(self) -> tuple[Candidate, lowering.Executable] | None:
        """Return the first candidate that keeps the limit, compiled; None if there is none."""
        if self.limit is not None and self.planner.floor_bytes > self.limit:
            return None
        for candidate in self.planner.candidates():
            execute = self._compile(candidate)
            if self.limit is None or execute.memory.peak_bytes <= self.limit:
                self.accepted_bytes = execute.memory.peak_bytes
                return candidate, execute
        return None

    def compile_smallest(self) -> tuple[Candidate, lowering.Executable]:
        """Return the smallest program, compiled.

        Raises
        ------
        MemoryLimitError
            It is above the limit.
        """
        candidate, execute = self.smallest()
        assert self.limit is not None
        if execute.memory.peak_bytes > self.limit:
            raise self._infeasible(candidate, execute)
        self.accepted_bytes = execute.memory.peak_bytes
        return candidate, execute

    def smallest(self) -> tuple[Candidate, lowering.Executable]:
        """Return the program with the smallest peak, compiled; the limit plays no part."""
        if self._smallest is None:
            candidate = self.planner.smallest()
            both = (self._compile_with(candidate, True), self._compile_with(candidate, False))
            self._smallest = candidate, min(both, key=lambda execute: execute.memory.peak_bytes)
        return self._smallest

    def _compile(self, candidate: Candidate) -> lowering.Executable:
        """Compile with the schedule that keeps the limit.

        XLA's default CPU schedule runs producers early and may keep them all alive; the
        memory-optimised one is a heuristic that is sometimes worse, so the count decides.
        """
        if self.limit is None:
            return self._compile_with(candidate, False)
        careful = self._compile_with(candidate, True)
        if careful.memory.peak_bytes <= self.limit:
            return careful
        plain = self._compile_with(candidate, False)
        return min(careful, plain, key=lambda execute: execute.memory.peak_bytes)

    def _compile_with(self, candidate: Candidate, careful: bool) -> lowering.Executable:
        options = lowering.memory_optimized_options() if careful else {}
        return lowering.compile_graph(
            candidate.graph, device=self.device, donate=self.donated, options=options
        )

    def _infeasible(self, candidate: Candidate, execute: lowering.Executable) -> MemoryLimitError:
        assert self.limit is not None
        minimum = execute.memory.peak_bytes
        binding, source, why = self._binding(candidate, execute)
        reason = f"\n  not split: {why}" if why else ""
        return MemoryLimitError(
            f"{self.name} cannot run within memory_limit {format_bytes(self.limit)}: its smallest "
            f"program takes {format_bytes(minimum)}\n  binding: {binding}{reason}",
            mend=f"memory_limit={minimum} is the smallest limit that can be met; smaller "
            "arguments, or donate_argnums for those that may be overwritten, lower it",
            limit_bytes=self.limit,
            minimum_bytes=minimum,
            binding=binding,
            where=source,
        )

    def _binding(
        self, candidate: Candidate, execute: lowering.Executable
    ) -> tuple[str, Source | None, str | None]:
        """Return what stands in the way, the user's line, and why it was not split."""
        assert self.limit is not None
        fixed, scratch = self.planner.fixed_bytes, execute.memory.scratch_bytes
        tensors = Liveness(candidate.graph, frozenset(self.donated)).live_at_peak()
        if fixed > self.limit or not tensors:
            types = (*candidate.graph.input_types, *candidate.graph.output_types)
            largest = max(types, key=lambda type: type.nbytes, default="nothing")
            alone = f"the arguments and results alone take {format_bytes(fixed)}"
            return f"{alone}, the largest of them is {largest}", None, None
        tensor = tensors[0]
        named = f"{tensor}, {format_bytes(tensor.nbytes)}"
        if scratch > tensor.nbytes:
            named = (
                f"{format_bytes(scratch)} of library scratch (products, sorts, LAPACK) and {named}"
            )
        return named, tensor.source, self.planner.why_not_split(tensor)


def _plan(
    compilers: _Compilers,
    compiler: _Compiler,
    candidate: Candidate,
    execute: lowering.Executable,
) -> Plan:
    planner = compiler.planner
    mode_row = compilers.mode_row(compiler)
    rows = candidate.rows if mode_row is None else (mode_row, *candidate.rows)
    return Plan(
        limit_bytes=planner.options.limit_bytes,
        peak_bytes=candidate.peak_bytes,
        baseline_peak_bytes=compilers.plain.planner.baseline_peak_bytes,
        compiled_bytes=execute.memory.peak_bytes,
        argument_bytes=sum(type.nbytes for type in candidate.graph.input_types),
        output_bytes=sum(type.nbytes for type in candidate.graph.output_types),
        passes=rows,
        loops=candidate.loops,
        timeline=timeline_of(candidate.graph, planner.options.donated),
        find_minimum=compilers.minimum_bytes,
    )


def _donated_leaves(call: Call, donate_argnums: tuple[int, ...]) -> tuple[int, ...]:
    leaves: list[int] = []
    for position in donate_argnums:
        if position >= len(call.leaf_ranges):
            raise ArgumentError(
                f"donate_argnums names argument {position}, but the call has "
                f"{len(call.leaf_ranges)} positional arguments",
                mend="pass the donated argument by position",
            )
        leaves.extend(range(*call.leaf_ranges[position]))
    return tuple(leaves)
