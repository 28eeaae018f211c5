"""Build a graph for padded arrays, with masks before its reductions, or refuse."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tracer import ops
from tracer.ir import Builder, Graph, Label, Node, ShapeDtype, Value
from tracer.ops.helpers import full
from tracer.optimizer.rewrite.padding.comparison import Comparison, Use, is_constant, refused

SIZE = ShapeDtype((), "int32")


@dataclass(frozen=True)
class Masked:
    """A program for padded arrays.

    Attributes
    ----------
    graph : Graph
        Its inputs are the size, the constants that depend on it, and those of the function.
    uses : tuple of Use
        Where the function reads these constants.
    cut : tuple of tuple of int
        For each output the axes to be cut to the size.
    """

    graph: Graph
    uses: tuple[Use, ...]
    cut: tuple[tuple[int, ...], ...]


def masked(found: Comparison, uses: Iterable[Use] = ()) -> Masked:
    """Write the padded graph with masks, if that is all it takes.

    Parameters
    ----------
    found : Comparison
    uses : iterable of Use
        Further constants to hand in at run time.

    Raises
    ------
    ArgumentError
        Results would depend on elements behind the end.
    """
    return _Masking(found, tuple(sorted({*uses, *found.differing}))).run()


class _Masking:
    def __init__(self, found: Comparison, uses: tuple[Use, ...]) -> None:
        self.found = found
        self.graph = found.padded
        self.uses = uses
        self.values: dict[Value, Value] = {}
        self.handed_in: dict[Use, Value] = {}
        self.masks: dict[tuple[tuple[int, ...], int], Value] = {}

    def run(self) -> Masked:
        with Builder() as builder:
            self.size = builder.input(SIZE)
            for use in self.uses:
                self.handed_in[use] = builder.input(self._read_at(use).type)
            for value in self.graph.inputs:
                self.values[value] = builder.input(value.type, value.node.source)
            for number, node in enumerate(self.graph.nodes):
                builder.source = node.source
                operands = self._operands(number, node)
                results = builder.copy(node, operands)
                self.values.update(zip(node.results, results, strict=True))
            end = len(self.graph.nodes)
            outputs = [
                self.handed_in.get((end, place), self.values[value])
                for place, value in enumerate(self.graph.outputs)
            ]
            graph = builder.finish(outputs)
        cut = tuple(self._axes_of_output(place) for place in range(len(outputs)))
        return Masked(graph, self.uses, cut)

    def _axes_of_output(self, place: int) -> tuple[int, ...]:
        value = self.graph.outputs[place]
        if not is_constant(value.node):
            return self.found.padded_axes(value)
        before = self.found.exact.outputs[place].shape
        shapes = zip(before, value.shape, strict=True)
        return tuple(axis for axis, (exact, padded) in enumerate(shapes) if exact != padded)

    def _read_at(self, use: Use) -> Value:
        number, place = use
        nodes = self.graph.nodes
        read = nodes[number].operands if number < len(nodes) else self.graph.outputs
        return read[place]

    def _operands(self, number: int, node: Node) -> tuple[Value, ...]:
        operands = [
            self.handed_in.get((number, place), self.values[value])
            for place, value in enumerate(node.operands)
        ]
        padded = [self._padded_at((number, place)) for place in range(len(operands))]
        results = [self.found.padded_axes(value) for value in node.results]
        if not any(padded) and not any(results):
            return tuple(operands)
        rule = node.axes
        rows = zip((*rule.operands, *rule.results), (*padded, *results), strict=True)
        for place, (row, axes) in enumerate(rows):
            for axis in axes:
                is_whole = row[axis] in rule.whole or row[axis] in rule.steps
                if is_whole and not self._is_proven(node, place, axis, row[axis]):
                    raise refused(node, "it needs the axis whole")
        for place, axes in enumerate(padded):
            for axis in axes:
                if rule.operands[place][axis] in rule.reduced:
                    operands[place] = self._mask(node, place, operands[place], axis)
        return tuple(operands)

    def _is_proven(self, node: Node, place: int, axis: int, label: Label) -> bool:
        """Tell whether an axis that is no parallel one does no harm.

        It is that of a running result, next to its masked operand, or elements of an operand are
        taken from it that are in front of the end for the exact size too.
        """
        assert node.op is not None
        if place >= len(node.operands):
            return node.op.neutral is not None and all(label not in r for r in node.axes.operands)
        if node.op.pieces is None or axis >= node.types[0].ndim:
            return False
        unknown = (None,) * len(node.operands)
        types = node.operand_types, node.types
        pieces = node.op.pieces(*types, axis, unknown, **node.params)
        taken = [piece for piece in pieces or () if piece.operand == place]
        ends = [piece.start + piece.size for piece in taken]
        is_kept = axis not in self.found.padded_axes(node.results[0])
        return pieces is not None and is_kept and all(end <= self.found.size for end in ends)

    def _padded_at(self, use: Use) -> tuple[int, ...]:
        value = self._read_at(use)
        before = self.found.constants.get(use)
        if before is None:
            return self.found.padded_axes(value)
        shapes = zip(before.shape, value.shape, strict=True)
        return tuple(axis for axis, (exact, padded) in enumerate(shapes) if exact != padded)

    def _mask(self, node: Node, place: int, operand: Value, axis: int) -> Value:
        """Put what is neutral behind the end of an axis."""
        assert node.op is not None
        if node.op.neutral is None:
            raise refused(node, "it has no neutral element to put behind the end")
        fill = node.op.neutral(node.operand_types, **node.params)[place]
        shape = operand.shape
        if (shape, axis) not in self.masks:
            places = ops.iota(shape=shape, dtype=SIZE.dtype, dimension=axis)
            size = ops.broadcast_in_dim(self.size, shape=shape, dimensions=())
            self.masks[shape, axis] = ops.compare(places, size, direction="LT")
        return ops.select(self.masks[shape, axis], operand, full(fill, operand.type))  # type: ignore[no-any-return]


__all__ = ["Masked", "masked"]
