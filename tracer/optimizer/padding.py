"""Programs for arrays that are padded: what lies behind the end takes no part in the results.

A function is traced twice, for the exact size and for the padded one. Both graphs must have the
same nodes; axes that have the one size in the first and the other in the second are *padded*, and
constants that differ (the length that a mean divides by) are handed in at run time. Then the axis
rules decide. Along a parallel axis an element of a result hangs on the same elements of the
operands, so that nothing behind the end is ever read. A reduced axis is masked before it is
reduced, with what the op's record says is neutral. Anything else is refused: the axis would be
needed whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracer import ops
from tracer.errors import ArgumentError
from tracer.ir import Builder, Graph, Label, Node, ShapeDtype, Value, param_key
from tracer.ops.helpers import full

Array = np.ndarray[Any, Any]
Use = tuple[int, int]
"""Where a constant is read: the position of a node (or one past the last: the outputs), and of the
operand there."""
SIZE = ShapeDtype((), "int32")


@dataclass(frozen=True)
class Comparison:
    """What the graphs for two sizes have in common.

    Attributes
    ----------
    exact, padded : Graph
    size, padded_size : int
    constants : mapping of Use to ndarray
        Constants of the exact graph, by where they are read.
    differing : frozenset of Use
        Those that are others in the padded graph.
    exact_of : mapping of Value to Value
        The value of the exact graph for each of the padded one; constants are their own.
    """

    exact: Graph
    padded: Graph
    size: int
    padded_size: int
    constants: Mapping[Use, Array]
    differing: frozenset[Use]
    exact_of: Mapping[Value, Value]

    def padded_axes(self, value: Value) -> tuple[int, ...]:
        """Return the axes of a value of the padded graph that are longer than in the exact one."""
        shapes = zip(self.exact_of[value].shape, value.shape, strict=True)
        return tuple(axis for axis, (before, after) in enumerate(shapes) if before != after)


def compare(exact: Graph, padded: Graph, size: int, padded_size: int) -> Comparison:
    """Match the graphs of one function for two sizes, node by node.

    Raises
    ------
    ArgumentError
        The function does something else for another size, or makes axes of further sizes.
    """
    return _Matcher(exact, padded, (size, padded_size)).run()


class _Matcher:
    def __init__(self, exact: Graph, padded: Graph, sizes: tuple[int, int]) -> None:
        self.exact, self.padded, self.sizes = exact, padded, sizes
        self.exact_of: dict[Value, Value] = {}
        self.constants: dict[Use, Array] = {}
        self.differing: set[Use] = set()
        self.numbers = {node: i for i, node in enumerate(padded.nodes)}

    def run(self) -> Comparison:
        pairs = zip(self.padded.inputs, self.exact.inputs, strict=False)
        for after, before in pairs:
            self._pair(after, before)
        nodes = [[n for n in g.nodes if not _is_constant(n)] for g in (self.padded, self.exact)]
        for node, other in zip(*nodes, strict=False):
            self._match(node, other)
        counts = [(len(g.inputs), len(g.outputs)) for g in (self.padded, self.exact)]
        if len(nodes[0]) != len(nodes[1]) or counts[0] != counts[1]:
            raise _changes(nodes[0][-1] if nodes[0] else None)
        end = len(self.padded.nodes)
        for place, pair in enumerate(zip(self.padded.outputs, self.exact.outputs, strict=True)):
            self._read((end, place), *pair)
        self.exact_of.update(
            (value, value)
            for node in self.padded.nodes
            for value in node.results
            if value not in self.exact_of
        )
        return Comparison(
            self.exact,
            self.padded,
            *self.sizes,
            self.constants,
            frozenset(self.differing),
            self.exact_of,
        )

    def _match(self, node: Node, other: Node) -> None:
        same = node.op is other.op and len(node.operands) == len(other.operands)
        if not same or node.params.keys() != other.params.keys():
            raise _changes(node)
        for key, value in node.params.items():
            if not self._is_alike(value, other.params[key]):
                raise _changes(node)
        number = self.numbers[node]
        for place, pair in enumerate(zip(node.operands, other.operands, strict=True)):
            self._read((number, place), *pair)
        for result, before in zip(node.results, other.results, strict=True):
            self._pair(result, before)

    def _read(self, use: Use, value: Value, other: Value) -> None:
        """Check that two nodes read the same value, or constants."""
        if not (_is_constant(value.node) and _is_constant(other.node)):
            if self.exact_of.get(value) is not other:
                raise _changes(value.node)
            return
        before, after = other.node.params["value"], value.node.params["value"]
        if before.dtype != after.dtype or not self._is_alike(after.shape, before.shape):
            raise _changes(value.node)
        if param_key(before) != param_key(after):
            self.differing.add(use)
        self.constants[use] = before

    def _is_alike(self, value: Any, other: Any) -> bool:
        """Tell whether parameters are equal, but for the one size in the place of the other."""
        if isinstance(value, tuple) and isinstance(other, tuple):
            pairs = zip(value, other, strict=False)
            return len(value) == len(other) and all(self._is_alike(*pair) for pair in pairs)
        is_size = type(value) is int and (other, value) == self.sizes
        return is_size or param_key(value) == param_key(other)

    def _pair(self, value: Value, other: Value) -> None:
        if value.dtype != other.dtype or value.type.ndim != other.type.ndim:
            raise _changes(value.node)
        for pair in zip(other.shape, value.shape, strict=True):
            if pair not in (self.sizes, (pair[1], pair[1])):
                raise refused(
                    value.node, f"it makes an axis of {pair[0]} elements of one of {self.sizes[0]}"
                )
        self.exact_of[value] = other


@dataclass(frozen=True)
class Masked:
    """A program for padded arrays.

    Attributes
    ----------
    graph : Graph
        Its inputs are the size, the constants that hang on it, and those of the function.
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
        Results would hang on what lies behind the end.
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
        if not _is_constant(value.node):
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


def refused(node: Node, reason: str) -> ArgumentError:
    """Return the error that says why a function cannot run on padded arrays."""
    name = f"{node.name} of {node.operand_types[0]}" if node.operands else node.name
    return ArgumentError(
        f"results of padded arrays would not be exact: {name} is in the way, as {reason}",
        mend="use tracer.compile, which compiles for each size; or write it with element-wise "
        "operations and reductions along the padded axis",
        where=node.source,
    )


def _changes(node: Node | None) -> ArgumentError:
    return ArgumentError(
        "the function computes something else for another size"
        + (f": {node.name} differs" if node is not None else ""),
        mend="use tracer.compile, which compiles for each size; or keep branches and slices that "
        "hang on the size out of the function",
        where=None if node is None else node.source,
    )


def _is_constant(node: Node) -> bool:
    return node.op is ops.constant


__all__ = ["Comparison", "Masked", "compare", "masked"]
