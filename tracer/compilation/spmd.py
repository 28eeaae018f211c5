"""Make a program on a mesh from one traced call; every device keeps the byte limit.

The axes that the planner would split for memory are spread over the devices first. If a device's
part still stores too much, it is computed in slices, in loops. XLA's partitioner places the rest,
and its own count of bytes for each device decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from tracer import lowering
from tracer.compilation import progress
from tracer.compilation.candidate_compiler import CompiledCandidate
from tracer.compilation.candidates import CandidateSearch, predicted_for, tenths_lower
from tracer.compilation.mesh_placement import Placer, SpreadCandidate
from tracer.compilation.refusals import refuse_at_once, together
from tracer.compilation.task import Task
from tracer.errors import MemoryLimitError, OutOfMemoryError
from tracer.ir import Graph, ShapeDtype
from tracer.optimizer.final_passes import legalized
from tracer.optimizer.loops.split import LoopRow, SplitSettings
from tracer.optimizer.model.peak_values import peak_values
from tracer.optimizer.passes import PassManager, PassRow
from tracer.optimizer.pipeline import SHARD_NAME, Context, PlannerOptions, Stage, passes_in
from tracer.optimizer.planner import Planner
from tracer.sharding import Spread
from tracer.units import format_bytes

# The share of the room that a value may take before it is cut, and that a loop's trip may take.
_SHARES = ((4, 0.875), (4, 0.5), (16, 0.5), (16, 0.25), (64, 0.25), (256, 0.125))
_LEAST_BYTES = 1 << 12


@dataclass(frozen=True)
class CompiledSpread:
    """A compiled candidate."""

    candidate: SpreadCandidate
    execute: lowering.Executable
    graph: Graph
    """What was compiled: the candidate's graph, in the forms that the device takes well."""

    @property
    def nbytes(self) -> int:
        """XLA's count for each device and the modelled scratch, in bytes."""
        return self.execute.memory.peak_bytes


class Spreader:
    """Finds a program for a mesh under a limit for each device."""

    def __init__(self, task: Task, spread: Spread) -> None:
        self.task, self.options, self.limit = task, task.options, task.limit
        self.spread, self.mesh = spread, spread.mesh
        self.placer = Placer(task, spread)
        self.machine = lowering.target_of(task.device)
        self._accepted: CompiledSpread | None = None

    @cached_property
    def planner(self) -> Planner:
        """The planner of the whole program, without loops."""
        return Planner(
            self.task.traced.graph,
            PlannerOptions(
                limit_bytes=self.limit,
                machine=self.machine,
                split=False,
                with_rules=True,
                disabled=self.task.options.disabled,
                donated=frozenset(self.task.donated),
            ),
        )

    @property
    def graph(self) -> Graph:
        """The whole program after the planner's first passes."""
        return self.planner.graph

    def compile(self) -> CompiledSpread:
        """Return the first program that keeps the limit on every device, compiled.

        Raises
        ------
        MemoryLimitError
            No known program does.
        OutOfMemoryError
            The device's compiler says that none fits.
        """
        refuse_at_once(self.task, self.minimum_bytes, self.mesh.size)
        found = self._first(self.limit) or self._least
        if self.limit is not None and found.nbytes > self.limit:
            raise self._infeasible(self.limit, found)
        self._accepted = found
        return found

    def minimum_bytes(self) -> int:
        """Return the smallest limit that is known to be met, in bytes of each device."""
        with predicted_for(self.task.device):
            least = self._least.nbytes
        return least if self._accepted is None else min(least, self._accepted.nbytes)

    def _first(self, limit: int | None) -> CompiledSpread | None:
        """Return the first program planned for the limit that keeps it."""
        for candidate in self._candidates(limit):
            found = self._found(candidate, limit)
            if found is not None and (limit is None or found.nbytes <= limit):
                return found
        alone = self._alone(limit).first()
        return None if alone is None else self._on_each(alone)

    @cached_property
    def _least(self) -> CompiledSpread:
        """The smallest known program, spread or not, whatever the limit.

        From there, limits a tenth lower are tried as long as they are met, as for one device.
        """
        spread = (self._found(candidate, 1) for candidate in self._candidates(1))
        known = [*filter(None, spread), self._on_each(self._alone(1).least)]
        found = min(known, key=lambda found: found.nbytes)
        if not self.options.split:
            return found
        found = tenths_lower(found, self._first)
        # What is planned for the least itself may take a little less.
        return self._first(found.nbytes) or found

    @cached_property
    def _compilers(self) -> CandidateSearch:
        """Those of the program of one device, which every device may run."""
        return CandidateSearch(self.task, placer=self.placer)

    def _alone(self, limit: int | None) -> CandidateSearch:
        return self._compilers if limit == self.limit else self._compilers.with_limit(limit)

    def _on_each(self, found: CompiledCandidate) -> CompiledSpread:
        """Return the program of one device as a program that every device runs."""
        graph, loops = found.candidate.graph, found.candidate.loops
        candidate = self.placer.candidate(graph, found.candidate.rows, loops, ())
        return CompiledSpread(candidate, found.execute, found.graph)

    def _found(self, candidate: SpreadCandidate, limit: int | None) -> CompiledSpread | None:
        """Compile a candidate; None if the device's compiler says that it does not fit."""
        careful = lowering.memory_optimized_options(self.mesh.platform)
        options = {} if limit is None else careful
        graph, rows = legalized(candidate.graph, Context(self.planner.options, on_mesh=True))
        try:
            with progress.compiling():
                execute = self.placer.compile(graph, options)
        except OutOfMemoryError:
            return None
        return CompiledSpread(replace(candidate, rows=(*candidate.rows, *rows)), execute, graph)

    def _candidates(self, limit: int | None) -> Iterator[SpreadCandidate]:
        """Yield each program once: as the user placed it, then as the planner spreads it."""
        seen: set[str] = set()
        if not self.spread.is_automatic or self.mesh.size == 1:
            yield self.placer.candidate(self.graph, self.planner.rows, (), ())
        if not self.options.split and not self.spread.is_automatic:
            return
        least: SpreadCandidate | None = None
        for settings in self._settings(limit):
            for candidate in self._spread(settings, limit):
                if candidate.graph.fingerprint in seen:
                    continue
                seen.add(candidate.graph.fingerprint)
                if least is None or candidate.peak_bytes < least.peak_bytes:
                    least = candidate
                if limit is None or candidate.peak_bytes <= limit:
                    yield candidate
        if least is not None:
            # The model may be wrong about the smallest one.
            yield least

    def _settings(self, limit: int | None) -> Iterator[SplitSettings]:
        largest = max((type.nbytes for node in self.graph.nodes for type in node.types), default=0)
        even = max(_LEAST_BYTES, largest // (2 * self.mesh.size))
        trip = self.machine.trip_bytes
        if limit is None:
            yield SplitSettings(even, trip, largest + 1, machine=self.machine)
            return
        room = max(1, limit - self._fixed_bytes)
        for share, part in _SHARES:
            budget = max(1, int(part * room))
            yield SplitSettings(
                min(even, max(_LEAST_BYTES, room // share)),
                max(1, min(trip, budget)),
                budget,
                trust_fusion=share < _SHARES[-1][0],
                machine=self.machine,
            )

    @cached_property
    def _fixed_bytes(self) -> int:
        """Bytes of each device's arguments and results, as the first settings place them."""
        settings = SplitSettings(
            max(_LEAST_BYTES, max((t.nbytes for t in self.graph.input_types), default=0) // 4),
            1,
            1,
            machine=self.machine,
        )
        view = self._sharded(settings)[0].view
        types: tuple[ShapeDtype, ...] = (*view.input_types, *view.output_types)
        return sum(type.nbytes for type in types)

    def _spread(self, settings: SplitSettings, limit: int | None) -> Iterator[SpreadCandidate]:
        """Yield the program spread by settings, then with loops in its parts."""
        candidate, rows = self._sharded(settings)
        yield candidate
        if limit is None or not self.options.split:
            return
        loops: list[LoopRow] = []
        manager = PassManager()
        context = Context(self.planner.options, settings, loops)
        graph = manager.run(candidate.graph, passes_in(Stage.LOOPS, context))
        yield self.placer.candidate(graph, (*rows, *manager.rows), tuple(loops), candidate.axes)

    def _sharded(self, settings: SplitSettings) -> tuple[SpreadCandidate, tuple[PassRow, ...]]:
        manager = PassManager()
        context = Context(self.planner.options, settings, devices=self.mesh.size)
        graph = manager.run(self.graph, passes_in(Stage.DEVICES, context))
        rows = (*self.planner.rows, *manager.rows)
        axes = tuple(manager.rows[0].applied) if manager.rows else ()
        return self.placer.candidate(graph, rows, (), axes), rows

    def explained(self, found: CompiledSpread) -> tuple[str, ...]:
        """Return what is spread over the mesh, for the plan; empty if XLA does it."""
        candidate = found.candidate
        if candidate.axes or not self.spread.is_automatic:
            return candidate.axes
        whole = "every device computes all of it"
        if self.spread.results is not None:
            whole = "XLA cuts what the parts of out_shardings need"
        return (f"nothing, {whole}{self._why_whole()}",)

    def _why_whole(self) -> str:
        tried, rows = self._sharded(next(self._settings(self.limit)))
        if tried.axes:
            return ": spread, it takes more"
        refusals = [item for row in rows if row.name == SHARD_NAME for item in row.refusals]
        return f": {refusals[0].subject}: {refusals[0].reason}" if refusals else ""

    def _infeasible(self, limit: int, found: CompiledSpread) -> MemoryLimitError:
        values = peak_values(found.candidate.liveness, self.task.traced.graph)
        binding = values[0].name if values else "its arguments"
        return MemoryLimitError(
            f"{self.task.name} cannot run within memory_limit {format_bytes(limit)} on each of "
            f"{self.mesh}: its smallest program takes {format_bytes(found.nbytes)}\n"
            f"  binding: {binding}{together(values)}",
            mend=f"memory_limit={found.nbytes} is the smallest limit that can be met; more "
            "devices, or smaller arguments, lower it",
            limit_bytes=limit,
            minimum_bytes=found.nbytes,
            binding=binding,
            where=values[0].source if values else None,
            alive=tuple(map(str, values)),
        )
