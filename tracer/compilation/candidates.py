"""The search for a program that keeps a limit, and for the smallest limit that can be kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from typing import Protocol, TypeVar

from tracer import lowering
from tracer.array.trace import Traced
from tracer.compilation.candidate_compiler import (
    TENTH_LESS,
    CandidateCompiler,
    CompiledCandidate,
)
from tracer.compilation.mesh_placement import Placer
from tracer.compilation.refusals import infeasible, refuse_at_once
from tracer.compilation.retracing import FRUGAL_MODES, PLAIN, Mode, has_loops, modes
from tracer.compilation.task import Choice, Task
from tracer.optimizer.budget import may_go_on, spending
from tracer.optimizer.candidates import CandidateRow, PlanningCache
from tracer.target import planned_for

# Predictions are not as far off: such a program takes more than the smallest that is known.
_WELL_ABOVE = 1.5
# Of a program of a few kilobytes what surrounds the values is a large share.
_SURROUNDINGS_BYTES = 16_000
# How often a tenth less is tried for the smallest limit.
_MAXIMUM_ROUNDS = 8


class _Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


S = TypeVar("S", bound=_Sized)


def tenths_lower(found: S, first: Callable[[int], S | None]) -> S:
    """Lower the limit by a tenth as long as it is met; return the smallest program found.

    Parameters
    ----------
    found : program
        Where to begin.
    first : callable
        Gives the first program that keeps a limit, if there is one.
    """
    for _ in range(_MAXIMUM_ROUNDS):
        if not may_go_on():
            break
        lower = first(int(TENTH_LESS * found.nbytes))
        if lower is None:
            break
        found = lower
    return found


def predicted_for(device: lowering.Device) -> AbstractContextManager[None]:
    """Predict what a device's own compiler stores, inside of the context."""
    return planned_for(lowering.target_of(device))


class CandidateSearch:
    """The program as traced and, if that does not fit, as other modes trace it.

    With a placer it is compiled for a mesh, and every device runs all of it.
    """

    def __init__(
        self, task: Task, others: CandidateSearch | None = None, placer: Placer | None = None
    ) -> None:
        self.task, self.limit, self.placer = task, task.limit, placer
        # What was found for other limits.
        self._planned: PlanningCache = PlanningCache() if others is None else others._planned
        self._traces: dict[Mode, Traced] = {} if others is None else others._traces
        self._found: dict[Mode, CandidateCompiler] = {}

    @cached_property
    def plain(self) -> CandidateCompiler:
        """The compiler of the program as traced."""
        return self._compiler(self.task.traced, PLAIN)

    def compile(self) -> CompiledCandidate:
        """Return the first program that keeps the limit, compiled, with its compiler.

        Nothing is planned if arguments and results alone are above the limit.

        Raises
        ------
        MemoryLimitError
            The smallest known program is above the limit.
        """
        refuse_at_once(self.task, self.least_bytes)
        found = self._as_before() or self._within_machine() or self.first() or self._last()
        if self.limit is not None and found.nbytes > self.limit:
            is_searched = "least" in vars(self)
            raise infeasible(self.task, found, None if is_searched else self.least_bytes)
        return self._told(found)

    def _last(self) -> CompiledCandidate:
        """Return the smallest known program; one with a limit far below is refused at once."""
        with spending(self.task.budget()) as budget:
            if self.limit is not None and self.limit < self._least_tried:
                return self._smallest_predicted
            found = self.least
        if self.limit is None or found.nbytes <= self.limit or not budget.is_cut:
            return found
        with spending(self.task.budget()):
            return self._anew.least

    @property
    def _least_tried(self) -> int:
        """The smallest limit, in bytes, for which other programs are tried before a refusal."""
        least = self._smallest_predicted.nbytes
        planner = self._of_least.planner
        cuts = planner.with_least_cuts()
        share = cuts[0].peak_bytes / planner.smallest().peak_bytes if cuts else 1.0
        if share < TENTH_LESS:
            least = int(share * least)
        return int((least - _SURROUNDINGS_BYTES) / _WELL_ABOVE)

    def minimum_bytes(self) -> int:
        """Return the smallest limit that is known to be met, in bytes.

        A program may take less than the limit under which it was found, and not be found under a
        lower one.
        """
        least = self.least_bytes()
        return least if self.limit is None else min(least, self.limit)

    def least_bytes(self) -> int:
        """Return the bytes of the smallest known program that a limit of as many bytes finds."""
        search = self._anew
        with predicted_for(self.task.device), spending(self.task.budget()):
            return max(search.least.nbytes, search._least_tried)

    @cached_property
    def _anew(self) -> CandidateSearch:
        """The search for the smallest program, from the start on.

        Where it is cut, it depends on what was known before. So what is promised without a limit
        is found again under it.
        """
        return CandidateSearch(replace(self.task, limit=None), placer=self.placer)

    def choice(self, found: CompiledCandidate) -> Choice | None:
        """Return how a program was made, for calls with smaller shapes."""
        way = found.compiler.planner.way_of(found.candidate)
        return None if way is None else Choice(self.task.call.types, found.compiler.mode, way)

    @property
    def compiled(self) -> tuple[CandidateRow, ...]:
        """The programs that were compiled, in their order."""
        return tuple(self._planned.compiled)

    def _as_before(self) -> CompiledCandidate | None:
        """Return the program made in the way that was chosen for larger shapes, if it fits.

        The last batch of an epoch is smaller: its plan is the same, with other trip counts.
        """
        like = self.task.like
        if like is None or self.limit is None or self.plain.planner.is_whole_enough:
            return None
        if like.mode is PLAIN or not has_loops(self.task.traced.graph):
            return self.plain.made_in(like)
        return self._compiler(self._traced(like.mode), like.mode).made_in(like)

    def _within_machine(self) -> CompiledCandidate | None:
        """Return, without a limit, a program within the machine's memory if all others need more.

        However long that takes, since the whole program would not run.
        """
        planner, options = self.plain.planner, self.task.options
        room = planner.machine_limit if self.limit is None and options.split else None
        if room is None or options.threshold_bytes is not None:
            return None
        return self.with_limit(room).first()

    def first(self) -> CompiledCandidate | None:
        """Return the first program planned for the limit that keeps it."""
        for compiler in self._tried():
            found = compiler.compile()
            if found is not None:
                return found
        return None

    @cached_property
    def _smallest_predicted(self) -> CompiledCandidate:
        return self._of_least.smallest()

    @cached_property
    def _of_least(self) -> CandidateCompiler:
        """The compiler of the smallest program: it plans for no limit that can be kept."""
        return self.with_limit(1)._smallest

    @cached_property
    def least(self) -> CompiledCandidate:
        """The smallest known program, whatever the limit.

        From the planner's smallest one, limits a tenth lower are tried as long as they are met:
        at nine tenths of what is found here a limit is refused.
        """
        found = self._smallest_predicted
        if self.task.options.split:
            found = tenths_lower(found, lambda limit: self.with_limit(limit).first())
            compiler = self._of_least
            steps, cuts = compiler.planner.in_single_steps(), compiler.planner.with_least_cuts()
            found = compiler.smaller(found, steps, _WELL_ABOVE * found.nbytes)
            found = compiler.smaller(found, cuts, found.candidate.peak_bytes)
        # XLA may take less for the program as it is without a limit than is predicted of it.
        free = self.with_limit(None)
        free_bytes = next(free.plain.planner.candidates()).peak_bytes
        if free_bytes > _WELL_ABOVE * found.nbytes or not may_go_on():
            return found
        return min(free.first() or found, found, key=lambda found: found.nbytes)

    def with_limit(self, limit: int | None) -> CandidateSearch:
        """Return the same program under another limit; they share what is found."""
        return CandidateSearch(replace(self.task, limit=limit), self, self.placer)

    def _told(self, found: CompiledCandidate) -> CompiledCandidate:
        """Return a candidate with a first row that says what its mode changed, if one did."""
        compiler, candidate = found.compiler, found.candidate
        if compiler.mode is PLAIN:
            return found
        row = compiler.mode.row(self.plain.planner, compiler.planner)
        return replace(found, candidate=replace(candidate, rows=(row, *candidate.rows)))

    def _tried(self) -> Iterator[CandidateCompiler]:
        """Yield the compilers, those that compute least first, each made when it is needed."""
        yield self.plain
        if self.limit is not None:
            yield from self._in_modes(modes(self.limit - self.plain.planner.fixed_bytes))

    @cached_property
    def _smallest(self) -> CandidateCompiler:
        """The compiler of the program with the smallest predicted peak, whatever the limit."""
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
        if not has_loops(self.task.traced.graph):
            return
        yielded = {self.plain}
        for mode in modes:
            if mode.options & self.task.options.disabled or not may_go_on():
                continue
            if mode not in self._found:
                self._found[mode] = self._known(self._compiler(self._traced(mode), mode))
            found = self._found[mode]
            if found not in yielded:
                yielded.add(found)
                yield found

    def _traced(self, mode: Mode) -> Traced:
        if mode not in self._traces:
            self._traces[mode] = self.task.call.traced_to_keep_less(
                mode.large_bytes, in_segments=mode.in_segments
            )
        return self._traces[mode]

    def _known(self, compiler: CandidateCompiler) -> CandidateCompiler:
        """Return the existing compiler of the same program, or this one."""
        mine = compiler.planner.graph.fingerprint
        known = (self.plain, *self._found.values())
        return next((c for c in known if c.planner.graph.fingerprint == mine), compiler)

    def _compiler(self, traced: Traced, mode: Mode) -> CandidateCompiler:
        return CandidateCompiler(self.task, traced, mode, self._planned, self.placer)


__all__ = ["CandidateSearch", "predicted_for", "tenths_lower"]
