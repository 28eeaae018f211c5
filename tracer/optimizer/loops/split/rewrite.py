"""Write the loops of regions into a new graph, and copy the nodes outside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tracer.ir import Builder, Graph, Node, Value, copy_nodes
from tracer.optimizer.loops.split.carry import finished
from tracer.optimizer.loops.split.copying import Copying
from tracer.optimizer.loops.split.grouping import Loop, LoopPlan
from tracer.optimizer.loops.split.loop import Emitted, SliceEmitter, Transform, emit_loop
from tracer.optimizer.loops.split.region import Region, Subject
from tracer.optimizer.model.liveness import node_cost


@dataclass(frozen=True)
class Rewrite:
    """A region that is to be computed in loops.

    Attributes
    ----------
    subject : Subject
        The graph beside the regions that were chosen before.
    region : Region
    plan : LoopPlan
    span : range
        Positions of the nodes that are put in a new order. It holds the region's.
    chunk_of : callable
        Gives the slice size of each loop.
    transform : callable
        May rewrite each body.
    """

    subject: Subject
    region: Region
    plan: LoopPlan
    span: range
    chunk_of: Callable[[Loop], int]
    transform: Transform


@dataclass(frozen=True)
class Written:
    """The loops of one region, and the operations that they take beyond those of the whole."""

    loops: list[Emitted]
    extra_flops: int


def write_regions(
    graph: Graph, rewrites: Sequence[Rewrite]
) -> tuple[Graph, list[Written], Mapping[Value, Value]]:
    """Return the graph with the virtual values of some regions computed in loops.

    The spans of the regions are apart: the nodes before a span have run when its loops begin, so
    they can be written one after the other, all in one new graph.

    Parameters
    ----------
    graph : Graph
    rewrites : sequence of Rewrite
        In the order of their spans.

    Returns
    -------
    Graph
    list of Written
    dict of Value to Value
        From the old values that are still stored to the new ones.
    """
    nodes = graph.nodes
    mapping: dict[Value, Value] = {}
    written, place = [], 0
    with Builder() as builder:
        for value in graph.inputs:
            mapping[value] = builder.input(value.type, value.node.source)
        for rewrite in rewrites:
            copy_nodes(builder, nodes[place : rewrite.span.start], mapping)
            place = rewrite.span.stop
            before, count = nodes[rewrite.span.start : place], len(builder.nodes)
            loops = _write_region(builder, rewrite, mapping)
            extra = _flops(builder.nodes[count:]) - _flops(before)
            written.append(Written(loops, max(0, extra)))
        copy_nodes(builder, nodes[place:], mapping)
    return builder.finish([mapping[value] for value in graph.outputs]), written, mapping


def _flops(nodes: Iterable[Node]) -> int:
    return sum(node_cost(node).flops for node in nodes)


def _write_region(builder: Builder, rewrite: Rewrite, mapping: dict[Value, Value]) -> list[Emitted]:
    """Write the loops of one region and what stays outside of them, within its span."""
    subject, plan, span = rewrite.subject, rewrite.plan, rewrite.span
    nodes, own = subject.graph.nodes, plan.levels.span
    if span.stop > own.stop:
        plan.levels.complete()
    inside = [node for node in nodes[own.start : own.stop] if node in plan.outside]
    waiting = [*nodes[span.start : own.start], *inside, *nodes[own.stop : span.stop]]
    copying = Copying(builder, waiting, mapping, plan.levels)
    emitted = []
    for loop in plan.loops:
        copying.ready(loop.level)
        emitter = SliceEmitter(subject, rewrite.region, loop)
        carries, record = emit_loop(
            builder, emitter, rewrite.chunk_of(loop), mapping.__getitem__, rewrite.transform
        )
        for head, state in emitter.states(carries).items():
            if head in loop.streams:
                copying.sums[head] = state[0]
                continue
            results = finished(subject, head, loop.heads[head], state)
            mapping.update(zip(head.results, results, strict=True))
        emitted.append(record)
    copying.ready(len(subject.graph.nodes))
    return emitted
