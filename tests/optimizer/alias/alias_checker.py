"""An independent check that values which share memory do not get into each other's way.

It knows nothing of the optimizer: from the graph, an order of the kernels and the buffer that each
stored value is said to have, it runs the program with one mark for each buffer, the value that lies
there, and complains when a kernel reads a buffer in which another value lies by then. Whether a
kernel of element-wise ops may write over what it reads is found out by computing: an element of the
operand that is changed may change no other element of the result.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracer import ops
from tracer.ir import Graph, Node, Value

Array = np.ndarray[Any, Any]


@dataclass
class Memory:
    """One run of a program on marks.

    Attributes
    ----------
    graph : Graph
    kernels : sequence of Node
        The nodes whose results are stored, in the order in which they run.
    buffers : mapping
        What each stored value, arguments included, lies in.
    """

    graph: Graph
    kernels: Sequence[Node]
    buffers: Mapping[Value, Hashable]
    held: dict[Hashable, Value] = field(default_factory=dict)

    def conflicts(self, kept: Sequence[Value] = ()) -> Iterator[str]:
        """Yield what reads something else than it should; `kept` must be there at the end."""
        for value in self.graph.inputs:
            if value in self.buffers:
                self.held[self.buffers[value]] = value
        for node in self.kernels:
            yield from self._run(node)
        for value in (*self.graph.outputs, *kept):
            for leaf in self.leaves(value):
                if not self._is_there(leaf):
                    yield f"{leaf!r} is gone at the end"

    def _run(self, node: Node) -> Iterator[str]:
        reads = [leaf for operand in node.operands for leaf in self.leaves(operand)]
        for leaf in reads:
            if not self._is_there(leaf):
                yield f"{node!r} reads {leaf!r}, where {self.held[self.buffers[leaf]]!r} lies"
        for result in node.results:
            place = self.buffers[result]
            self.held[place] = result
        places = [self.buffers[result] for result in node.results]
        if len(set(places)) < len(places) and not carries_over(node):
            yield f"{node!r} writes two results into one buffer"

    def _is_there(self, leaf: Value) -> bool:
        return same(self.held[self.buffers[leaf]]) is same(leaf)

    def leaves(self, value: Value) -> Iterator[Value]:
        """Yield the stored values that a value is computed from when it is read."""
        if value in self.buffers:
            yield value
            return
        for operand in value.node.operands:
            yield from self.leaves(operand)

    def overwritten(self) -> Iterator[tuple[Node, Value]]:
        """Yield kernels of element-wise ops and the values they read and write over."""
        for node in self.kernels:
            assert node.op is not None
            if node.op.fusion == "loop" and len(node.results) == 1:
                for leaf in {leaf for x in node.operands for leaf in self.leaves(x)}:
                    if self.buffers[leaf] is self.buffers[node.results[0]]:
                        yield node, leaf

    def depends_elsewhere(self, node: Node, leaf: Value, arrays: Mapping[Value, Array]) -> bool:
        """Tell whether an element of the result changes with another element of the operand."""
        before = self._evaluated(node, arrays).reshape(-1)
        flat = np.ascontiguousarray(arrays[leaf]).reshape(-1)
        for place in range(min(flat.size, 40)):
            changed = flat.copy()
            changed[place] = ~changed[place] if flat.dtype == bool else changed[place] + 1
            moved = {**arrays, leaf: changed.reshape(leaf.shape)}
            differs = self._evaluated(node, moved).reshape(-1) != before
            differs[place] = False
            if differs.any():
                return True
        return False

    def _evaluated(self, node: Node, arrays: Mapping[Value, Array]) -> Array:
        known = dict(arrays)
        known.pop(node.results[0], None)
        return compute(node.results[0], known, self.buffers)


def compute(value: Value, arrays: dict[Value, Array], stored: Mapping[Value, Any]) -> Array:
    """Compute a value from stored ones, by the meaning of the ops."""
    if value not in arrays:
        node = value.node
        assert node.op is not None
        operands = [
            arrays[x] if x in stored and x in arrays else compute(x, arrays, stored)
            for x in node.operands
        ]
        found = node.op.evaluate(*operands, **node.params)
        results = found if isinstance(found, tuple) else (found,)
        arrays.update(zip(node.results, map(np.asarray, results), strict=True))
    return arrays[value]


def carries_over(node: Node) -> dict[int, int]:
    """Return the results of a loop or a barrier that are an operand, by their positions."""
    if node.op is ops.optimization_barrier:
        return {i: i for i in range(len(node.results))}
    if node.op is not ops.while_:
        return {}
    body = node.params["body"]
    pairs = enumerate(zip(body.inputs, body.outputs, strict=True))
    return {i: i for i, (before, after) in pairs if before is after}


def same(value: Value) -> Value:
    """Return the value that has the same elements and was there first."""
    while value.node.op is not None and value.index in carries_over(value.node):
        value = value.node.operands[value.index]
    while value.node.op is not None and value.node.op.fusion == "view":
        value = value.node.operands[0]
    return value
