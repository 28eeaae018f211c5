"""Loop interchange: independent blocks outside, the sequential loop inside, one block per core.

Consider a loop over steps whose state has an axis that is parallel in every step, such as
independent environments. It equals a loop over blocks of that axis around the loop over steps
(Allen & Kennedy, "Optimizing Compilers for Modern Architectures", 2001, section 5.2). XLA:CPU
spreads single kernels over the cores and waits after each; with the blocks outside, each core works
alone until the end. Each block is a separate program, a *lane*, that cuts its windows out of the
arguments; one more program joins the results. Threads start the programs in parallel: within one
program XLA's buffers would make them wait (docs/fusion.md has the measurements).

Axis rules tell which axis is parallel, through loops too. Results may differ in the last digit
where XLA computes the end of a row, shorter than a vector, differently.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cached_property

from tracer.ir import Builder, Graph, Node, Value
from tracer.optimizer.loops.recipes import ELEMENT_WISE, Window, joined
from tracer.optimizer.loops.small_calls import unfit
from tracer.optimizer.loops.windows import WindowEmitter
from tracer.optimizer.model.costs import graph_flops, node_count
from tracer.optimizer.model.liveness import Liveness
from tracer.optimizer.model.trip_counts import trip_count
from tracer.optimizer.passes import PassLog, PassRow, Refusal
from tracer.target import Target
from tracer.units import format_bytes

INTERCHANGE_NAME = "loop-interchange"
_KINDS = (*ELEMENT_WISE, "reduce")
_WORTHWHILE = 4
"""Times that the work of a lane has to take; the time model is not exact."""
_MOST_MORE = 0.25
"""Share of a program's memory that lanes may take more, when that does not fit in the cache."""
_MOST_TWICE = 1.1
"""Operations of all lanes together over those of the whole: more is computed more than once."""


@dataclass(frozen=True)
class Lanes:
    """A program cut into blocks along an axis.

    Attributes
    ----------
    graphs : tuple of Graph
        Each takes all inputs and gives its block of the outputs.
    axes : tuple of int
        The axis of each output that is cut.
    """

    graphs: tuple[Graph, ...]
    axes: tuple[int, ...]

    @cached_property
    def join(self) -> Graph:
        """The program that puts the outputs of the lanes, one after the other, together."""
        with Builder() as builder:
            given = [[builder.input(t) for t in graph.output_types] for graph in self.graphs]
            blocks = zip(*given, strict=True)
            return builder.finish([joined(b, a) for b, a in zip(blocks, self.axes, strict=True)])

    def peak_bytes(self, graph: Graph) -> int:
        """Return the predicted peak: all lanes at a time, then what puts them together."""
        inputs = sum(type.nbytes for type in graph.input_types)
        outputs = sum(type.nbytes for type in graph.output_types)
        return inputs + outputs + sum(Liveness(g).peak_bytes - inputs for g in self.graphs)


def interchanged(
    graph: Graph, machine: Target, log: PassLog, peak: int | None = None
) -> Lanes | None:
    """Return the program in lanes, one for each core; None if that cannot be or does not pay.

    Parameters
    ----------
    graph : Graph
        The program, its loops not yet in calls.
    machine : Target
        How many cores there are, and how fast.
    log : PassLog
        Told of what was done, or why not.
    peak : int, optional
        What the program takes as it is: lanes copy what they read of the arguments.
    """
    loops = [node for node in graph.nodes if node.body_graphs]
    if not loops:
        return None
    subject = f"{loops[0].name} of {len(loops[0].types)} values"
    why = _why_not(graph, machine)
    found = None if why else _Search(graph, machine).run()
    if found is not None and peak is not None:
        more = found.peak_bytes(graph) - peak
        if more > max(machine.cache_bytes, _MOST_MORE * peak):
            found, why = None, f"lanes would take {format_bytes(more)} more"
    if found is None:
        log.refuse(subject, why or "no axis of the results is parallel to the end", loops[0].source)
        return None
    sizes = [type.shape[found.axes[0]] for type in (g.output_types[0] for g in found.graphs)]
    log.applied.append(
        f"{subject}: {len(sizes)} lanes of {', '.join(map(str, sizes))} along axis {found.axes[0]} "
        f"of the result, each {1e3 * _seconds(graph, machine) / len(sizes):.1f} ms"
    )
    return found


def _seconds(graph: Graph, machine: Target) -> float:
    return graph_flops(graph) / machine.prices.vector_rate


def _why_not(graph: Graph, machine: Target) -> str | None:
    if machine.cores < 2:
        return "there is one core"
    if not any(_is_long(node) for node in graph.nodes):
        return "no loop of known length runs often"
    why = unfit(graph)
    if why is not None:
        return why
    seconds = _seconds(graph, machine)
    if seconds < _WORTHWHILE * machine.prices.lanes_seconds:
        return f"it takes about {1e6 * seconds:.0f} us: to start other threads takes as long"
    return None


def _is_long(node: Node) -> bool:
    return (trip_count(node) or 0) > 1


class _Search:
    """Looks for an axis of every output along which everything can be computed in blocks."""

    def __init__(self, graph: Graph, machine: Target) -> None:
        self.graph = graph
        self.cores, self.vector = machine.cores, machine.vector_lanes
        self.flops = graph_flops(graph)

    def run(self) -> Lanes | None:
        first, *others = self.graph.outputs
        for axis, size in enumerate(first.shape):
            axes: list[int] | None = [axis]
            for output in others:
                axes = self._with(axes, output, size)
            lanes = self._lanes(axes, size) if axes else None
            if lanes is not None:
                return lanes
        return None

    def _with(self, axes: list[int] | None, output: Value, size: int) -> list[int] | None:
        """Return the axes with one for a further output, the first that has the size and fits."""
        for axis, other in enumerate(output.shape):
            if axes is not None and other == size and self._fits([*axes, axis], size):
                return [*axes, axis]
        return None

    def _fits(self, axes: list[int], size: int) -> bool:
        block = size // self.cores
        lane = self._lane(axes, 0, max(1, block)) if block else None
        return lane is not None and self.cores * graph_flops(lane) <= _MOST_TWICE * self.flops

    def _lanes(self, axes: list[int], size: int) -> Lanes | None:
        # Whole vectors, of the widest ones.
        block = size // self.cores // self.vector * self.vector
        if not block or not self._fits(axes, size):
            return None
        starts = [i * block for i in range(self.cores)]
        stops = [*starts[1:], size]
        graphs = [self._lane(axes, a, b - a) for a, b in zip(starts, stops, strict=True)]
        return Lanes(tuple(graphs), tuple(axes))

    def _lane(self, axes: list[int], start: int, size: int) -> Graph:
        emitter = WindowEmitter(self.graph, {}, kinds=_KINDS)
        outputs = self.graph.outputs[: len(axes)]
        windows: list[Window] = [(axis, start, size) for axis in axes]
        wanted = list(zip(outputs, windows, strict=True))
        emitter.request(wanted)
        with Builder() as builder:
            inputs = [builder.input(v.type, v.node.source) for v in self.graph.inputs]
            emitter.emit(builder, {v: [x] for v, x in zip(self.graph.inputs, inputs, strict=True)})
            return builder.finish([emitter.value(*request) for request in wanted])


def interchange_row(graph: Graph, machine: Target, peak: int) -> tuple[PassRow, Lanes | None]:
    """Return a program in lanes, and the line of the plan's table that says so, or why not.

    `peak` is what the program is predicted to take as it is, in bytes.
    """
    log = PassLog()
    start = time.perf_counter()
    found = interchanged(graph, machine, log, peak)
    seconds = time.perf_counter() - start
    graphs = (graph,) if found is None else (*found.graphs, found.join)
    row = PassRow(
        name=INTERCHANGE_NAME.replace("-", " "),
        seconds=seconds,
        peak_bytes_before=peak,
        peak_bytes_after=peak if found is None else found.peak_bytes(graph),
        flops_before=graph_flops(graph),
        flops_after=sum(map(graph_flops, graphs)),
        nodes_before=node_count(graph),
        nodes_after=sum(map(node_count, graphs)),
        applied=tuple(log.applied),
        refusals=tuple(log.refusals),
    )
    return row, found


def too_large(row: PassRow, peak: int) -> PassRow:
    """Return the line of a plan whose lanes, of `peak` bytes, do not keep the limit."""
    subject = row.applied[0].split(":")[0] if row.applied else "lanes"
    refusal = Refusal(subject, f"lanes would take {format_bytes(peak)}, more than the limit")
    return replace(
        row,
        peak_bytes_after=row.peak_bytes_before,
        flops_after=row.flops_before,
        nodes_after=row.nodes_before,
        applied=(),
        refusals=(*row.refusals, refusal),
    )


__all__ = ["INTERCHANGE_NAME", "Lanes", "interchange_row", "interchanged", "too_large"]
