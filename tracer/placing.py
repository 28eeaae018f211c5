"""How arguments and results of a program lie on a mesh: as the user said, or as suits it best."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tracer import lowering, tree
from tracer.ir import Graph, ShapeDtype
from tracer.lowering import NamedSharding, PartitionSpec, Placement
from tracer.optimizer.alias import match_donations
from tracer.optimizer.liveness import Liveness
from tracer.optimizer.passes import PassRow
from tracer.optimizer.shard import device_view, input_axes, output_axes
from tracer.optimizer.split import LoopRow
from tracer.sharding import Spread
from tracer.signature import Call
from tracer.trace import Traced


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
    """

    graph: Graph
    view: Graph
    rows: tuple[PassRow, ...]
    loops: tuple[LoopRow, ...]
    axes: tuple[str, ...]

    @cached_property
    def peak_bytes(self) -> int:
        """The predicted peak of one device."""
        return Liveness(self.view).peak_bytes


class Placer:
    """Says how the inputs and outputs of programs lie on a mesh.

    Parameters
    ----------
    call : Call
        The arguments as the user gave them.
    traced : Traced
        Its results.
    spread : Spread
        What the user said of both.
    """

    def __init__(self, call: Call, traced: Traced, spread: Spread) -> None:
        self.call, self.traced, self.spread = call, traced, spread
        self.mesh = spread.mesh

    def candidate(
        self,
        graph: Graph,
        rows: tuple[PassRow, ...],
        loops: tuple[LoopRow, ...],
        axes: tuple[str, ...],
    ) -> SpreadCandidate:
        """Return a graph with its placement and what one device does of it."""
        inputs, outputs = input_axes(graph), output_axes(graph)
        placement = self._placement(graph, inputs, outputs)
        given = zip(placement.inputs, graph.input_types, strict=True)
        cut = tuple(_single_axis(sharding, type, self.mesh.size) for sharding, type in given)
        view = device_view(graph, cut, outputs, self.mesh.size)
        return SpreadCandidate(graph, view, rows, loops, axes)

    def compile(
        self, graph: Graph, donated: tuple[int, ...], options: dict[str, Any]
    ) -> lowering.Executable:
        """Compile a graph for the mesh.

        Donated memory is taken over by results that lie as the arguments do.
        """
        placement = self._placement(graph, input_axes(graph), output_axes(graph))
        outputs = list(placement.outputs)
        pairs = {}
        for argument, result in match_donations(graph, donated).pairs.items():
            if outputs[result] is None:
                outputs[result] = placement.inputs[argument]
            if outputs[result] == placement.inputs[argument]:
                pairs[argument] = result
        return lowering.compile_graph(
            graph,
            donate=donated,
            aliases=pairs,
            options=options,
            placement=Placement(self.mesh, placement.inputs, tuple(outputs)),
        )

    def _placement(
        self, graph: Graph, inputs: tuple[int | None, ...], outputs: tuple[int | None, ...]
    ) -> Placement:
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


def _single_axis(sharding: NamedSharding, type: ShapeDtype, count: int) -> int | None:
    """Return the axis that is cut over all devices, if there is one."""
    for axis, names in enumerate(sharding.parts(type.ndim)):
        if sharding.shards(names) == count > 1:
            return axis
    return None
