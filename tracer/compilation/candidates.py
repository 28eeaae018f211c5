"""Compiling candidates: one after another is compiled until XLA's own count keeps the limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, TypeVar

from tracer import lowering
from tracer.array.trace import Traced
from tracer.compilation.donation import donated_leaves
from tracer.compilation.mesh_placement import Placer
from tracer.compilation.options import AUTO, CompileOptions
from tracer.compilation.retracing import FRUGAL_MODES, PLAIN, Mode, has_loops, modes
from tracer.compilation.signature import Call
from tracer.errors import MemoryLimitError, OutOfMemoryError
from tracer.ir import Graph
from tracer.optimizer.alias.donations import match_donations
from tracer.optimizer.candidates import Candidate, PlanningCache
from tracer.optimizer.model.liveness import Liveness
from tracer.optimizer.passes import PassRow
from tracer.optimizer.pipeline import PlannerOptions
from tracer.optimizer.planner import Planner
from tracer.source import Source
from tracer.target import planned_for
from tracer.units import format_bytes

_TENTH_LESS = 0.9
# Predictions are not as far off: such a program takes more than the smallest that is known.
_WELL_ABOVE = 1.5
# How often a tenth less is tried for the smallest limit.
_MAXIMUM_ROUNDS = 8
# After a program that took more than was predicted, predictions are asked to be lower by as much,
# less this: programs differ in how far off their predictions are.
_SLACK = 1.15


@dataclass(frozen=True, eq=False)
class CompiledCandidate:
    """A compiled candidate, and the compiler that it comes from."""

    compiler: CandidateCompiler
    candidate: Candidate
    execute: lowering.Executable
    graph: Graph
    """What was compiled: the candidate's graph, in the forms that the device takes well."""

    @property
    def nbytes(self) -> int:
        """XLA's count and the modelled scratch, in bytes."""
        return self.execute.memory.peak_bytes


class _Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


S = TypeVar("S", bound=_Sized)


def tenths_lower(found: S, first: Callable[[int], S | None]) -> S:
    """Return the smallest program that is found while limits a tenth lower are met.

    Parameters
    ----------
    found : program
        Where to begin.
    first : callable
        Gives the first program that keeps a limit, if there is one.
    """
    for _ in range(_MAXIMUM_ROUNDS):
        lower = first(int(_TENTH_LESS * found.nbytes))
        if lower is None:
            break
        found = lower
    return found


def predicted_for(device: lowering.Device) -> AbstractContextManager[None]:
    """Predict what a device's own compiler stores, inside of the context."""
    return planned_for(lowering.target_of(device))


class CandidateSearch:
    """The program as it was traced and, where that does not fit, as other modes trace it.

    With a placer it is compiled for a mesh, whose every device runs all of it.
    """

    def __init__(
        self,
        call: Call,
        options: CompileOptions,
        name: str,
        others: CandidateSearch | None = None,
        placer: Placer | None = None,
    ) -> None:
        self.call, self.options, self.name, self.placer = call, options, name, placer
        # What was found for other limits.
        self._planned: PlanningCache = PlanningCache() if others is None else others._planned
        self._traces: dict[Mode, Traced] = {} if others is None else others._traces
        self.donated = donated_leaves(call, options.donation)
        self.device = lowering.find_device(options.device)
        limit = options.limit
        self.limit = lowering.free_bytes(self.device) if limit == AUTO else limit
        self.plain = self._compiler(call.traced, PLAIN)
        self._found: dict[Mode, CandidateCompiler] = {}

    def compile(self) -> CompiledCandidate:
        """Return the first program that keeps the limit, compiled, with its compiler.

        Raises
        ------
        MemoryLimitError
            The smallest program that is known is above the limit.
        """
        found = self._within_machine() or self.first() or self.least
        assert not isinstance(self.limit, str)
        if self.limit is not None and found.nbytes > self.limit:
            raise infeasible(self.name, self.limit, found)
        return found

    def minimum_bytes(self) -> int:
        """Return the smallest limit that is known to be met, in bytes.

        What takes less than the limit under which it was found may not be found under a lower one.
        """
        with predicted_for(self.device):
            least = self.least.nbytes
        return min(least, self.limit) if isinstance(self.limit, int) else least

    def _within_machine(self) -> CompiledCandidate | None:
        """Return, without a limit, what keeps to the machine's memory where all else needs more.

        However long that takes: the whole program would not run.
        """
        planner, options = self.plain.planner, self.options
        room = planner.machine_limit if self.limit is None and options.split else None
        if room is None or options.threshold_bytes is not None:
            return None
        return self.with_limit(room).first()

    def first(self) -> CompiledCandidate | None:
        """Return the first program that keeps the limit, of those that are planned for it."""
        for compiler in self._tried():
            found = compiler.compile()
            if found is not None:
                return found
        return None

    @cached_property
    def least(self) -> CompiledCandidate:
        """The smallest program that is known; the limit plays no part.

        From the planner's smallest one, limits a tenth lower are tried as long as they are met:
        at nine tenths of what is found here a limit is refused.
        """
        found = self.with_limit(1)._smallest.smallest()
        if self.options.split:
            found = tenths_lower(found, lambda limit: self.with_limit(limit).first())
        # XLA may take less for the program as it is without a limit than is predicted of it.
        free = self.with_limit(None)
        if next(free.plain.planner.candidates()).peak_bytes > _WELL_ABOVE * found.nbytes:
            return found
        return min(free.first() or found, found, key=lambda found: found.nbytes)

    def with_limit(self, limit: int | None) -> CandidateSearch:
        """Return the same program under another limit; they share what is found."""
        return CandidateSearch(
            self.call, replace(self.options, limit=limit), self.name, self, self.placer
        )

    def mode_row(self, compiler: CandidateCompiler) -> PassRow | None:
        """Return the line of the plan's table that says what a mode changed; None without one."""
        if compiler.mode is PLAIN:
            return None
        return compiler.mode.row(self.plain.planner, compiler.planner)

    def _tried(self) -> Iterator[CandidateCompiler]:
        """Yield the compilers, those that compute least first, each made when it is asked for."""
        yield self.plain
        if isinstance(self.limit, int):
            yield from self._in_modes(modes(self.limit - self.plain.planner.fixed_bytes))

    @cached_property
    def _smallest(self) -> CandidateCompiler:
        """The compiler of the program with the smallest predicted peak; no limit plays a part."""
        compilers = [self.plain, *self._in_modes(FRUGAL_MODES)]
        compilers.sort(key=lambda compiler: compiler.planner.floor_bytes)
        best = compilers[0]
        for compiler in compilers[1:]:
            least = best.planner.smallest().peak_bytes
            if compiler.planner.floor_bytes < least > compiler.planner.smallest().peak_bytes:
                best = compiler
        return best

    def _in_modes(self, modes: Iterable[Mode]) -> Iterator[CandidateCompiler]:
        """Yield a compiler for every mode that changes something, each program once."""
        if not has_loops(self.call.traced.graph):
            return
        yielded = {self.plain}
        for mode in modes:
            if mode.options & self.options.disabled:
                continue
            if mode not in self._found:
                self._found[mode] = self._known(self._compiler(self._traced(mode), mode))
            found = self._found[mode]
            if found not in yielded:
                yielded.add(found)
                yield found

    def _traced(self, mode: Mode) -> Traced:
        if mode not in self._traces:
            self._traces[mode] = self.call.traced_to_keep_less(
                mode.large_bytes, in_segments=mode.in_segments
            )
        return self._traces[mode]

    def _known(self, compiler: CandidateCompiler) -> CandidateCompiler:
        """Return the compiler of the same program that there is already, or else this one."""
        mine = compiler.planner.graph.fingerprint
        known = (self.plain, *self._found.values())
        return next((c for c in known if c.planner.graph.fingerprint == mine), compiler)

    def _compiler(self, traced: Traced, mode: Mode) -> CandidateCompiler:
        limit = self.limit
        assert not isinstance(limit, str)
        planner = Planner(
            traced.graph,
            PlannerOptions(
                limit_bytes=limit,
                threshold_bytes=self.options.threshold_bytes,
                split_bytes=self.options.split_bytes,
                machine=lowering.target_of(self.device),
                split=self.options.split,
                with_rules=True,
                disabled=self.options.disabled,
                donated=frozenset(self.donated),
                sink_bytes=mode.large_bytes,
            ),
            self._planned,
        )
        return CandidateCompiler(
            traced, planner, mode, self.device, self.donated, limit, self.placer
        )


class CandidateCompiler:
    """Tries the planner's candidates until XLA's own count confirms one."""

    def __init__(
        self,
        traced: Traced,
        planner: Planner,
        mode: Mode,
        device: lowering.Device,
        donated: tuple[int, ...],
        limit: int | None,
        placer: Placer | None,
    ) -> None:
        self.traced = traced
        self.placer = placer
        self.planner = planner
        self.kernels = planner.options.machine.kernels
        self.device = device
        self.donated = donated
        self.limit = limit
        self.mode = mode
        self._smallest: CompiledCandidate | None = None
        self._refusals: list[OutOfMemoryError] = []

    def compile(self) -> CompiledCandidate | None:
        """Return the first candidate that keeps the limit, compiled; None if there is none.

        A compiled program that takes more than was predicted tightens what is asked of the next
        predictions, so that few programs are compiled in vain.
        """
        if self.limit is not None and self.planner.floor_bytes > self.limit:
            return None
        asked = float("inf") if self.limit is None else self.limit
        for candidate in self.planner.candidates():
            if candidate.peak_bytes > asked:
                continue
            found = self._found(candidate)
            if found is None:
                continue
            if self.limit is None or found.nbytes <= self.limit:
                return found
            ordered = self._in_our_order(found, self.limit)
            if ordered is not None and ordered.nbytes <= self.limit:
                return ordered
            if candidate.loops:  # What is stored whole says nothing about slices.
                asked = min(asked, _SLACK * self.limit * candidate.peak_bytes / found.nbytes)
        return None

    def smallest(self) -> CompiledCandidate:
        """Return the program with the smallest predicted peak, compiled.

        If XLA counts less for the smallest program of the other kind (whole, with loops), that.
        """
        if self._smallest is None:
            candidate = self.planner.smallest()
            found = self._found(candidate)
            known = [found, found and self._in_our_order(found, found.nbytes)]
            other = self.planner.smallest_of_other_kind(candidate)
            if other is not None and (
                candidate.loops or found is None or found.nbytes > candidate.peak_bytes
            ):
                known.append(self._found(other))
            compiled = list(filter(None, known))
            if not compiled:
                raise self._refusals[-1]
            self._smallest = min(compiled, key=lambda found: found.nbytes)
        return self._smallest

    def _in_our_order(self, found: CompiledCandidate, room: int) -> CompiledCandidate | None:
        """Return the same program where XLA has to keep our order, if that may fit in the room."""
        candidate = self.planner.ordered(found.candidate)
        if candidate is None or candidate.peak_bytes > min(room, _TENTH_LESS * found.nbytes):
            return None
        return self._found(candidate)

    def _found(self, candidate: Candidate) -> CompiledCandidate | None:
        """Compile a candidate; None where the device's compiler says that it does not fit."""
        found, candidate = self._in_lanes(candidate)
        if found is not None:
            return found
        candidate = self.planner.kept_in_place(self.planner.in_small_calls(candidate))
        candidate, graph = self.planner.legalized(candidate, on_mesh=self.placer is not None)
        try:
            return CompiledCandidate(self, candidate, self._compile(graph), graph)
        except OutOfMemoryError as error:
            self._refusals.append(error)
            return None

    def _in_lanes(self, candidate: Candidate) -> tuple[CompiledCandidate | None, Candidate]:
        """Compile a candidate in lanes, where that pays and keeps the limit."""
        on_mesh = self.placer is not None
        if on_mesh or not self.kernels.lanes or not self.device.is_present:
            return None, candidate
        candidate, lanes = self.planner.in_lanes(candidate)
        if lanes is None:
            return None, candidate
        options = next(self._attempts(candidate.graph))
        execute = lowering.compile_lanes(
            lanes.graphs, lanes.join, device=self.device, options=options
        )
        if self.limit is not None and execute.memory.peak_bytes > self.limit:
            return None, candidate
        return CompiledCandidate(self, candidate, execute, candidate.graph), candidate

    def _compile(self, graph: Graph) -> lowering.Executable:
        """Compile with the options that keep the limit; the smallest where none does."""
        compiled = []
        for options in self._attempts(graph):
            execute = self._executable(graph, options)
            if self.limit is None or execute.memory.peak_bytes <= self.limit:
                return execute
            compiled.append(execute)
        return min(compiled, key=lambda execute: execute.memory.peak_bytes)

    def _executable(self, graph: Graph, options: dict[str, Any]) -> lowering.Executable:
        if self.placer is not None:
            return self.placer.compile(graph, options)
        return lowering.compile_graph(
            graph,
            device=self.device,
            donate=self.donated,
            aliases=match_donations(graph, self.donated).pairs,
            options=options,
        )

    def _attempts(self, graph: Graph) -> Iterator[dict[str, Any]]:
        """Yield XLA's options, in the order to try them.

        XLA's default CPU schedule runs producers early and may keep them all alive; the
        memory-optimised one is a heuristic that is sometimes worse, so the count decides. What a
        loop computes again on purpose XLA moves out of it and stores, unless that is forbidden.
        """
        if self.limit is None:
            yield {}
            return
        careful = lowering.memory_optimized_options(self.device.platform)
        inside = lowering.unmoved_code_options()
        if self.mode.large_bytes is not None:
            yield careful | inside
            yield inside
            return
        yield careful
        if careful:
            yield {}
        if any(node.bodies for node in graph.nodes):
            yield careful | inside


def infeasible(name: str, limit: int, found: CompiledCandidate) -> MemoryLimitError:
    """Return the error that says what stands in the way of a limit, where, and what is possible."""
    minimum = found.nbytes
    binding, source, why = _binding(limit, found)
    reason = f"\n  not split: {why}" if why else ""
    return MemoryLimitError(
        f"{name} cannot run within memory_limit {format_bytes(limit)}: its smallest "
        f"program takes {format_bytes(minimum)}\n  binding: {binding}{reason}",
        mend=f"memory_limit={minimum} is the smallest limit that can be met; smaller "
        "arguments, or donate_argnums for those that may be overwritten, lower it",
        limit_bytes=limit,
        minimum_bytes=minimum,
        binding=binding,
        where=source,
    )


def _binding(limit: int, found: CompiledCandidate) -> tuple[str, Source | None, str | None]:
    """Return what stands in the way, the user's line, and why it was not split."""
    planner, graph = found.compiler.planner, found.candidate.graph
    scratch = found.execute.memory.scratch_bytes
    tensors = Liveness(graph, frozenset(found.compiler.donated)).live_at_peak()
    if planner.fixed_bytes > limit or not tensors:
        types = (*graph.input_types, *graph.output_types)
        largest = max(types, key=lambda type: type.nbytes, default="nothing")
        alone = f"the arguments and results alone take {format_bytes(planner.fixed_bytes)}"
        return f"{alone}, the largest of them is {largest}", None, None
    tensor = tensors[0]
    named = f"{tensor}, {format_bytes(tensor.nbytes)}"
    if scratch > tensor.nbytes:
        named = f"{format_bytes(scratch)} of library scratch (products, sorts, LAPACK) and {named}"
    return named, tensor.source, planner.why_not_split(tensor)
