"""Find the regions to rewrite next: which values are cut, and along which of their axes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Set
from dataclasses import dataclass

from tracer.errors import Source
from tracer.ir import Label, Node, Value
from tracer.ops.storage import READS
from tracer.optimizer.loops.split.alike import SplitCache
from tracer.optimizer.loops.split.chunk import SplitSettings, choose_chunk
from tracer.optimizer.loops.split.generated import generated_nodes, leaves, nodes_read_again
from tracer.optimizer.loops.split.grouping import Loop, LoopPlan, plan_loops
from tracer.optimizer.loops.split.grow import grow_region
from tracer.optimizer.loops.split.region import Conflict, Region, Subject, is_merged
from tracer.optimizer.loops.split.scratch import large_scratch, views_of_inputs
from tracer.optimizer.loops.split.tiles import longest_slice
from tracer.optimizer.model.liveness import Liveness, node_cost

# Axes whose saving is at least this share of the best one's compete by flops.
_ABOUT = 0.8
# Bytes that all trips read are much less when this many times they are still less.
_MUCH_LESS = 8
# An axis is clearly faster that takes at most this share of the time.
_CLEARLY = 0.8
# An axis is short if another one is this many times as long.
_MUCH_SHORTER = 16


@dataclass(frozen=True)
class Candidate:
    """A region along one axis of its seed, and what decides between it and others.

    Attributes
    ----------
    subject : Subject
        The graph as the region sees it, beside the regions that were chosen before.
    region : Region
    plan : LoopPlan
    axis : int
        Axis of the seed.
    fits : bool
        A trip of one step keeps the budget.
    saved_bytes, kept_bytes : int
        Bytes that are no longer stored, and of large values that are still stored.
    flops : int
        Operations that are done again.
    read_bytes : int
        Bytes that every trip reads whole.
    read_again_bytes : int
        Bytes that every trip computes whole from arrays in storage.
    trips : int
        About how many trips there are: as few as the budget allows.
    """

    subject: Subject
    region: Region
    plan: LoopPlan
    axis: int
    fits: bool
    saved_bytes: int
    kept_bytes: int
    flops: int
    read_bytes: int = 0
    read_again_bytes: int = 0
    trips: int = 1

    @property
    def read_in_all_bytes(self) -> int:
        """Bytes that the trips read whole, all together."""
        return self.trips * self.read_bytes


class RegionSearch:
    """Looks for the region to rewrite next."""

    def __init__(
        self,
        subject: Subject,
        settings: SplitSettings,
        refused: dict[str, tuple[str, Source | None]],
        alike: SplitCache | None = None,
        cuts_again: bool = True,
    ) -> None:
        self.subject = subject
        self.beside = subject
        """The graph beside the regions of the batch that are chosen already."""
        self.settings = settings
        self.refused = refused
        self.alike = SplitCache() if alike is None else alike
        self.cuts_again = cuts_again
        """Bodies above the budget will be split again."""
        self.trusted = Liveness(subject.graph).stored
        everything = set(subject.graph.nodes)
        self.stored = self.trusted if settings.trust_fusion else everything
        self.with_scratch = self._with_scratch()
        self.views = views_of_inputs(self.with_scratch)

    def is_large(self, node: Node) -> bool:
        """Tell whether a node's result is above the threshold."""
        return largest_bytes(node) > self.settings.threshold_bytes

    def _with_scratch(self) -> dict[Node, int]:
        """Return what nodes store besides their results, where that is above the threshold."""
        if not self.settings.cut_scratch:
            return {}
        return large_scratch(self.subject.graph, self.settings.threshold_bytes)

    def seeds(self) -> list[Node]:
        """Return what is cut: stored results above the threshold, largest first, and views."""
        large = [
            node
            for node in self.subject.graph.nodes
            if (node in self.stored or node in self.views)
            and node not in self.subject.outputs
            and node not in self.subject.pieces.folds
            and node not in self.subject.pieces.reads
            and not node.bodies
            and self.is_large(node)
        ]
        return sorted(large, key=lambda node: -largest_bytes(node))

    def batch(self) -> list[Candidate]:
        """Return what to rewrite next: regions that are apart from each other.

        The first is that of the largest value. Others follow while they are apart, and take its
        nodes for what they will be, loops: a program with hundreds of large values, such as one of
        many layers, is not written anew for each of them.
        """
        self.beside = self.subject
        found: list[Candidate] = []
        spans: list[range] = []
        for seed in self.seeds():
            if any(self.subject.position[seed] in span for span in spans):
                continue
            candidate = self.best(seed)
            if candidate is None:
                continue
            span = self.subject.span(candidate.region)
            if any(span.start < other.stop and other.start < span.stop for other in spans):
                break
            found.append(candidate)
            spans.append(span)
            self.beside = self.beside.besides(candidate.region, _read_by_bodies(candidate))
            # Reasons count when all others are written: those that are refused now may change.
            self.refused = {}
        return found

    def cuts(self) -> Iterator[Candidate]:
        """Yield all there is to rewrite: each seed along each of its axes."""
        for seed in self.seeds():
            for axis, label in enumerate(self.subject.rule(seed).results[0]):
                found = self._candidate(seed, axis, label)
                if isinstance(found, Candidate):
                    yield found

    def best(self, seed: Node) -> Candidate | None:
        """Return the best axis to cut a seed along, or None and keep the reason.

        Among axes that read nothing from storage again, if there are any, fit the budget, leave
        nothing large stored that another axis would not, and save about the most bytes, the one
        that computes least again wins, then the outermost (of a tile, one that merges nothing, and
        a long one); but for one that is clearly faster by the time model.
        """
        candidates, reasons = [], []
        for axis, label in enumerate(self.subject.rule(seed).results[0]):
            found = self._candidate(seed, axis, label)
            if isinstance(found, str):
                reasons.append(f"axis {axis}: {found}")
            else:
                candidates.append(found)
        if not candidates:
            what = f"{seed.types[0]} of {seed.known_name}"
            reason = "; ".join(reasons) or "it has no axis to cut"
            self.refused.setdefault(what, (reason, seed.source))
            return None
        once = [candidate for candidate in candidates if not candidate.read_again_bytes]
        fitting = self._fitting(once or candidates)
        if not self.settings.is_tile:  # What a tile adds to is stored anyhow, outside of it.
            least = min(c.kept_bytes for c in fitting) + self.settings.threshold_bytes
            fitting = [c for c in fitting if c.kept_bytes <= least]
        most = max(candidate.saved_bytes for candidate in fitting)
        about_most = [c for c in fitting if c.saved_bytes >= _ABOUT * most]
        chosen = min(about_most, key=lambda c: (c.flops, *self._tile_order(seed, c), c.axis))
        is_large = largest_bytes(seed) >= self.settings.machine.sizes.timed_bytes
        is_timed = self.settings.by_time and len(about_most) > 1 and is_large
        return self._faster(chosen, about_most) if is_timed else chosen

    def _tile_order(self, seed: Node, candidate: Candidate) -> tuple[bool, ...]:
        """Return reasons against an axis of a tile: it merges the tile's results, or is short."""
        if not self.settings.is_tile:
            return ()
        shape, heads = seed.types[0].shape, candidate.region.heads
        is_short = shape[candidate.axis] < max(shape) // _MUCH_SHORTER
        return is_merged(candidate.subject, heads), is_short

    def _fitting(self, candidates: list[Candidate]) -> list[Candidate]:
        """Return those whose trips fit the budget, at once or cut again along an axis that does.

        Batch axes are cut outside: along them trips read other operands. Along another axis of
        batched products every trip would read, and the library pack, an operand of all the batches
        again. What all trips read counts beside one: a layer's weights are read along a batch axis
        too. An axis that large heads reduce is none: what they add to is stored whole.
        """
        fitting = [candidate for candidate in candidates if candidate.fits]
        if not self.cuts_again:
            return fitting or candidates
        read = min((candidate.read_bytes for candidate in fitting), default=0)
        in_all = min((candidate.read_in_all_bytes for candidate in fitting), default=0)

        def is_batch(candidate: Candidate) -> bool:
            heads = candidate.region.heads.items()
            is_parallel = all(
                candidate.subject.rule(head).is_parallel(label) or not self.is_large(head)
                for head, label in heads
            )
            is_less = candidate.read_bytes < read
            return is_parallel and is_less and candidate.read_in_all_bytes * _MUCH_LESS < in_all

        return [c for c in candidates if c.fits or is_batch(c)] or candidates

    def _faster(self, chosen: Candidate, others: list[Candidate]) -> Candidate:
        """Return a candidate that takes much less time than the chosen one, if there is one."""
        seconds = {candidate.axis: self._seconds(candidate) for candidate in others}
        fastest = min(others, key=lambda candidate: seconds[candidate.axis])
        return fastest if seconds[fastest.axis] < _CLEARLY * seconds[chosen.axis] else chosen

    def _seconds(self, candidate: Candidate) -> float:
        """Return about how long the loops of a candidate take; tiles merge seldom."""
        subject, region, total = candidate.subject, candidate.region, 0.0
        is_tiled = self.cuts_again and not self.settings.is_tile
        for loop in candidate.plan.loops:
            rows = choose_chunk(subject, region, loop, self.settings, self.alike)
            machine = self.settings.machine
            trips = self.alike.trips(subject, region, loop, machine)
            is_long = is_tiled and is_merged(subject, loop.heads)
            sizes = {rows, longest_slice(region, loop, rows, machine) if is_long else rows}
            total += min(trips.seconds(size) / size for size in sizes) * region.length
        return total

    def _candidate(self, seed: Node, axis: int, label: Label) -> Candidate | str:
        """Return the result of cutting a seed along an axis, or why it cannot be cut.

        In the largest steps that the reshapes on the way ask for, if they fit the budget.
        """
        if not self.subject.rule(seed).is_parallel(label):
            return f"{seed.known_name} needs it whole"
        if seed.types[0].shape[axis] < 2:
            return "it has one element"
        first = found = self._grown(seed, axis, label, 2)
        steps = self.subject.steps(seed, label)
        while isinstance(found, Candidate) and found.region.length < steps and not found.fits:
            found = self._grown(seed, axis, label, found.region.length + 1)
        return found if isinstance(found, Candidate) and found.fits else first

    def _grown(self, seed: Node, axis: int, label: Label, shortest: int) -> Candidate | str:
        subject = self.beside
        region = grow_region(subject, seed, label, self.is_large, shortest)
        if isinstance(region, Conflict):
            return str(region)
        saved = region.saved_bytes(self.stored)
        saved += sum(self.with_scratch.get(head, 0) for head in region.heads)
        if saved <= 0:
            return "every value on the way has to be stored"
        plan = plan_loops(subject, region)
        each, budget = self._slice_bytes(region, plan.loops), self.settings.budget_bytes
        trips = min(region.length, math.ceil(each * region.length / max(1, budget)))
        taken = {*_operands(subject, plan.loops)}
        kept = self._kept_bytes(region) + _whole_storage_bytes(region, taken)
        again, whole = _repeated_flops(plan.loops), _taken_whole(region, taken)
        read = sum(v.type.nbytes for v in whole if not generated_nodes(v, region))
        stored = sum(v.type.nbytes for v in whole if nodes_read_again(v, region))
        return Candidate(
            subject, region, plan, axis, each <= budget, saved, kept, again, read, stored, trips
        )

    def _kept_bytes(self, region: Region) -> int:
        """Return the bytes of large values that the region still has to store."""
        kept = (region.virtual.keys() & region.heads.keys()) - self.subject.outputs
        return sum(type.nbytes for node in kept for type in node.types)

    def _slice_bytes(self, region: Region, loops: list[Loop]) -> float:
        """Return a bound on the bytes of one element's slices in the largest loop."""
        totals = [
            sum(largest_bytes(node) for node, _ in loop.nodes if node in self.stored)
            for loop in loops
        ]
        return max(totals) / region.length


def _operands(subject: Subject, loops: list[Loop]) -> Iterator[tuple[Value, int | None]]:
    """Yield what the steps of loops take, with the axis along which they take a slice."""
    for loop in loops:
        for node, label in loop.nodes:
            for _, value, axis in subject.sliced_operands(node, label):
                yield value, axis


def _whole_storage_bytes(region: Region, taken: Set[tuple[Value, int | None]]) -> int:
    """Return the bytes of arrays in storage that are stored whole: the region does not cut them."""
    read = {v.node for v, _ in taken if v.node.op in READS and v.node not in region.virtual}
    return sum(node.types[0].nbytes for node in read if not region.reads_again(node))


def _taken_whole(region: Region, taken: Set[tuple[Value, int | None]]) -> set[Value]:
    """Return the values that each step takes whole: stored, or made by it."""
    whole = {value for value, axis in taken if axis is None}
    return {v for v in whole if v.node not in region.virtual or nodes_read_again(v, region)}


def _read_by_bodies(candidate: Candidate) -> set[Node]:
    """Return the nodes from whose results the bodies generate large values: they are stored."""
    taken = {value for value, _ in _operands(candidate.subject, candidate.plan.loops)}
    made = (generated_nodes(value, candidate.region) for value in taken)
    return {leaf.node for nodes in made for leaf in leaves(nodes)}


def largest_bytes(node: Node) -> int:
    """Return the bytes of a node's largest result."""
    return max(type.nbytes for type in node.types)


def _repeated_flops(loops: list[Loop]) -> int:
    """Return the operations of nodes that were computed before, in an earlier loop."""
    times = Counter(node for loop in loops for node, _ in loop.nodes)
    return sum((count - 1) * node_cost(node).flops for node, count in times.items())
