"""From one traced call to a program that keeps its byte limit: the closed loop of planning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tracer import lowering, tree
from tracer.errors import ArgumentError, MemoryLimitError
from tracer.ir import Graph, ShapeDtype
from tracer.numpy.array import Array
from tracer.optimizer.liveness import Liveness
from tracer.optimizer.passes import PassRow
from tracer.optimizer.pipeline import Candidate, Planner, PlannerOptions
from tracer.optimizer.plan import Plan, timeline_of
from tracer.options import AUTO, CompileOptions
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
    """The program as it was traced and, where that does not fit, with scans in segments."""

    def __init__(self, call: Call, options: CompileOptions, name: str) -> None:
        self.call, self.options, self.name = call, options, name
        self.donated = _donated_leaves(call, options.donate_argnums)
        self.device = lowering.find_device(options.device)
        limit = options.limit
        self.limit = lowering.free_bytes(self.device) if limit == AUTO else limit
        self.plain = self._compiler(call.traced)

    @cached_property
    def segmented(self) -> _Compiler | None:
        """Traced again, with scans in segments; None if there is no scan that this changes."""
        traced = self.call.traced_in_segments
        return None if traced is None else self._compiler(traced)

    def compile(self) -> tuple[_Compiler, Candidate, lowering.Executable]:
        """Return the first compiler that keeps the limit, with its program."""
        try:
            return self.plain, *self.plain.compile()
        except MemoryLimitError as error:
            if self.segmented is None:
                raise
            first = error
        try:
            return self.segmented, *self.segmented.compile()
        except MemoryLimitError as second:
            raise min(first, second, key=lambda error: error.minimum_bytes) from None

    def minimum_bytes(self) -> int:
        """Return the smallest limit that is known to be met, in bytes."""
        found = self.plain.minimum_bytes()
        return found if self.segmented is None else min(found, self.segmented.minimum_bytes())

    def segmentation_row(self) -> PassRow:
        """Return the line of the plan's table that says what the segments changed."""
        assert self.segmented is not None
        before, after = self.plain.planner.rows[0], self.segmented.planner.rows[0]
        return PassRow(
            name="segment scans",
            seconds=0.0,
            peak_bytes_before=before.peak_bytes_before,
            peak_bytes_after=after.peak_bytes_before,
            flops_before=before.flops_before,
            flops_after=after.flops_before,
            nodes_before=before.nodes_before,
            nodes_after=after.nodes_before,
            applied=("traced again: scans are differentiated in segments",),
            refusals=(),
        )

    def _compiler(self, traced: Traced) -> _Compiler:
        limit = self.limit
        assert not isinstance(limit, str)
        planner = Planner(
            traced.graph,
            PlannerOptions(
                limit_bytes=limit,
                threshold_bytes=self.options.threshold_bytes,
                split_bytes=self.options.split_bytes,
                cache_bytes=lowering.cache_bytes(self.device),
                donated=frozenset(self.donated),
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
        self._accepted_bytes: int | None = None

    def compile(self) -> tuple[Candidate, lowering.Executable]:
        """Return the first candidate that keeps the limit, compiled."""
        for candidate in self.planner.candidates():
            execute = self._compile(candidate)
            if self.limit is None or execute.memory.peak_bytes <= self.limit:
                self._accepted_bytes = execute.memory.peak_bytes
                return candidate, execute
        candidate, execute = self.smallest()
        assert self.limit is not None
        if execute.memory.peak_bytes > self.limit:
            raise self._infeasible(candidate, execute)
        self._accepted_bytes = execute.memory.peak_bytes
        return candidate, execute

    def smallest(self) -> tuple[Candidate, lowering.Executable]:
        """Return the program with the smallest peak, compiled; the limit plays no part."""
        if self._smallest is None:
            candidate = self.planner.smallest()
            both = (self._compile_with(candidate, True), self._compile_with(candidate, False))
            self._smallest = candidate, min(both, key=lambda execute: execute.memory.peak_bytes)
        return self._smallest

    def minimum_bytes(self) -> int:
        """Return the smallest limit that is known to be met, in bytes."""
        found = self.smallest()[1].memory.peak_bytes
        return found if self._accepted_bytes is None else min(found, self._accepted_bytes)

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
    rows = candidate.rows
    if compiler is not compilers.plain:
        rows = (compilers.segmentation_row(), *rows)
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
