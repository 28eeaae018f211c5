"""Which values are stored, who reads them, and until when, for an order of the stored nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from tracer import ops
from tracer.ir import Graph, Node, Value
from tracer.optimizer.model.storage import is_fused, stored_nodes
from tracer.optimizer.model.trip_counts import passed_through
from tracer.target import Storage, current_target

Order = Callable[["Lifetimes"], list[Node]]
"""Puts the stored nodes into another order than the graph's own."""


_STEPS_OF_A_SOFTMAX = 2
"""Kernels of small values between a reduction and the kernel that reads its operand again."""

_KNOWN: WeakKeyDictionary[Graph, dict[Storage, dict[str, Any]]] = WeakKeyDictionary()
"""What was found for graphs, which do not change, in their own order, by how a device stores."""


class Lifetimes:
    """Storage of the values of a graph, and when each is read for the last time.

    Parameters
    ----------
    graph : Graph
        The program or a loop's body.
    order : callable, optional
        `(Lifetimes in the graph's own order) -> stored nodes in another order`.
    """

    def __init__(self, graph: Graph, order: Order | None = None) -> None:
        self.graph = graph
        known, storage = _KNOWN.setdefault(graph, {}), current_target().storage
        if storage in known:
            vars(self).update(known[storage])
        else:
            before = {*vars(self)}
            self._analyse(graph)
            known[storage] = {key: vars(self)[key] for key in vars(self).keys() - before}
        if order is not None:
            self.schedule = order(self)
            # What is not stored has no place: it is computed where it is read.
            self.position = dict.fromkeys(graph.nodes, -1)
            self.position.update((node, i) for i, node in enumerate(self.schedule))
            self.last_read = self._last_reads()

    def _analyse(self, graph: Graph) -> None:
        """Find what is stored in the graph's own order; the same for all that look at it."""
        self._places = self.position = {node: i for i, node in enumerate(graph.nodes)}
        self.outputs = set(graph.outputs)
        self.inputs = {value: i for i, value in enumerate(graph.inputs)}
        self.users: dict[Value, list[Node]] = {}
        self.renamed: dict[Value, list[Value]] = {}
        """Loop results that are their operand's memory under another name."""
        for node in graph.nodes:
            for value in node.operands:
                self.users.setdefault(value, []).append(node)
            for index in passed_through(node):
                self.renamed.setdefault(node.operands[index], []).append(node.results[index])
        self.stored, self.again = stored_nodes(graph, self.users, self.outputs)
        self._read: dict[Node, dict[Value, bool]] = {}
        self.last_read = self._last_reads()
        self.schedule = [node for node in graph.nodes if node in self.stored]

    def is_stored(self, value: Value) -> bool:
        """Tell whether the value has its own buffer."""
        return value in self.inputs or value.node in self.stored

    def _readers(self, node: Node) -> list[Node]:
        return [user for value in node.results for user in self.users.get(value, ())]

    def _last_reads(self) -> dict[Node, int]:
        """Position at which a node's operands are read for the last time.

        A node that is not stored reads when its readers do; a view that is an output, never last.
        """
        end = len(self.graph.nodes)
        last: dict[Node, int] = {}
        for node in reversed(self.graph.nodes):
            last[node] = self.position[node]
            if node not in self.stored:
                last[node] = max((last[user] for user in self._readers(node)), default=last[node])
                if any(value in self.outputs for value in node.results):
                    last[node] = end
            elif node in self.again:
                last[node] = max(last[user] for user in self._readers(node) if is_fused(user))
        return last

    def death(self, value: Value) -> int:
        """Position of the last read of a value; past the end for outputs."""
        last = -1
        names = [value]
        while names:
            name = names.pop()
            if name in self.outputs:
                return len(self.graph.nodes)
            last = max((last, *(self.last_read[user] for user in self.users.get(name, ()))))
            names.extend(self.renamed.get(name, ()))
        return last

    def buffers_read(self, node: Node) -> dict[Value, bool]:
        """Return the stored values a stored node reads, and whether only in its own element order.

        The node may write its result over those that are True.
        """
        if node not in self._read:
            self._read[node] = self._find_buffers_read(node)
        return self._read[node]

    def _find_buffers_read(self, node: Node) -> dict[Value, bool]:
        found: dict[Value, bool] = {}
        stack = [(node, True)]
        seen: set[tuple[Node, bool]] = set()
        while stack:
            current, in_order = stack.pop()
            assert current.op is not None
            for position, value in enumerate(current.operands):
                same = in_order and position in current.op.reuses
                if self.is_stored(value):
                    found[value] = found.get(value, True) and same
                elif (value.node, same) not in seen:
                    seen.add((value.node, same))
                    stack.append((value.node, same))
        return found

    def kernels(self, *nodes: Node) -> list[Node]:
        """Return nodes and the producers computed inside of them, in the graph's order.

        Inputs are not among them: nothing computes them.
        """
        found = {node for node in nodes if node.op is not None}
        stack = list(found)
        while stack:
            for value in stack.pop().operands:
                producer = value.node
                if producer.op is not None and producer not in found and not self.is_stored(value):
                    found.add(producer)
                    stack.append(producer)
        return sorted(found, key=self._places.__getitem__)

    def root(self, value: Value) -> Value:
        """Return the stored value whose buffer a value's elements are in, through views."""
        while not self.is_stored(value):
            value = value.node.operands[0]
        return value

    def is_flat(self, value: Value) -> bool:
        """Tell whether XLA drops axes of one element, which products do of operands and results.

        A kernel that drops them, or has them again, does not write over what it reads.
        """
        if 1 not in value.shape:
            return False
        readers = self.users.get(value, ())
        is_read = bool(readers) and all(user.op is ops.dot_general for user in readers)
        return is_read or value.node.op is ops.dot_general

    def reads_reduced(self, node: Node, value: Value) -> bool:
        """Tell whether a node reads what a value was reduced to, as each step of a softmax does."""
        names = {value}
        while value.index in passed_through(value.node):  # a barrier hands it on
            value = value.node.operands[value.index]
            names.add(value)
        return self._reads_reduced(node, names, value.type.size, _STEPS_OF_A_SOFTMAX)

    def _reads_reduced(self, node: Node, names: set[Value], size: int, depth: int) -> bool:
        for other in self.buffers_read(node):
            if other.node.op is None or other.type.size >= size:
                continue
            if not names.isdisjoint(self.buffers_read(other.node)):
                return True
            if depth and self._reads_reduced(other.node, names, size, depth - 1):
                return True
        return False
