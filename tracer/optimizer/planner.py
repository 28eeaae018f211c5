"""The planner: programs for a graph under a byte limit, the fastest first."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from tracer.ir import Graph
from tracer.optimizer.budget import may_go_on, spending
from tracer.optimizer.candidates import (
    Candidate,
    PlanningCache,
    Way,
    cut_settings,
    limit_settings,
    smallest_settings,
    step_settings,
    tight_settings,
    user_settings,
)
from tracer.optimizer.final_passes import FinalPasses
from tracer.optimizer.loops.split import Cut, LoopRow, SplitSettings, least_cuts
from tracer.optimizer.loops.split.outline import outlined
from tracer.optimizer.loops.split.scratch import large_scratch
from tracer.optimizer.model.costs import node_count
from tracer.optimizer.model.liveness import Liveness, peak_bytes
from tracer.optimizer.model.peak_values import PeakValue
from tracer.optimizer.model.speed import estimate_seconds
from tracer.optimizer.model.trip_counts import fixed_bytes, unsplit_bytes
from tracer.optimizer.passes import Pass, PassLog, PassManager, PassRow, Refusal
from tracer.optimizer.pipeline import (
    SPLIT_NAME,
    Context,
    PlannerOptions,
    Stage,
    entries_in,
    passes_in,
)
from tracer.optimizer.remat import Rematerialiser

# A program that fits is split when that takes at most this share of its time, by the model: the
# model's own error is about that.
_WORTHWHILE = 0.85
# Or when it takes no longer by the model, and the whole program so many times its memory. In
# between it may take the more time the less memory it takes.
_MUCH_MEMORY = 4
# Where slices fill what a trip may take, those that are so many times as large are tried too.
_LARGER = 8
# Of the machine's memory, which a program may take without a limit: the rest is others', and of a
# GPU's XLA takes no more by default (XLA_PYTHON_CLIENT_MEM_FRACTION).
_MEMORY_SHARE = 0.75
# A candidate that takes at most this many times the whole program's time is tried at once.
_CLOSE = 1.25
# Values are computed again until the prediction is this share of the limit: XLA may take more.
_SHARES_OF_LIMIT = (1.0, 0.85)
# Where all that is known to be small takes this many times the limit, nothing else is tried.
_HOPELESS = 1.1
# Programs of so many nodes are split in a moment: all slice sizes derived from the limit are tried.
_FEW_NODES = 400
# Programs of so many nodes have their cuts searched in a second or two.
_MOST_CUT_NODES = 60
# Of the values at the peak: programs that cut these and larger ones are tried, a step at a time.
_STEP_THRESHOLDS = 3
# Split programs above the limit that have values computed again, the fastest ones.
_MOST_COMBINED = 2


class Planner:
    """Finds programs for a graph under a byte limit, the fastest first.

    Parameters
    ----------
    graph : Graph
        The traced program.
    options : PlannerOptions
        The limit and the user's thresholds.
    known : PlanningCache, optional
        What planners with other limits found, and this one too: most of a planner's time when
        limits are tight.
    """

    def __init__(
        self, graph: Graph, options: PlannerOptions, known: PlanningCache | None = None
    ) -> None:
        self.options, self.context = options, Context(options)
        self._final = FinalPasses(options)
        self._known = PlanningCache() if known is None else known
        self.traced = graph
        with spending(None):  # Every plan needs these passes.
            self.graph, self.rows = self._optimised(graph)
        self.baseline_peak_bytes = peak_bytes(graph, options.donated)

    def _optimised(self, graph: Graph) -> tuple[Graph, tuple[PassRow, ...]]:
        """Run the passes; those before the first per-limit one only once for all limits."""
        passes = passes_in(Stage.AS_TRACED, self.context)
        entries = entries_in(Stage.AS_TRACED, self.context)
        place = next((i for i, entry in enumerate(entries) if entry.is_per_limit), len(entries))
        key, known = (graph.fingerprint, self.options.sink_bytes), self._known.prefixes
        if key not in known:
            before = PassManager()
            known[key] = (before.run(graph, passes[:place]), tuple(before.rows))
        prefix, rows = known[key]
        after = PassManager()
        return after.run(prefix, passes[place:]), (*rows, *after.rows)

    @cached_property
    def fixed_bytes(self) -> int:
        """Bytes of arguments and results, shared memory counted once: no plan takes less."""
        return fixed_bytes(self.graph, self.options.donated)

    @cached_property
    def floor_bytes(self) -> int:
        """Bytes that no plan goes below: arguments, results, and what loops and branches read."""
        graph = outlined(self.graph, lambda _: True) if self.options.split else self.graph
        return max(self.fixed_bytes, unsplit_bytes(graph, self.options.donated))

    @cached_property
    def _whole(self) -> Candidate:
        """The program without the planner's loops."""
        whole = self._candidate(self.graph, self.rows, ())
        return self._final.after(whole, *passes_in(Stage.UNSPLIT, self.context))

    @property
    def is_whole_enough(self) -> bool:
        """Tell whether the whole program is predicted to keep the limit: nothing is searched."""
        return self._limit is None or self._whole.peak_bytes <= self._limit

    def candidates(self) -> Iterator[Candidate]:
        """Yield programs that are predicted to keep the limit, the fastest first."""
        limit, unsplit, threshold = self._limit, self._whole, self.options.threshold_bytes
        tried = {unsplit.graph.fingerprint}
        if threshold is not None and self.options.split:
            split_bytes = self.options.split_bytes
            yield self._split(user_settings(threshold, split_bytes, self.options.machine))
        elif limit is None or unsplit.peak_bytes <= limit or not self.options.split:
            faster = [*self._faster_than(unsplit)]
            tried |= {candidate.graph.fingerprint for candidate in faster}
            yield from faster
            yield unsplit
        if limit is not None:
            for ways in (self._fast_ways(limit), self._small_ways(limit)):
                for candidate in self._fastest_first(ways, limit):
                    if candidate.graph.fingerprint not in tried:
                        tried.add(candidate.graph.fingerprint)
                        yield candidate

    @property
    def _limit(self) -> int | None:
        return self.options.limit_bytes

    @property
    def machine_limit(self) -> int | None:
        """The machine's memory, if the first candidate needs more; else None."""
        room = _MEMORY_SHARE * self.options.machine.memory_bytes
        if self._whole.peak_bytes <= room or next(self.candidates()).peak_bytes <= room:
            return None
        return int(room)

    def _fastest_first(self, ways: Iterable[Candidate], limit: int) -> Iterator[Candidate]:
        """Yield those that keep the limit; those close to the whole program at once."""
        close = _CLOSE * self.seconds(self._whole)
        others = []
        for candidate in ways:
            if candidate.peak_bytes <= limit:
                if self.seconds(candidate) <= close:
                    yield candidate
                else:
                    others.append(candidate)
        yield from sorted(others, key=self.seconds)

    def seconds(self, candidate: Candidate) -> float:
        """Return what a candidate takes by the time model."""
        known, key = self._known.seconds, candidate.graph.fingerprint
        if key not in known:
            known[key] = estimate_seconds(candidate.graph, self.options.machine)
        return known[key]

    def _fast_ways(self, limit: int) -> Iterator[Candidate]:
        """Yield the whole program in our order, with values recomputed, split, and both."""
        whole, settings = self._whole, [*self._limit_settings(limit)]
        first = len(settings) // 2 if len(self.graph.nodes) <= _FEW_NODES else 1
        if whole.peak_bytes > limit and self.options.threshold_bytes is None:
            yield from self._in_our_order(whole, limit)
        yield from self._within_cache_first(settings[0])
        yield from self._splits(settings[1:first])
        yield from self._in_two_sizes(whole, limit)
        split = []
        for candidate in self._splits(tight_settings(self.options.machine)[:2]):
            split.append(candidate)
            yield candidate  # At once: one that is fast enough ends the search.
        yield from self._combined(split, limit)

    def _in_our_order(self, whole: Candidate, limit: int) -> Iterator[Candidate]:
        """Yield the whole program in our order, where that keeps the limit; slices if faster."""
        ordered = self._final.ordered(whole)
        if ordered is not None and ordered.peak_bytes <= limit:
            yield from self._faster_than(whole)
            yield ordered

    def _within_cache_first(self, settings: SplitSettings) -> Iterator[Candidate]:
        """Yield programs split as without a limit, and by settings; these first if much faster.

        Trips that use everything a limit leaves are rarely faster than those that fit the caches.
        """
        if not self.options.split or not may_go_on():
            return
        found = [self._in_fast_slices(), *self._splits((settings,))]
        if len(found) == 2 and self.seconds(found[1]) < _WORTHWHILE * self.seconds(found[0]):
            found.reverse()
        yield from found

    def _small_ways(self, limit: int) -> Iterator[Candidate]:
        """Yield programs that are split more, also with recomputation, the same for every limit.

        If one of them comes near the limit, also programs split by settings derived from it.
        """
        yield from (split := [*self._splits(tight_settings(self.options.machine))])
        yield from (both := [*self._combined(split, limit)])
        # Many nodes take time to split: only where the tight settings, alone, are near.
        near = split if len(self.graph.nodes) > _FEW_NODES else (*split, *both)
        if min((found.peak_bytes for found in near), default=limit) > _HOPELESS * limit:
            return
        settings = [*self._limit_settings(limit)]
        half = len(settings) // 2
        yield from (own := [*self._splits(settings[1:half])])
        if all(found.peak_bytes > limit for found in (*split, *both, *own)):
            yield from (more := [*self._splits(settings[half:])])
            yield from self._combined([*own, *more], limit)

    def _combined(self, split: Iterable[Candidate], limit: int) -> Iterator[Candidate]:
        """Yield split programs with values recomputed, the fastest first."""
        over = [found for found in split if found.loops and found.peak_bytes > limit]
        for candidate in sorted(over, key=self.seconds)[:_MOST_COMBINED]:
            yield from self._in_two_sizes(candidate, limit)

    def _in_two_sizes(self, candidate: Candidate, limit: int) -> Iterator[Candidate]:
        """Yield a program with values recomputed for a limit, and for less: XLA may take more.

        Or one above the limit, if there is none within.
        """
        for share in _SHARES_OF_LIMIT:
            if not may_go_on():
                break
            found = self._rematerialised(candidate, int(share * limit))
            if found is None:
                break
            yield found
            if found.peak_bytes > limit:
                break

    def _limit_settings(self, limit: int) -> Iterator[SplitSettings]:
        room = max(1, limit - self.fixed_bytes)
        options = self.options
        return limit_settings(room, options.machine, options.split_bytes, self._live_bytes)

    @cached_property
    def _live_bytes(self) -> list[int]:
        """The bytes of each computed value that is alive at the peak, except results."""
        graph = self._whole.graph
        live = Liveness(graph, self.options.donated).live_at_peak()
        return [tensor.nbytes for tensor in live if tensor.value not in set(graph.outputs)]

    def _splits(self, settings: Iterable[SplitSettings]) -> Iterator[Candidate]:
        for item in settings if self.options.split else ():
            if not may_go_on():
                return
            yield self._split(item)

    def _rematerialised(self, candidate: Candidate, limit: int) -> Candidate | None:
        """Return a program with values recomputed until it keeps a limit, or is smallest.

        None if there is nothing to recompute, or the pass is switched off.
        """
        if candidate.peak_bytes <= limit:
            return None
        order = bool(entries_in(Stage.ORDER, self.context))
        if self._known.rematerialiser is None:
            self._known.rematerialiser = Rematerialiser(self.options.machine, order)
        again = Context(self.options, rematerialiser=self._known.rematerialiser, room=limit)
        found = self._final.after(candidate, *passes_in(Stage.OVER_LIMIT, again))
        if found.graph is candidate.graph:
            return None
        return replace(found, is_ordered=order, room=limit)

    def _faster_than(self, unsplit: Candidate) -> Iterator[Candidate]:
        """Yield a split program, although the whole one may run, if the model finds it faster.

        Clearly faster, or as fast with a small part of the memory: the whole program may not run.

        Values that fit no cache travel to memory and back; computed in slices they stay in the
        cache: measured 13 times faster for a kernel product (`python -m benchmarks kernel`).
        """
        limit, settings = self.options.limit_bytes, self._cache_settings
        if not self.options.split or not self._stores_much(unsplit, settings):
            return
        candidate = self._in_fast_slices()
        if not candidate.loops or (limit is not None and candidate.peak_bytes > limit):
            return
        most = _time_for_less_memory(unsplit.peak_bytes / max(1, candidate.peak_bytes))
        if self.seconds(candidate) < most * self.seconds(unsplit):
            yield candidate

    def _in_fast_slices(self) -> Candidate:
        """Return the program in slices for the caches; in larger ones if much faster.

        What each trip adds to, or packs, travels to memory every time, and slices beside it may be
        thin: gradients of attention over 16,384 places take 21.7 s in slices of 64, 13.4 of 256
        (`python -m benchmarks.experiments attention --size full`).
        """
        settings, larger, limit = self._cache_settings, self._larger_settings, self._limit
        found = self._split(settings)
        is_full = any(2 * loop.bytes_after > settings.budget_bytes for loop in found.loops)
        room = math.inf if limit is None else limit - self.fixed_bytes
        if not is_full or larger.budget_bytes > room or self.options.machine.largest_trip:
            return found
        other = self._split(larger)
        is_kept = limit is None or other.peak_bytes <= limit
        is_faster = self.seconds(other) < _WORTHWHILE * self.seconds(found)
        return other if other.loops and is_kept and is_faster else found

    def _stores_much(self, unsplit: Candidate, settings: SplitSettings) -> bool:
        graph, threshold = unsplit.graph, settings.threshold_bytes
        sizes = (type.nbytes for node in Liveness(graph).stored for type in node.types)
        return any(size > threshold for size in sizes) or bool(large_scratch(graph, threshold))

    @property
    def _cache_settings(self) -> SplitSettings:
        """Settings that fit the last-level cache, and the limit if there is one.

        What is cut first is cut again where its slices are larger than a trip's share of the cache:
        attention of length 2,048 takes 68 ms with 17 MB for each head, and 57 with 7 MB.
        """
        trip, limit, options = self.options.machine.trip_bytes, self._limit, self.options
        room = 4 * trip if limit is None else max(1, min(4 * trip, limit - self.fixed_bytes))
        return SplitSettings(
            trip,
            trip,
            room,
            options.split_bytes,
            machine=options.machine,
            cut_scratch=True,
            cut_loops=options.machine.kernels.steps_in_slices,
        )

    @property
    def _larger_settings(self) -> SplitSettings:
        """Settings for slices that no cache holds, the same for every limit."""
        size = _LARGER * self.options.machine.trip_bytes
        return replace(
            self._cache_settings,
            threshold_bytes=size,
            working_set_bytes=size,
            budget_bytes=4 * size,
        )

    def way_of(self, candidate: Candidate) -> Way | None:
        """Return how a candidate was made; None if its settings are not tried for this limit."""
        place, known = None, self._known_settings
        if candidate.settings is not None:
            if candidate.settings not in known:
                return None
            place = known.index(candidate.settings)
        return Way(place, candidate.room, candidate.is_ordered)

    @property
    def _known_settings(self) -> tuple[SplitSettings, ...]:
        """All settings that are tried, for any shapes in the same order."""
        machine, limit = self.options.machine, self._limit
        own = () if limit is None else self._limit_settings(limit)
        return (
            self._cache_settings,
            self._larger_settings,
            *tight_settings(machine),
            *smallest_settings(machine),
            *own,
        )

    def made_in(self, way: Way) -> Candidate | None:
        """Return the program that is made in the way of one for larger shapes.

        None if it is predicted to break the limit.
        """
        limit = self._limit
        found = self._whole if way.place is None else self._split(self._known_settings[way.place])
        if way.room is not None:
            found = self._rematerialised(found, way.room) or found
        if way.is_ordered:
            found = self._final.ordered(found) or found
        return found if limit is None or found.peak_bytes <= limit else None

    def smallest(self) -> Candidate:
        """Return the program with the smallest predicted peak, whatever its speed.

        It ignores the limit, so that the answer is the same for every limit.
        """
        return min(
            [self._whole, *self._smallest_split, *self._smallest_rematerialised],
            key=lambda candidate: candidate.peak_bytes,
        )

    def in_single_steps(self) -> list[Candidate]:
        """Return programs in trips of one step that cut what is alive at the smallest one's peak.

        Predictions are pessimistic about such trips, whose values have one row: XLA drops the axis.
        """
        live = Liveness(self.smallest().graph, self.options.donated).live_at_peak()
        sizes = sorted({tensor.nbytes for tensor in live}, reverse=True)[:_STEP_THRESHOLDS]
        found = [*self._splits(step_settings(sizes, self.options.machine)), *self._smallest_split]
        programs = {item.graph.fingerprint: item for item in found if item.loops}
        return sorted(programs.values(), key=lambda item: item.peak_bytes)

    def with_least_cuts(self) -> list[Candidate]:
        """Return the programs of a search over what to cut, the smallest by prediction first.

        Empty for programs of many nodes, of which each cut takes long.
        """
        if not self.options.split or node_count(self.graph) > _MOST_CUT_NODES:
            return []
        key, known = self.graph.fingerprint, self._known.cuts
        if key not in known and may_go_on():
            found = self._least_cuts()
            if not may_go_on():
                return found
            known[key] = found
        return known.get(key, [])

    def _least_cuts(self) -> list[Candidate]:
        settings = cut_settings(self.smallest().peak_bytes, self.options.machine)
        passes = passes_in(Stage.LOOPS, Context(self.options, settings, [], self._known.alike))
        names = [item.name for item in passes]
        if SPLIT_NAME not in names:
            return []
        place = names.index(SPLIT_NAME)
        start = PassManager().run(self.graph, passes[:place])
        cuts = least_cuts(start, settings, self._peak_of)
        return [self._with_cut(cut, passes[:place], passes[place + 1 :]) for cut in cuts]

    def _with_cut(self, cut: Cut, before: Sequence[Pass], after: Sequence[Pass]) -> Candidate:
        def split(_: Graph, log: PassLog) -> Graph:
            log.applied.extend(cut.applied)
            return cut.graph

        manager = PassManager()
        passes = [*before, Pass(SPLIT_NAME, split, exact=False, bodies=False), *after]
        graph = manager.run(self.graph, passes)
        return self._candidate(graph, (*self.rows, *manager.rows), cut.loops)

    def smallest_of_other_kind(self, candidate: Candidate) -> Candidate | None:
        """Return the whole program for one with loops; otherwise the smallest with loops, if any.

        Where the model is wrong about what XLA stores, it is wrong about one of them.
        """
        if candidate.loops:
            return self._whole
        split = [found for found in self._smallest_split if found.loops]
        return min(split, key=lambda candidate: candidate.peak_bytes, default=None)

    @cached_property
    def _smallest_split(self) -> list[Candidate]:
        if not self.options.split:
            return []
        machine = self.options.machine
        least, *others = smallest_settings(machine)
        found = self._split(least)
        return [*self._splits(tight_settings(machine)), found, *self._splits(others)]

    @cached_property
    def _smallest_rematerialised(self) -> list[Candidate]:
        """The whole program and the smallest split one, with values recomputed."""
        split = min(self._smallest_split, key=lambda found: found.peak_bytes, default=self._whole)
        starts = {start.graph: start for start in (self._whole, split)}.values()
        again = (self._rematerialised(start, 1) for start in starts if may_go_on())
        return [found for found in again if found is not None]

    def why_not_split(self, tensor: PeakValue) -> Refusal | None:
        """Return what is said of a tensor of the smallest program that could not be cut, if known.

        First what is said of a value of its type on its line, then of any other on the line.
        """
        rows = self._split(tight_settings(self.options.machine)[-1]).rows
        # Other passes refuse rewrites, which is no reason for a tensor to be stored.
        refusals = [refusal for row in rows if row.name == SPLIT_NAME for refusal in row.refusals]
        same_line = [found for found in refusals if found.source == tensor.source]
        same_type = [found for found in same_line if found.subject.startswith(f"{tensor.type} of ")]
        return next(iter((*same_type, *same_line)), None)

    def _split(self, settings: SplitSettings) -> Candidate:
        key, known = (self.graph.fingerprint, settings), self._known.splits
        if key not in known:
            known[key] = self._split_anew(settings)
        rows, candidate = known[key]
        return replace(candidate, rows=(*self.rows, *rows))

    def _split_anew(self, settings: SplitSettings) -> tuple[tuple[PassRow, ...], Candidate]:
        loops: list[LoopRow] = []
        manager = PassManager()
        context = Context(self.options, settings, loops, self._known.alike)
        graph = manager.run(self.graph, passes_in(Stage.LOOPS, context))
        rows = tuple(manager.rows)
        candidate = self._candidate(graph, rows, tuple(loops))
        return rows, replace(candidate, settings=settings)

    def _candidate(
        self, graph: Graph, rows: tuple[PassRow, ...], loops: tuple[LoopRow, ...]
    ) -> Candidate:
        return Candidate(graph, rows, loops, self._peak_of(graph))

    def _peak_of(self, graph: Graph) -> int:
        return peak_bytes(graph, self.options.donated)


def _time_for_less_memory(ratio: float) -> float:
    """Return the share of the whole program's time that a split one may take without a limit.

    The whole program takes `ratio` times as many bytes. Each halving is worth as much time as the
    last.
    """
    halvings = math.log(max(1.0, ratio)) / math.log(_MUCH_MEMORY)
    return min(1.0, _WORTHWHILE + (1 - _WORTHWHILE) * halvings)
