"""The split pass: pick seeds and axes, rewrite regions into loops until nothing large is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Set
from dataclasses import dataclass

from tracer.ir import Graph, Label, Node, Value, map_bodies
from tracer.optimizer.liveness import Liveness, body_extra_bytes, graph_flops, node_cost
from tracer.optimizer.passes import PassLog
from tracer.optimizer.split.chunk import SplitSettings, choose_chunk, signature
from tracer.optimizer.split.grow import grow_region
from tracer.optimizer.split.levels import Loop, LoopPlan, plan_loops
from tracer.optimizer.split.loop import Emitted, split_region
from tracer.optimizer.split.region import NO_PIECES, Conflict, Pieces, Region, Subject
from tracer.source import Source


@dataclass(frozen=True)
class LoopRow:
    """One loop of the plan, for people: what is computed in slices, along what, and the price.

    Attributes
    ----------
    tensors : tuple of (str, Source or None)
        The tensors that are no longer stored, largest first, with the user's line.
    axis : str
        The axis that is cut, as "axis 0 of float32[...] (line)".
    chunk, trips, remainder : int
        Slice size, full trips, and the elements left over for the last, shorter slice.
    combiners : tuple of str
        How each result is assembled: "write" into the result, or the op that accumulates.
    bytes_before, bytes_after : int
        Bytes of the tensors whole, and bytes a trip takes.
    extra_flops : int
        Operations that are done again because slices are recomputed.
    """

    tensors: tuple[tuple[str, Source | None], ...]
    axis: str
    chunk: int
    trips: int
    remainder: int
    combiners: tuple[str, ...]
    bytes_before: int
    bytes_after: int
    extra_flops: int


# Loops within loops: two axes are enough for a tile, a third for batches of them.
_MAXIMUM_DEPTH = 2
# An inner loop has to take a trip's bytes below this share.
_WORTHWHILE = 0.75
# Axes whose saving is at least this share of the best one's compete by flops.
_ABOUT = 0.8


@dataclass(frozen=True)
class _Candidate:
    region: Region
    plan: LoopPlan
    axis: int
    fits: bool
    saved_bytes: int
    kept_bytes: int
    flops: int


def split_graph(
    graph: Graph,
    settings: SplitSettings,
    log: PassLog,
    depth: int = 0,
    pieces: Pieces = NO_PIECES,
) -> tuple[Graph, list[LoopRow]]:
    """Compute every value above the threshold in slices, where the axis rules allow it.

    Sums that are accumulated over slices are added in another order than XLA would: results may
    differ by rounding, as they do between two BLAS libraries. Everything else is exact.
    """
    rows: list[LoopRow] = []
    refused: dict[str, tuple[str, Source | None]] = {}
    graph = map_bodies(graph, lambda body: _tile(body, settings, log, rows, depth))
    while True:
        search = _Search(Subject(graph, pieces), settings, refused)
        candidate = next((found for found in map(search.best, search.seeds()) if found), None)
        if candidate is None:
            break
        graph, new, pieces = _apply(search, candidate, log, depth)
        rows.extend(new)
    for what, (reason, source) in refused.items():
        log.refuse(what, reason, source)
    return graph, rows


def _apply(
    search: _Search, candidate: _Candidate, log: PassLog, depth: int
) -> tuple[Graph, list[LoopRow], Pieces]:
    """Write the loops of one candidate.

    Returns
    -------
    Graph
    list of LoopRow
        Its loops, inner ones last.
    Pieces
        What this and earlier splits wrote around the loops.
    """
    subject, settings, region = search.subject, search.settings, candidate.region
    inner: list[LoopRow] = []
    chunks: dict[Hashable, int] = {}

    def chunk_of(loop: Loop) -> int:
        # Once for loops that are alike: those of a program whose steps were written out.
        alike = signature(loop)
        if alike not in chunks:
            chunks[alike] = choose_chunk(subject, region, loop, settings)
        return chunks[alike]

    def transform(body: Graph, pieces: Pieces) -> Graph:
        return _tile(body, settings, log, inner, depth, pieces)

    graph, emitted, mapping = split_region(subject, region, candidate.plan, chunk_of, transform)
    for node, conflict in region.kept.items():
        log.refuse(f"{node.types[0]} of {node.name}", f"stored, {conflict}", node.source)
    extra = max(0, graph_flops(graph) - graph_flops(subject.graph))
    rows = [_row(subject, region, search.trusted, item, extra) for item in emitted]
    log.applied.extend(f"{row.axis}: {row.trips} trips of {row.chunk}" for row in rows)
    folds = _carried_over((*subject.pieces.folds, *region.heads), mapping)
    reads = _carried_over(subject.pieces.reads, mapping).union(*(item.reads for item in emitted))
    return graph, [*rows, *inner], Pieces(folds, reads)


def _carried_over(nodes: Iterable[Node], mapping: Mapping[Value, Value]) -> set[Node]:
    """Return the new nodes of those that are still stored."""
    results = (value for node in nodes for value in node.results)
    return {mapping[value].node for value in results if value in mapping}


def _tile(
    body: Graph,
    settings: SplitSettings,
    log: PassLog,
    rows: list[LoopRow],
    depth: int,
    pieces: Pieces = NO_PIECES,
) -> Graph:
    """Split a body again, along another axis, while a trip is over the budget and it helps."""
    whole = body_extra_bytes(body)
    if depth >= _MAXIMUM_DEPTH or whole <= settings.budget_bytes:
        return body
    inner_log = PassLog()
    tiled, more = split_graph(body, settings, inner_log, depth + 1, pieces)
    if body_extra_bytes(tiled) > _WORTHWHILE * whole:
        return body
    rows.extend(more)
    log.applied.extend(inner_log.applied)
    return tiled


class _Search:
    """Looks for the region to rewrite next."""

    def __init__(
        self,
        subject: Subject,
        settings: SplitSettings,
        refused: dict[str, tuple[str, Source | None]],
    ) -> None:
        self.subject = subject
        self.settings = settings
        self.refused = refused
        self.trusted = Liveness(subject.graph).stored
        everything = set(subject.graph.nodes)
        self.stored = self.trusted if settings.trust_fusion else everything

    def is_large(self, node: Node) -> bool:
        """Tell whether a node's result is above the threshold."""
        return _largest(node) > self.settings.threshold_bytes

    def seeds(self) -> list[Node]:
        """Return nodes whose stored results are above the threshold, largest first."""
        large = [
            node
            for node in self.subject.graph.nodes
            if node in self.stored
            and node not in self.subject.outputs
            and node not in self.subject.pieces.folds
            and node not in self.subject.pieces.reads
            and not node.bodies
            and self.is_large(node)
        ]
        return sorted(large, key=lambda node: -_largest(node))

    def best(self, seed: Node) -> _Candidate | None:
        """Return the best axis to cut a seed along, or None and keep the reason.

        Among axes that fit the budget, leave nothing large stored that another axis would not, and
        save about the most bytes, the one that computes least again wins, then the outermost.
        """
        candidates, reasons = [], []
        for axis, label in enumerate(self.subject.rule(seed).results[0]):
            found = self._candidate(seed, axis, label)
            if isinstance(found, str):
                reasons.append(f"axis {axis}: {found}")
            else:
                candidates.append(found)
        if not candidates:
            what = f"{seed.types[0]} of {seed.name}"
            reason = "; ".join(reasons) or "it has no axis to cut"
            self.refused.setdefault(what, (reason, seed.source))
            return None
        fitting = [c for c in candidates if c.fits] or candidates
        least = min(candidate.kept_bytes for candidate in fitting) + self.settings.threshold_bytes
        fitting = [c for c in fitting if c.kept_bytes <= least]
        most = max(candidate.saved_bytes for candidate in fitting)
        about_most = [c for c in fitting if c.saved_bytes >= _ABOUT * most]
        return min(about_most, key=lambda candidate: (candidate.flops, candidate.axis))

    def _candidate(self, seed: Node, axis: int, label: Label) -> _Candidate | str:
        """Return what cutting a seed along an axis gives, or why it cannot be done.

        In the largest steps that the reshapes on the way ask for, if they fit the budget.
        """
        if not self.subject.rule(seed).is_parallel(label):
            return f"{seed.name} needs it whole"
        if seed.types[0].shape[axis] < 2:
            return "it has one element"
        first = found = self._grown(seed, axis, label, 2)
        steps = self.subject.steps(seed, label)
        while isinstance(found, _Candidate) and found.region.length < steps and not found.fits:
            found = self._grown(seed, axis, label, found.region.length + 1)
        return found if isinstance(found, _Candidate) and found.fits else first

    def _grown(self, seed: Node, axis: int, label: Label, shortest: int) -> _Candidate | str:
        region = grow_region(self.subject, seed, label, self.is_large, shortest)
        if isinstance(region, Conflict):
            return str(region)
        saved = region.saved_bytes(self.stored)
        if saved <= 0:
            return "every value on the way has to be stored"
        plan = plan_loops(self.subject, region)
        fits = self._slice_bytes(region, plan.loops) <= self.settings.budget_bytes
        kept, again = self._kept_bytes(region), _repeated_flops(plan.loops)
        return _Candidate(region, plan, axis, fits, saved, kept, again)

    def _kept_bytes(self, region: Region) -> int:
        """Return the bytes of large values that the region has to store all the same."""
        kept = (region.virtual.keys() & region.heads.keys()) - self.subject.outputs
        return sum(type.nbytes for node in kept for type in node.types)

    def _slice_bytes(self, region: Region, loops: list[Loop]) -> float:
        """Return a bound on the bytes of one element's slices in the largest loop."""
        totals = [
            sum(_largest(node) for node, _ in loop.nodes if node in self.stored) for loop in loops
        ]
        return max(totals) / region.length


def _largest(node: Node) -> int:
    return max(type.nbytes for type in node.types)


def _repeated_flops(loops: list[Loop]) -> int:
    """Return the operations of nodes that were computed before, in an earlier loop."""
    times = Counter(node for loop in loops for node, _ in loop.nodes)
    return sum((count - 1) * node_cost(node).flops for node, count in times.items())


def _blocks(subject: Subject, region: Region, node: Node) -> str:
    """Return the steps along the axis, and what each takes of the node if more than an element."""
    label = region.virtual.get(node, region.heads.get(node))
    labels = subject.rule(node).results[0]
    if label not in labels or node.types[0].shape[labels.index(label)] == region.length:
        return str(region.length)
    size = node.types[0].shape[labels.index(label)] // region.length
    return f"{region.length} blocks of {size}"


def _row(
    subject: Subject, region: Region, stored: Set[Node], emitted: Emitted, extra_flops: int
) -> LoopRow:
    inside = {node for node, _ in emitted.loop.nodes if node in region.virtual}
    virtual = sorted(inside & stored or inside, key=lambda node: -_largest(node))
    first = virtual[0] if virtual else next(iter(emitted.loop.heads))
    place = f" ({first.source})" if first.source else ""
    after = body_extra_bytes(emitted.body)
    return LoopRow(
        tensors=tuple((f"{node.types[0]} of {node.name}", node.source) for node in virtual),
        axis=f"axis of {_blocks(subject, region, first)} of {first.types[0]}{place}",
        chunk=emitted.chunk,
        trips=emitted.trips,
        remainder=emitted.remainder,
        combiners=emitted.combiners,
        bytes_before=sum(_largest(node) for node in virtual),
        bytes_after=after,
        extra_flops=extra_flops,
    )
