"""The peak model: when stored values are alive, and how many bytes that takes.

XLA computes element-wise producers inside their consumers (`optimizer/model/storage.py`), writes
results over dying operands, and keeps loop carries in place. The model mirrors these rules in the
graph's own order. Where XLA decides otherwise, the compiled program's count shows it, and the
planner compares it with this prediction. docs/memory-model.md has the measurements.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

from tracer import ops
from tracer.ir import Graph, Node, Value
from tracer.optimizer.model.buffers import Buffer, live_bytes, move_into_results, places_in
from tracer.optimizer.model.costs import (
    counted_scratch,
    graph_flops,
    node_cost,
    node_count,
    packing_bytes,
)
from tracer.optimizer.model.lifetimes import Lifetimes, Order
from tracer.optimizer.model.numbers import Numbers
from tracer.optimizer.model.partial_sums import partial_sums_bytes
from tracer.optimizer.model.trip_counts import (
    carried_operands,
    is_computed,
    is_in_loop,
    passed_through,
)
from tracer.target import Target, current_target


@dataclass(frozen=True)
class Moment:
    """One step of the schedule: the node that runs and the bytes alive while it does."""

    node: Node
    live_bytes: int


@dataclass(frozen=True)
class LiveTensor:
    """A value that is stored at the peak."""

    value: Value
    nbytes: int


class Liveness(Lifetimes):
    """Buffers of the values of a graph, and the bytes alive at each step of an order.

    Parameters
    ----------
    graph : Graph
        The program or a loop's body.
    donated : frozenset of int
        Inputs whose buffers may be overwritten once they are dead.
    is_body : bool
        The graph's inputs and results are the carries of a loop or belong to a branch.
    order : callable, optional
        `(lifetimes in the graph's own order) -> stored nodes in another order`, of bodies too.
    """

    def __init__(
        self,
        graph: Graph,
        donated: frozenset[int] = frozenset(),
        *,
        is_body: bool = False,
        order: Order | None = None,
    ) -> None:
        self.is_body = is_body
        self.order = order
        self.donated = donated
        super().__init__(graph, order)

    @cached_property
    def buffers(self) -> dict[Value, Buffer]:
        """The buffer of every stored value, arguments included."""
        end = len(self.graph.nodes)
        found: dict[Value, Buffer] = {}
        for value, index in self.inputs.items():
            death = self.death(value) if index in self.donated else end
            found[value] = Buffer(value.type.nbytes, 0, death, is_argument=True, values=[value])
        for node in self.schedule:
            self._allocate(node, found)
        return found

    def _allocate(self, node: Node, found: dict[Value, Buffer]) -> None:
        """Give the results of a node buffers: those of dying operands, or new ones."""
        now = self.position[node]
        if carried_operands(node):
            places = self._carries(node, found)
        else:
            available = [
                found[value]
                for value, in_order in self.buffers_read(node).items()
                if in_order and found[value].death <= now and self._may_overwrite(node, value)
            ]
            places = places_in(available, node.types)
        for result, place in zip(node.results, places, strict=True):
            buffer = place or Buffer(result.type.nbytes, now, now)
            buffer.values.append(result)
            # Also a result that nothing reads is written.
            buffer.death = max(buffer.death, now, self.death(result))
            found[result] = buffer

    def _may_overwrite(self, node: Node, value: Value) -> bool:
        """Tell whether a kernel that reads a value in its own order can be written over it.

        XLA asks only for operands that are read by the name that defines them: not for what a
        barrier holds (`tracer/lowering/emit/barriers.py`).
        """
        readers = (value.node, *self.users.get(value, ()))
        if any(reader.op is ops.optimization_barrier for reader in readers):
            return False
        if self.is_flat(value) != self.is_flat(node.results[0]):
            return False
        return not (current_target().storage.fuses_reductions and self.reads_reduced(node, value))

    def _carries(self, loop: Node, found: dict[Value, Buffer]) -> list[Buffer | None]:
        """Return the buffer for each carry of a loop; None where its start is needed afterwards."""
        now = self.position[loop]
        unchanged = passed_through(loop)
        taken: set[Buffer] = set()
        places: list[Buffer | None] = [None] * len(loop.results)
        # Carries that change come first: those that do not may share what is left.
        for index in sorted(range(len(places)), key=unchanged.__contains__):
            operand = self.root(loop.operands[index])
            buffer = found[operand]
            if buffer in taken or (index not in unchanged and buffer.death > now):
                continue
            is_loop = len(unchanged) < len(places)
            if is_loop and is_computed(operand) and is_in_loop(buffer.before(operand)):
                # A kernel may write over a loop's result, but not for another loop's carry.
                buffer = buffer.split(operand, self.position[operand.node])
                found.update(dict.fromkeys(buffer.values, buffer))
            if index not in unchanged:
                taken.add(buffer)
            places[index] = buffer
        return places

    @cached_property
    def timeline(self) -> tuple[Moment, ...]:
        """Bytes alive at each stored node, arguments and the node's own scratch included."""
        return tuple(Moment(node, alive + _packing(node)) for node, alive in self._counted)

    @cached_property
    def _counted(self) -> list[tuple[Node, int]]:
        """Bytes alive at each stored node, without what libraries allocate themselves."""
        live = live_bytes(self._allocations(), len(self.graph.nodes))
        return [
            (node, live[self.position[node]] + self.scratch_bytes(node)) for node in self.schedule
        ]

    def _allocations(self) -> list[Buffer]:
        """Return the buffers as XLA allocates them: arguments, results of programs, the rest."""
        end = len(self.graph.nodes)
        buffers = list(dict.fromkeys(self.buffers.values()))
        whole = [buffer for buffer in buffers if buffer.is_argument]
        others = [buffer for buffer in buffers if not buffer.is_argument]
        if not self.is_body:
            results = [b for b in others if b.death >= end]
            others = [b for b in others if b.death < end]
            places = move_into_results(others, results)
            others = [b for b in others if b not in places]
            whole += results
        return [*(Buffer(buffer.nbytes, 0, end) for buffer in whole), *others]

    def scratch_bytes(self, node: Node) -> int:
        """Return what a node needs while it runs, beside its operands and results, in bytes."""
        bodies = node.body_graphs
        if bodies:
            return max(_body_needs(body, self.order).counted for body in bodies)
        sums = partial_sums_bytes(node, current_target().storage)
        return counted_scratch(node) + self._copied_for_product(node) + sums

    def _copied_for_product(self, node: Node) -> int:
        """Bytes of a computed value that XLA writes out before it transposes it for a product.

        The transposed form is the node's result; what is transposed would be computed inside of it,
        but XLA computes it in its own layout first.
        """
        if not _only_moves(node):
            return 0
        moved = node.operands[0]
        if self.is_stored(moved) and moved.node not in self.again:
            return 0
        is_multiplied = any(user.cost.product_flops for user in self._readers(node))
        return node.operands[0].type.nbytes if is_multiplied else 0

    @cached_property
    def peak_bytes(self) -> int:
        """The most bytes alive at any step: arguments, results, temporaries, scratch.

        Libraries' own memory is that of the two ops that take most of it, wherever they are: XLA
        may run ops that do not read each other at the same time.
        """
        arguments = sum(type.nbytes for type in self.graph.input_types)
        peak = max((alive for _, alive in self._counted), default=arguments)
        return peak + self.copied_bytes() + sum(largest_packings(self.graph))

    def copied_bytes(self) -> int:
        """Bytes of outputs that need a buffer in addition to the one their elements are in.

        That is so for an input that is returned, unless it is donated, and for a value that is
        an output twice, also under another shape.
        """
        total = 0
        claimed = {v for v, index in self.inputs.items() if index not in self.donated}
        for output in self.graph.outputs:
            buffer = self.root(output)
            total += output.type.nbytes if buffer in claimed else 0
            claimed.add(buffer)
        return total

    @cached_property
    def peak_moment(self) -> Moment | None:
        """The step at which most bytes are alive; None if nothing is computed."""
        # The last of equals: results that are not written yet have no tensor in them.
        return max(reversed(self.timeline), key=lambda moment: moment.live_bytes, default=None)

    def live_at_peak(self) -> list[LiveTensor]:
        """Return the values stored at the peak, largest first."""
        if self.peak_moment is None:
            return []
        now = self.position[self.peak_moment.node]
        tensors = [
            LiveTensor(value, value.type.nbytes)
            for node in self.schedule
            for value in node.results
            if self.position[node] <= now <= self.death(value)
        ]
        return sorted(tensors, key=lambda tensor: -tensor.nbytes)


@dataclass(frozen=True)
class _Needs:
    """What a body needs beyond its inputs: in XLA's count, and the largest needs of libraries."""

    counted: int
    packings: tuple[int, ...]


def body_extra_bytes(body: Graph) -> int:
    """Bytes a loop's body or a branch needs beyond its inputs, which are the caller's buffers."""
    needs = _body_needs(body)
    return needs.counted + sum(needs.packings)


def _body_needs(body: Graph, order: Order | None = None) -> _Needs:
    if order is None:
        return _NEEDS(body)
    known = _ORDERED_NEEDS.setdefault(body, {})
    key = order, current_target()
    if key not in known:
        known[key] = _found_needs(body, order)
    return known[key]


def _found_needs(body: Graph, order: Order | None = None) -> _Needs:
    inputs = sum(type.nbytes for type in body.input_types)
    donated = frozenset(range(len(body.inputs)))
    live = Liveness(body, donated, is_body=True, order=order)
    most = max((alive for _, alive in live._counted), default=inputs)
    return _Needs(max(0, most - inputs), largest_packings(body))


_NEEDS = Numbers(_found_needs)
_ORDERED_NEEDS: WeakKeyDictionary[Graph, dict[tuple[Order | None, Target], _Needs]] = (
    WeakKeyDictionary()
)
"""Graphs do not change, and programs that are compared share bodies."""


def largest_packings(graph: Graph) -> tuple[int, ...]:
    """Return the largest amounts that libraries allocate at a time, bodies included."""
    if not current_target().storage.packs:
        return ()
    found: list[int] = []
    for node in graph.nodes:
        bodies = node.body_graphs
        if bodies:
            for body in bodies:
                found.extend(_body_needs(body).packings)
        elif nbytes := packing_bytes(node):
            found.append(nbytes)
    return tuple(heapq.nlargest(current_target().packing.at_once, found))


def _packing(node: Node) -> int:
    if not current_target().storage.packs:
        return 0
    bodies = node.body_graphs
    if not bodies:
        return packing_bytes(node)
    return max(sum(_body_needs(body).packings) for body in bodies)


def _only_moves(node: Node) -> bool:
    """Tell whether a loop op puts the elements of its one operand into other places."""
    assert node.op is not None
    is_one = node.op.fusion == "loop" and len(node.operands) == 1 and not node.op.reuses
    return is_one and node.cost.flops == 0 and node.operands[0].type.size == node.types[0].size


def peak_bytes(graph: Graph, donated: frozenset[int] = frozenset()) -> int:
    """Return the predicted peak of a graph, in bytes."""
    return _PEAKS(graph, donated)


_PEAKS = Numbers(lambda graph, donated: Liveness(graph, donated).peak_bytes)


__all__ = [
    "LiveTensor",
    "Liveness",
    "Moment",
    "Order",
    "body_extra_bytes",
    "graph_flops",
    "largest_packings",
    "node_cost",
    "node_count",
    "peak_bytes",
]
