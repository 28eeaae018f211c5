"""Compare two graphs of one function for two sizes, node by node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracer import ops
from tracer.errors import ArgumentError
from tracer.ir import Graph, Node, Value, param_key

Array = np.ndarray[Any, Any]
Use = tuple[int, int]
"""Where a constant is read: the position of a node (or one past the last: the outputs), and of the
operand there."""


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
        nodes = [[n for n in g.nodes if not is_constant(n)] for g in (self.padded, self.exact)]
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
        if not (is_constant(value.node) and is_constant(other.node)):
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


def refused(node: Node, reason: str) -> ArgumentError:
    """Return the error that says why a function cannot run on padded arrays."""
    name = f"{node.name} of {node.operand_types[0]}" if node.operands else node.name
    return ArgumentError(
        f"results of padded arrays would not be exact: {name} is in the way: {reason}",
        mend="use tracer.compile, which compiles for each size; or write it with element-wise "
        "operations and reductions along the padded axis",
        where=node.source,
    )


def _changes(node: Node | None) -> ArgumentError:
    return ArgumentError(
        "the function computes something different for another size"
        + (f": {node.name} differs" if node is not None else ""),
        mend="use tracer.compile, which compiles for each size; or keep branches and slices that "
        "depend on the size out of the function",
        where=None if node is None else node.source,
    )


def is_constant(node: Node) -> bool:
    """Tell whether a node is a known array."""
    return node.op is ops.constant


__all__ = ["Comparison", "Use", "compare", "is_constant", "refused"]
