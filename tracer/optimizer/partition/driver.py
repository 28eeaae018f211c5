"""The shard pass: axes that the planner would split for memory are first spread over devices.

Regions, axes and refusals are those of the split pass, with these differences. There are as many
slices as devices, and each device keeps its own. Results count as worth cutting too. What merges
slices in its own order (top-k, cumulative sums) cannot be spread. An axis that the devices do not
divide is cut as far as possible, and every device computes the remaining steps.
"""

from __future__ import annotations

from dataclasses import replace

from tracer.errors import Source
from tracer.ir import Builder, Graph, Label, Node, Value
from tracer.optimizer.loops.split.chunk import SplitSettings
from tracer.optimizer.loops.split.copying import Copying
from tracer.optimizer.loops.split.grouping import plan_loops
from tracer.optimizer.loops.split.grow import grow_region
from tracer.optimizer.loops.split.region import Conflict, Pieces, Region, Subject, merge_of
from tracer.optimizer.loops.split.search import Candidate, RegionSearch, largest_bytes
from tracer.optimizer.model.liveness import node_cost
from tracer.optimizer.partition.emit import emit_shard, shares
from tracer.optimizer.partition.through_loops import spread_loops
from tracer.optimizer.passes import Pass, PassLog


class ShardSearch(RegionSearch):
    """Looks for the region to spread over `count` devices next."""

    def __init__(
        self,
        subject: Subject,
        settings: SplitSettings,
        refused: dict[str, tuple[str, Source | None]],
        count: int,
    ) -> None:
        # The parts run at the same time: how long slices take in turns says nothing.
        super().__init__(subject, replace(settings, by_time=False), refused)
        self.count = count

    def seeds(self) -> list[Node]:
        """Return nodes whose results are above the threshold, the program's results too."""
        large = [
            node
            for node in self.subject.graph.nodes
            if (node in self.stored or node in self.subject.outputs)
            and node not in self.subject.pieces.folds
            and not node.bodies
            and self.is_large(node)
        ]
        return sorted(large, key=lambda node: -largest_bytes(node))

    def _grown(self, seed: Node, axis: int, label: Label, shortest: int) -> Candidate | str:
        region = grow_region(self.subject, seed, label, self.is_large, shortest)
        if isinstance(region, Conflict):
            return str(region)
        if region.length < self.count:
            return f"{region.length} are too few to cut into {self.count} parts"
        if region.length % self.count and not self._pays(region):
            return (
                f"{region.length} cannot be cut into {self.count} equal parts, and the results "
                "are most of what is computed along it"
            )
        plan = plan_loops(self.subject, region, may_stream=False)
        for loop in plan.loops:
            for head, cut in loop.heads.items():
                if merge_of(self.subject, head, cut) is not None:
                    return f"{head.name} takes its slices one after the other"
        saved = _cut_bytes(self.subject, region, self.count)
        kept = self._kept_bytes(region)
        flops = self._repeated_flops(region)
        return Candidate(self.subject, region, plan, axis, True, saved, kept, flops)

    def _pays(self, region: Region) -> bool:
        """Tell whether more is cut than is gathered or joined whole on every device."""
        joined = sum(
            type.nbytes
            for head, label in region.heads.items()
            if label not in self.subject.rule(head).reduced
            for type in head.types
        )
        return not joined or region.saved_bytes(self.stored) > joined

    def _repeated_flops(self, region: Region) -> int:
        """Return the operations on the steps that every device computes; at least 1 for any."""
        remainder = region.length % self.count
        if not remainder:
            return 0
        nodes = region.virtual.keys() | region.heads.keys()
        flops = sum(node_cost(node).flops for node in nodes)
        return 1 + flops * remainder * (self.count - 1) // region.length


def _cut_bytes(subject: Subject, region: Region, count: int) -> int:
    """Return the bytes of all that is cut: virtual values, and results along the axis.

    Results along an axis that the devices do not divide are whole on each.
    """
    nodes = {**region.virtual, **region.heads}
    return sum(
        type.nbytes
        for node, label in nodes.items()
        if label not in subject.rule(node).reduced
        and not (node in region.heads and region.length % count)
        for type in node.types
    )


def shard_pass(count: int, settings: SplitSettings) -> Pass:
    """Return the pass that gives each of `count` devices a part of large values."""

    def run(graph: Graph, log: PassLog) -> Graph:
        return shard_graph(graph, count, settings, log)

    return Pass("shard", run, exact=False, bodies=False)


def shard_graph(graph: Graph, count: int, settings: SplitSettings, log: PassLog) -> Graph:
    """Compute every value above the threshold in `count` parts, where the axis rules allow it.

    Parameters
    ----------
    graph : Graph
    count : int
        The number of devices.
    settings : SplitSettings
        Its threshold says what is large.
    log : PassLog
        Is told each axis, and what could not be cut and why.
    """
    refused = dict[str, tuple[str, Source | None]]()
    graph, made = spread_loops(graph, count, settings, log)
    pieces = Pieces(made)
    while True:
        search = ShardSearch(Subject(graph, pieces), settings, refused, count)
        chosen = next(filter(None, map(search.best, search.seeds())), None)
        if chosen is None:
            break
        refused.clear()
        log.applied.append(_line(search.subject, chosen, count))
        graph, folds = _write(search.subject, chosen, count)
        pieces = Pieces(folds)
    for what, (reason, source) in refused.items():
        log.refuse(what, reason, source)
    return graph


def _line(subject: Subject, chosen: Candidate, count: int) -> str:
    region = chosen.region
    first = max((*region.virtual, *region.heads), key=largest_bytes)
    place = f" ({first.source})" if first.source else ""
    loops = len(chosen.plan.loops)
    turns = "" if loops == 1 else f", in {loops} turns"
    share = shares(region.length, count)
    return f"axis of {region.length} of {first.types[0]}{place}: {share}{turns}"


def _write(subject: Subject, chosen: Candidate, count: int) -> tuple[Graph, set[Node]]:
    """Return the graph with a region spread, and the nodes that are not to be cut again."""
    plan, region, nodes = chosen.plan, chosen.region, subject.graph.nodes
    plan.levels.complete()
    own = plan.levels.span
    inside = [node for node in nodes[own.start : own.stop] if node in plan.outside]
    waiting = [*nodes[: own.start], *inside, *nodes[own.stop :]]
    mapping: dict[Value, Value] = {}
    made: set[Node] = set()
    with Builder() as builder:
        for value in subject.graph.inputs:
            mapping[value] = builder.input(value.type, value.node.source)
        copying = Copying(builder, waiting, mapping, plan.levels)
        for loop in plan.loops:
            copying.ready(loop.level)
            before = len(builder.nodes)
            mapping.update(emit_shard(builder, subject, region, loop, count, mapping.__getitem__))
            made.update(builder.nodes[before:])
        copying.ready(len(nodes))
        result = builder.finish([mapping[value] for value in subject.graph.outputs])
    old = {mapping[value].node for node in subject.pieces.folds for value in node.results
           if value in mapping}  # fmt: skip
    return result, made | old
