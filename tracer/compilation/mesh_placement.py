"""How arguments and results of a program are placed on a mesh: as the user said, or as is best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tracer import lowering, tree
from tracer.compilation.returned_arguments import returned_arguments
from tracer.compilation.task import Task
from tracer.ir import Graph, ShapeDtype
from tracer.lowering import NamedSharding, PartitionSpec, Placement
from tracer.optimizer.alias.donations import match_donations
from tracer.optimizer.loops.split import LoopRow
from tracer.optimizer.model.liveness import Liveness
from tracer.optimizer.partition import ANYHOW, alike_axes, device_view
from tracer.optimizer.passes import PassRow
from tracer.sharding import Spread


@dataclass(frozen=True)
class SpreadCandidate:
    """A program for a mesh.

    Attributes
    ----------
    graph : Graph
        What all devices compute together.
    view : Graph
        What one of them does.
    rows, loops : tuple
        For the plan.
    axes : tuple of str
        What is spread, along which axis.
    donated : frozenset of int
        Inputs whose memory results may take over.
    """

    graph: Graph
    view: Graph
    rows: tuple[PassRow, ...]
    loops: tuple[LoopRow, ...]
    axes: tuple[str, ...]
    donated: frozenset[int]

    @cached_property
    def liveness(self) -> Liveness:
        """What one device stores, and when."""
        return Liveness(self.view, self.donated)

    @property
    def peak_bytes(self) -> int:
        """The predicted peak of one device."""
        return self.liveness.peak_bytes


class Placer:
    """Says how the inputs and outputs of programs are spread over a mesh.

    Parameters
    ----------
    task : Task
        The arguments as the user gave them, and the results.
    spread : Spread
        What the user said of both.
    """

    def __init__(self, task: Task, spread: Spread) -> None:
        self.call, self.traced, self.spread = task.call, task.traced, spread
        self.donated = frozenset(task.donated)
        self.mesh = spread.mesh
        self.returned: dict[int, int] = {}
        """The argument that each result is spread like, because it is expected to return as it."""
        if spread.is_automatic and spread.results is None:
            self.returned = returned_arguments(task.call, task.donated)

    def candidate(
        self,
        graph: Graph,
        rows: tuple[PassRow, ...],
        loops: tuple[LoopRow, ...],
        axes: tuple[str, ...],
    ) -> SpreadCandidate:
        """Return a graph with its placement and one device's part of it."""
        placement = self._placement(graph)
        view = _view(graph, placement)
        return SpreadCandidate(graph, view, rows, loops, axes, self.donated)

    def compile(self, graph: Graph, options: dict[str, Any]) -> lowering.Executable:
        """Compile a graph for the mesh; results spread like donated arguments take their memory."""
        placement = self._placement(graph)
        outputs, pairs = self._taken_over(graph, placement)
        return lowering.compile_graph(
            graph,
            donate=tuple(sorted(self.donated)),
            aliases=pairs,
            options=options,
            placement=Placement(self.mesh, placement.inputs, outputs),
        )

    def _taken_over(
        self, graph: Graph, placement: Placement
    ) -> tuple[tuple[NamedSharding | None, ...], dict[int, int]]:
        """Return how the results are spread, and which take over memory of a donated argument."""
        matched = match_donations(graph, self.donated).pairs.items()
        # A result matched with an argument may be spread differently from one that returns.
        returned = [(i, j) for j, i in self.returned.items() if i in self.donated]
        inputs, outputs = placement.inputs, list(placement.outputs)
        pairs: dict[int, int] = {}
        taken = set[int]()
        for argument, result in (*matched, *returned):
            if argument in pairs or result in taken:
                continue
            if outputs[result] is None:
                outputs[result] = inputs[argument]
            # Memory is taken over where argument and result are spread alike.
            if outputs[result] == inputs[argument]:
                pairs[argument] = result
                taken.add(result)
        return tuple(outputs), pairs

    def _placement(self, graph: Graph) -> Placement:
        inputs, outputs = alike_axes(graph, self.returned)
        spread, whole = self.spread, NamedSharding(self.mesh, PartitionSpec())
        placed: list[NamedSharding | None]
        if spread.is_automatic:
            chosen = [
                self._along(axis, type)
                for axis, type in zip(inputs, graph.input_types, strict=True)
            ]
        else:
            args, _ = tree.unflatten(self.call.structure, self.call.types)
            chosen = spread.of_arguments(args)
            chosen += [whole] * (len(graph.inputs) - len(chosen))
        if spread.results is None and spread.is_automatic:
            placed = [
                self._along(axis, type)
                for axis, type in zip(outputs, graph.output_types, strict=True)
            ]
        else:
            paths = tree.unflatten(self.traced.out_tree, list(graph.output_types))
            placed = spread.of_results(paths)
        for sharding, type in zip(
            (*chosen, *placed), (*graph.input_types, *graph.output_types), strict=True
        ):
            if sharding is not None:
                sharding.shard_shape(type.shape)  # says which axis cannot be cut
        return Placement(self.mesh, tuple(chosen), tuple(placed))

    def _along(self, axis: int | None, type: ShapeDtype) -> NamedSharding:
        """Return the sharding over all devices of the mesh along one axis; None: whole on each."""
        if axis is None or type.shape[axis] % self.mesh.size:
            return NamedSharding(self.mesh, PartitionSpec())
        names = self.mesh.axis_names
        part = names[0] if len(names) == 1 else names
        return NamedSharding(self.mesh, PartitionSpec(*[None] * axis, part))


def _view(graph: Graph, placement: Placement) -> Graph:
    """Return what one device computes and stores, along one axis of the mesh after the other."""
    for name, count in placement.mesh.shape.items():
        if count > 1:
            inputs = _axes_along(name, placement.inputs, graph.input_types)
            outputs = _axes_along(name, placement.outputs, graph.output_types)
            graph = device_view(graph, inputs, outputs, count)
    return graph


def _axes_along(
    name: str, shardings: Sequence[NamedSharding | None], types: Sequence[ShapeDtype]
) -> tuple[int | None, ...]:
    """Return the axis of each array that an axis of the mesh cuts."""
    found: list[int | None] = []
    for sharding, type in zip(shardings, types, strict=True):
        parts = () if sharding is None else sharding.parts(type.ndim)
        cut = (axis for axis, names in enumerate(parts) if name in names)
        found.append(ANYHOW if sharding is None else next(cut, None))
    return tuple(found)
