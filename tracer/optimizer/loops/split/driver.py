"""The split pass: pick seeds and axes, and turn regions into loops until nothing large is left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tracer import ops
from tracer.errors import Source
from tracer.ir import Graph, Node, Value, map_bodies
from tracer.optimizer.loops.split.alike import SplitCache, Tiled
from tracer.optimizer.loops.split.carry import carry_types
from tracer.optimizer.loops.split.chunk import (
    SplitSettings,
    choose_chunk,
    dividing,
    reads_large_pages,
    stored_bytes,
)
from tracer.optimizer.loops.split.grouping import Loop
from tracer.optimizer.loops.split.loop import Emitted, evened, overlapping
from tracer.optimizer.loops.split.region import NO_PIECES, Pieces, Region, Subject
from tracer.optimizer.loops.split.rewrite import Rewrite, Written, write_regions
from tracer.optimizer.loops.split.search import Candidate, RegionSearch, largest_bytes
from tracer.optimizer.loops.split.tiles import tile_rows
from tracer.optimizer.model.liveness import body_extra_bytes
from tracer.optimizer.passes import PassLog


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
        Slice size, full trips, and the elements left over for the last, shorter slice. Below 0: as
        many elements are computed again, as the last trip begins early. Together the axis's length:
        `trips * chunk + remainder`.
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


def split_graph(
    graph: Graph,
    settings: SplitSettings,
    log: PassLog,
    alike: SplitCache | None = None,
    depth: int = 0,
    pieces: Pieces = NO_PIECES,
    calls_only: bool = False,
) -> tuple[Graph, list[LoopRow]]:
    """Compute every value above the threshold in slices, where the axis rules allow it.

    With `calls_only` that is only done where outlined calls are cut too.

    Sums that are accumulated over slices are added in another order than XLA would: results may
    differ by rounding, as they do between two BLAS libraries. Everything else is exact. `alike` is
    what other runs found, with other settings too.
    """
    alike = SplitCache() if alike is None else alike
    rows: list[LoopRow] = []
    refused: dict[str, tuple[str, Source | None]] = {}
    # Bodies that are there already are as deep as what holds them: they are no tiles.
    if not calls_only:
        graph = map_bodies(graph, lambda body: _tile(body, settings, log, rows, alike, depth - 1))
    while True:
        search = RegionSearch(
            Subject(graph, pieces), settings, refused, alike, depth < _MAXIMUM_DEPTH
        )
        candidates = search.batch()
        if calls_only:
            candidates = [item for item in candidates if _cuts_calls(item)]
        if not candidates:
            break
        graph, new, pieces = write_candidates(search, candidates, log, alike, depth)
        rows.extend(new)
    for what, (reason, source) in refused.items():
        log.refuse(what, reason, source)
    return graph, rows


def _cuts_calls(candidate: Candidate) -> bool:
    region = candidate.region
    return any(node.op is ops.outlined_call for node in (*region.virtual, *region.heads))


def write_candidates(
    search: RegionSearch, candidates: list[Candidate], log: PassLog, alike: SplitCache, depth: int
) -> tuple[Graph, list[LoopRow], Pieces]:
    """Write the loops of candidates whose spans are apart.

    Returns
    -------
    Graph
    list of LoopRow
        The loops of each candidate, inner ones last.
    Pieces
        What this and earlier splits wrote around the loops.
    """
    subject = search.subject
    inner: dict[Region, list[LoopRow]] = {item.region: [] for item in candidates}
    subject_of = {item.region: item.subject for item in candidates}
    everything = range(len(subject.graph.nodes)) if len(candidates) == 1 else None

    def rewrite(item: Candidate) -> Rewrite:
        bodies = _Bodies(search, item.subject, item.region, alike, depth, log, inner[item.region])
        span = everything or subject.span(item.region)
        return Rewrite(
            item.subject, item.region, item.plan, span, bodies.chunk_of, bodies.transform
        )

    in_order = sorted(map(rewrite, candidates), key=lambda item: item.span.start)
    graph, written, mapping = write_regions(subject.graph, in_order)
    of_region = {item.region: new for item, new in zip(in_order, written, strict=True)}
    # What only another loop of these read, and makes itself now, is computed no more.
    alive = {body for node in graph.nodes for body in node.body_graphs}
    rows: list[LoopRow] = []
    for region, more in inner.items():
        new = [
            _row(search, subject_of[region], region, of_region[region], item)
            for item in of_region[region].loops
            if item.body in alive
        ]
        for node, conflict in region.kept.items():
            log.refuse(f"{node.types[0]} of {node.known_name}", f"stored, {conflict}", node.source)
        log.applied.extend(f"{row.axis}: {row.trips} trips of {row.chunk}" for row in new)
        rows += [*new, *more] if new else []
    heads = (head for region in inner for head in region.heads)
    folds = _carried_over((*subject.pieces.folds, *heads), mapping)
    made = (loop.reads for new in written for loop in new.loops)
    reads = _carried_over(subject.pieces.reads, mapping).union(*made)
    return graph, rows, Pieces(folds, reads)


@dataclass
class _Bodies:
    """The slice sizes of a region's loops, and their bodies, which may be split again."""

    search: RegionSearch
    subject: Subject
    region: Region
    alike: SplitCache
    depth: int
    log: PassLog
    rows: list[LoopRow]
    """Of the loops within bodies."""
    tiles: list[Loop] = field(default_factory=list)

    def chunk_of(self, loop: Loop) -> int:
        settings = self.search.settings
        rows = choose_chunk(self.subject, self.region, loop, settings, self.alike)
        return self._evened(loop, self._wide(loop, rows))

    def _evened(self, loop: Loop, rows: int) -> int:
        """Return a smaller slice size that leaves no remainder to compile, if one is as good."""
        if reads_large_pages(self.region, loop, rows):
            return rows  # Those of a part of a page are slow.
        length, machine = self.region.length, self.search.settings.machine
        rows = evened(self.subject, loop, length, rows, machine.sizes.vector_rows)
        if length % rows == 0 or overlapping(self.subject, loop, length, rows):
            return rows
        if stored_bytes(loop):
            return rows  # Whole pages are read.
        trips = self.alike.trips(self.subject, self.region, loop, machine)
        return dividing(length, rows, trips.seconds)

    def _wide(self, loop: Loop, rows: int) -> int:
        """Return the slice size for tiles, where that helps."""
        subject, settings = self.subject, self.search.settings
        if self.depth or settings.in_steps:
            return rows  # Within a loop already: to try tiles takes a second split of each body.

        def cut_again(body: Graph) -> tuple[Graph, list[int]]:
            inner: list[LoopRow] = []
            tiled = self._split(body, loop, True, PassLog(), inner)
            return tiled, [row.chunk * row.trips + row.remainder for row in inner]

        wide = tile_rows(subject, self.region, loop, rows, settings, self.alike, cut_again)
        if wide != rows:
            self.tiles.append(loop)
        return wide

    def transform(self, body: Graph, loop: Loop) -> Graph:
        is_tile = any(loop is other for other in self.tiles)
        return self._split(body, loop, is_tile, self.log, self.rows)

    def _split(
        self, body: Graph, loop: Loop, is_tile: bool, log: PassLog, rows: list[LoopRow]
    ) -> Graph:
        body, count = self.alike.body(body), len(carry_types(self.subject, loop))
        pieces = Pieces({value.node for value in body.outputs[1 : 1 + count]})
        settings = self.search.settings
        settings = replace(settings, is_tile=is_tile or settings.is_tile)
        return _tile(body, settings, log, rows, self.alike, self.depth, pieces)


def _carried_over(nodes: Iterable[Node], mapping: Mapping[Value, Value]) -> set[Node]:
    """Return the new nodes of those that are still stored."""
    results = (value for node in nodes for value in node.results)
    return {mapping[value].node for value in results if value in mapping}


def _tile(
    body: Graph,
    settings: SplitSettings,
    log: PassLog,
    rows: list[LoopRow],
    alike: SplitCache,
    depth: int,
    pieces: Pieces = NO_PIECES,
) -> Graph:
    """Split a body again, along another axis, while a trip is over the budget and it helps."""
    whole = body_extra_bytes(body)
    if depth >= _MAXIMUM_DEPTH or settings.in_steps or whole <= settings.budget_bytes:
        return body

    def tile() -> Tiled:
        inner = PassLog()
        tiled, more = split_graph(body, settings, inner, alike, depth + 1, pieces)
        if body_extra_bytes(tiled) > _WORTHWHILE * whole:
            return body, (), ()
        return tiled, tuple(more), tuple(inner.applied)

    tiled, more, applied = alike.tiled(body, pieces, (settings, depth), tile)
    rows.extend(more)
    log.applied.extend(applied)
    return tiled


def _blocks(subject: Subject, region: Region, node: Node) -> str:
    """Return the steps along the axis, and what each takes of the node if more than an element."""
    label = region.virtual.get(node, region.heads.get(node))
    labels = subject.rule(node).results[0]
    if label not in labels or node.types[0].shape[labels.index(label)] == region.length:
        return str(region.length)
    size = node.types[0].shape[labels.index(label)] // region.length
    return f"{region.length} blocks of {size}"


def _row(
    search: RegionSearch, subject: Subject, region: Region, written: Written, emitted: Emitted
) -> LoopRow:
    inside = {node for node, _ in emitted.loop.nodes if node in region.virtual}
    place_of = subject.position
    virtual = sorted(
        inside & search.trusted or inside, key=lambda node: (-largest_bytes(node), place_of[node])
    )
    first = virtual[0] if virtual else next(iter(emitted.loop.heads))
    place = f" ({first.source})" if first.source else ""
    after = body_extra_bytes(emitted.body)
    return LoopRow(
        tensors=tuple((f"{node.types[0]} of {node.known_name}", node.source) for node in virtual),
        axis=f"axis of {_blocks(subject, region, first)} of {first.types[0]}{place}",
        chunk=emitted.chunk,
        trips=emitted.trips,
        remainder=emitted.remainder,
        combiners=emitted.combiners,
        bytes_before=sum(largest_bytes(node) for node in virtual),
        bytes_after=after,
        extra_flops=written.extra_flops,
    )
