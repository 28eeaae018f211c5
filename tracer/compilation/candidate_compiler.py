"""Compile what the planner proposes until XLA's own count keeps the limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from tracer import lowering
from tracer.array.trace import Traced
from tracer.compilation import progress
from tracer.compilation.checkpoints import with_checkpoints
from tracer.compilation.mesh_placement import Placer
from tracer.compilation.retracing import Mode
from tracer.compilation.task import Choice, Task
from tracer.errors import OutOfMemoryError
from tracer.ir import Graph
from tracer.optimizer.alias.donations import match_donations
from tracer.optimizer.budget import may_go_on, spend
from tracer.optimizer.candidates import Candidate, PlanningCache, candidate_row
from tracer.optimizer.final_passes import FinalPasses
from tracer.optimizer.model.liveness import node_count
from tracer.optimizer.model.product_library import is_faster_by_eigen, packing_by_eigen
from tracer.optimizer.model.xla_order import compiled_peak_bytes, most_bytes_by_default
from tracer.optimizer.pipeline import PlannerOptions
from tracer.optimizer.planner import Planner

TENTH_LESS = 0.9
# A count so close to the prediction is not lowered much by other options of XLA.
_NEAR = 1.05
# Nor are they off by so much: what is predicted to take it is not smaller.
_FAR_ABOVE = 8
# By the time model, whose own error is larger.
_AS_FAST = 1.05
# Programs in trips of one step that are compiled for the smallest limit.
_MOST_STEPPED = 3
# After a program that took more than was predicted, predictions are asked to be lower by as much,
# less this: programs differ in how far off their predictions are.
_SLACK = 1.15


@dataclass(frozen=True, eq=False)
class CompiledCandidate:
    """A compiled candidate, and its compiler."""

    compiler: CandidateCompiler
    candidate: Candidate
    execute: lowering.Executable
    graph: Graph
    """What was compiled: the candidate's graph, in the forms that the device takes well."""

    @property
    def nbytes(self) -> int:
        """XLA's count and the modelled scratch, in bytes."""
        return self.execute.memory.peak_bytes


class CandidateCompiler:
    """Tries the planner's candidates until XLA's own count confirms one."""

    def __init__(
        self, task: Task, traced: Traced, mode: Mode, known: PlanningCache, placer: Placer | None
    ) -> None:
        self.device, self.donated, self.limit = task.device, task.donated, task.limit
        self.traced, self.mode, self.placer = traced, mode, placer
        self._smallest: CompiledCandidate | None = None
        self._compiled = known.compiled
        self._refusals: list[OutOfMemoryError] = []
        options = PlannerOptions(
            limit_bytes=task.limit,
            threshold_bytes=task.options.threshold_bytes,
            split_bytes=task.options.split_bytes,
            machine=lowering.target_of(task.device),
            split=task.options.split,
            with_rules=True,
            disabled=task.options.disabled,
            donated=frozenset(task.donated),
            sink_bytes=mode.large_bytes,
        )
        self.machine = options.machine
        self._compiling_nodes = self.machine.prices.compiling_nodes
        self.checkpoints = task.options.checkpoints
        self.final_passes = FinalPasses(options)
        self.planner = Planner(traced.graph, options, known)

    def compile(self) -> CompiledCandidate | None:
        """Return the first candidate that keeps the limit, compiled; None if there is none.

        A compiled program that takes more than predicted lowers the bound for the next
        predictions, so that few programs are compiled for nothing.
        """
        if self.limit is not None and self.planner.floor_bytes > self.limit:
            return None
        asked = float("inf") if self.limit is None else self.limit
        is_tried = False
        for candidate in self.planner.candidates():
            if candidate.peak_bytes > asked:
                continue
            if is_tried and not may_go_on():
                break
            found, is_tried = self._with_few_attempts(candidate), True
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

    def made_in(self, like: Choice) -> CompiledCandidate | None:
        """Return the program made in a known way, compiled, if it keeps the limit."""
        candidate = self.planner.made_in(like.way)
        found = None if candidate is None else self._with_few_attempts(candidate)
        return found if found is not None and found.nbytes <= (self.limit or 0) else None

    def _with_few_attempts(self, candidate: Candidate) -> CompiledCandidate | None:
        """Compile a candidate; None if the device's compiler says that it does not fit.

        Where XLA's first order breaks the limit, ours comes before XLA's others, unless it is
        slower by the time model: they seldom differ from the first by as much.
        """
        found = self._found(candidate, most=1)
        limit = self.limit
        if found is None or limit is None or found.nbytes <= limit:
            return found
        ordered = self._order_for(found, limit)
        seconds = self.planner.seconds
        if ordered is not None and seconds(ordered) <= _AS_FAST * seconds(candidate):
            again = self._found(ordered, most=1)
            if again is not None and again.nbytes <= limit:
                return again
        return self._found(candidate)

    def smallest(self) -> CompiledCandidate:
        """Return the program with the smallest predicted peak, compiled.

        Or the smallest one of the other kind (whole, with loops), if XLA counts less for it.
        """
        if self._smallest is None:
            candidate = self.planner.smallest()
            found = self._found(candidate, int(_NEAR * candidate.peak_bytes))
            known = [found, found and self._in_our_order(found, found.nbytes)]
            other = self.planner.smallest_of_other_kind(candidate)
            is_known = found is not None and not may_go_on()
            if other and not is_known and self._may_be_smaller(other, candidate, found):
                known.append(self._found(other, int(_NEAR * other.peak_bytes)))
            compiled = list(filter(None, known))
            if not compiled:
                raise self._refusals[-1]
            self._smallest = min(compiled, key=lambda found: found.nbytes)
        return self._smallest

    def smaller(
        self, found: CompiledCandidate, candidates: Iterable[Candidate], most: float
    ) -> CompiledCandidate:
        """Return the smallest of a program and of the first few candidates, compiled.

        Those that are predicted to take more than `most` bytes are left out.
        """
        known: list[CompiledCandidate | None] = [found]
        for candidate in islice(candidates, _MOST_STEPPED):
            if candidate.peak_bytes > most or not may_go_on():
                break
            if candidate.graph is not found.candidate.graph:
                known.append(self._found(candidate, int(_NEAR * candidate.peak_bytes)))
        return min(filter(None, known), key=lambda item: item.nbytes)

    @staticmethod
    def _may_be_smaller(
        other: Candidate, candidate: Candidate, found: CompiledCandidate | None
    ) -> bool:
        """Tell whether XLA may count less for a program of the other kind than for what it found.

        Whole programs often take less than is predicted, but not so much less.
        """
        if found is None:
            return True
        if candidate.loops:
            return other.peak_bytes <= _FAR_ABOVE * found.nbytes
        return found.nbytes > candidate.peak_bytes

    def _in_our_order(self, found: CompiledCandidate, room: int) -> CompiledCandidate | None:
        """Return the same program where XLA has to keep our order, if that may fit in the room."""
        candidate = self._order_for(found, room)
        return None if candidate is None else self._found(candidate)

    def _order_for(self, found: CompiledCandidate, room: int) -> Candidate | None:
        candidate = self.final_passes.ordered(found.candidate)
        if candidate is None or candidate.peak_bytes > min(room, TENTH_LESS * found.nbytes):
            return None
        return candidate

    def _found(
        self, candidate: Candidate, enough: int = 0, most: int | None = None
    ) -> CompiledCandidate | None:
        """Compile a candidate; None if the device's compiler says that it does not fit.

        What takes no more bytes than `enough`, or keeps the limit, is not compiled again with
        other options, and nothing with more than `most` of them.
        """
        found, candidate = self._in_lanes(candidate)
        if found is not None:
            return self._noted(found)
        final = self.final_passes
        candidate = final.kept_in_place(final.in_small_calls(final.with_shared_values(candidate)))
        candidate, graph = self.final_passes.legalized(candidate, on_mesh=self.placer is not None)
        try:
            found = CompiledCandidate(self, candidate, self._compile(graph, enough, most), graph)
        except OutOfMemoryError as error:
            self._refusals.append(error)
            return None
        return self._noted(found)

    def _noted(self, found: CompiledCandidate) -> CompiledCandidate:
        """Return a compiled program; it is told and listed."""
        progress.found(found.nbytes)
        row = candidate_row(found.candidate, found.nbytes)
        if row not in self._compiled:
            self._compiled.append(row)
        return found

    def _in_lanes(self, candidate: Candidate) -> tuple[CompiledCandidate | None, Candidate]:
        """Compile a candidate in lanes, where that pays and keeps the limit."""
        on_mesh = self.placer is not None
        is_kept = self.checkpoints is not None
        if on_mesh or is_kept or not self.machine.kernels.lanes or not self.device.is_present:
            return None, candidate
        before = candidate
        candidate, lanes = self.final_passes.in_lanes(candidate)
        if lanes is None:
            return None, candidate
        options = next(self._attempts(candidate.graph))
        with progress.compiling():
            execute = lowering.compile_lanes(
                lanes.graphs, lanes.join, device=self.device, options=options
            )
        peak = execute.memory.peak_bytes
        if self.limit is not None and peak > self.limit:
            return None, self.final_passes.without_lanes(before, candidate, peak)
        return CompiledCandidate(self, candidate, execute, candidate.graph), candidate

    def _compile(self, graph: Graph, enough: int, most: int | None) -> lowering.Executable:
        """Compile with options that keep the limit; if none do, return the smallest program."""
        compiled: list[lowering.Executable] = []
        is_tried = False  # By the library whose packing was predicted with the program.
        for options in islice(self._attempts(graph), most):
            if is_tried and not may_go_on():
                break
            is_tried = is_tried or not lowering.is_by_eigen(options)
            spend(self._compiling_nodes * node_count(graph))
            with progress.compiling():
                execute = self._executable(graph, options)
            if self.limit is None or execute.memory.peak_bytes <= max(self.limit, enough):
                return execute
            compiled.append(execute)
        return min(compiled, key=lambda execute: execute.memory.peak_bytes)

    def _executable(self, graph: Graph, options: dict[str, Any]) -> lowering.Executable:
        if self.checkpoints is not None:
            graph = with_checkpoints(graph, self.checkpoints)
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
            is_faster = is_faster_by_eigen(graph, self.machine)
            yield lowering.eigen_options() if is_faster else {}
            return
        careful = lowering.memory_optimized_options(self.device.platform)
        inside = lowering.unmoved_code_options()
        if self.mode.large_bytes is not None:
            yield careful | inside
            yield inside
            return
        yield from self._by_order(graph, careful)
        if any(node.bodies for node in graph.nodes):
            yield careful | inside

    def _by_order(self, graph: Graph, careful: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the options of the memory-optimised order and of XLA's own, the first to try."""
        assert self.limit is not None
        if not careful:
            return [{}]
        donated = frozenset(self.donated)
        most_bytes = partial(most_bytes_by_default, donated=donated)
        # Its own order takes up to a tenth less time.
        if most_bytes(graph) <= self.limit:
            return [self._of_products(graph, most_bytes, self.limit), careful]
        peak_bytes = partial(compiled_peak_bytes, donated=donated, for_memory=True)
        eigen = self._of_products(graph, peak_bytes, int(TENTH_LESS * self.limit))
        return [*([careful | eigen] if eigen else []), careful, {}]

    def _of_products(
        self, graph: Graph, bytes_of: Callable[[Graph], int], room: int
    ) -> dict[str, Any]:
        """Return the options of the library that multiplies faster, if there is room for it."""
        if not is_faster_by_eigen(graph, self.machine):
            return {}
        with packing_by_eigen(self.machine):
            return lowering.eigen_options() if bytes_of(graph) <= room else {}


__all__ = ["TENTH_LESS", "CandidateCompiler", "CompiledCandidate"]
