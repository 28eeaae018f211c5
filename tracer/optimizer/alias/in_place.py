"""Keep in place: make XLA keep the updates, results and carries that the model keeps in place.

The model lets a kernel write over memory that nothing reads afterwards *in the graph's order*. XLA
inserts its copies before it has an order and looks only at dependencies (`CopyInsertion`,
xla/service/copy_insertion.cc). So it copies a donated argument or a carry if a reading kernel might
run after the one that writes over it. This pass makes the writing kernel wait: a barrier takes its
operands together with results of the readers.

XLA also recomputes the update of a part in each kernel that reads its result. That reads the memory
that the update overwrites, and costs a copy as well. So the result is passed on behind a barrier.

A result whose memory other kernels read later is first moved after them, if that takes no more
memory. Values do not change. Only memory that XLA must keep in one place is considered: donated
arguments that results take over, carries of loops, and the initial value of an update or loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value, map_bodies
from tracer.optimizer.model.buffers import Buffer
from tracer.optimizer.model.liveness import Liveness
from tracer.optimizer.model.storage import is_fused
from tracer.optimizer.passes import Pass, PassLog
from tracer.target import current_target
from tracer.units import format_bytes

IN_PLACE_NAME = "keep-in-place"


def in_place_pass(donated: frozenset[int]) -> Pass:
    """Return the pass for a program whose inputs at these positions are donated."""

    def run(graph: Graph, log: PassLog) -> Graph:
        return keep_in_place(graph, log, donated)

    return Pass(IN_PLACE_NAME.replace("-", " "), run, bodies=False)


def keep_in_place(
    graph: Graph, log: PassLog, donated: frozenset[int] = frozenset(), *, is_body: bool = False
) -> Graph:
    """Make kernels wait for what reads the memory that they write over, in bodies too."""

    def in_body(body: Graph) -> Graph:
        return keep_in_place(body, log, frozenset(range(len(body.inputs))), is_body=True)

    graph = map_bodies(graph, in_body)
    live = Liveness(graph, donated, is_body=is_body)
    later = _readers_first(live)
    if later is not None:
        moved = Liveness(later, donated, is_body=is_body)
        if moved.peak_bytes <= live.peak_bytes:
            live = moved
    return _Keeper(live).run(log)


def _readers_first(live: Liveness) -> Graph | None:
    """Return the graph with results moved after other readers of what they overwrite, if any."""
    after: dict[int, list[Node]] = {}
    for node in live.schedule:
        if any(live.users.get(value) for value in node.results):
            continue
        last = _last_reader(live, node)
        if live.position[node] < last < len(live.graph.nodes):
            after.setdefault(last, []).append(node)
    if not after:
        return None
    moved = {node for nodes in after.values() for node in nodes}
    order: list[Node] = []
    for position, node in enumerate(live.graph.nodes):
        if node not in moved:
            order.append(node)
        order.extend(after.get(position, ()))
    return Graph(live.graph.inputs, live.graph.outputs, order)


def _last_reader(live: Liveness, node: Node) -> int:
    """Return where the memory that a result must overwrite is read for the last time."""
    if node.body_graphs or _updates_a_part(node):
        roots = {live.root(value) for value in node.operands}
        over = {v for v in roots if v not in live.inputs or live.inputs[v] in live.donated}
        smallest = current_target().sizes.copy_bytes
        deaths = [live.death(v) for v in over if v.type.nbytes >= smallest]
        return max((death for death in deaths if death < len(live.graph.nodes)), default=0)
    reads = live.buffers_read(node).items()
    donated = [v for v, in_order in reads if in_order and live.inputs.get(v) in live.donated]
    return min((live.death(v) for v in donated if v.type is node.types[0]), default=0)


@dataclass(frozen=True)
class _Wait:
    """A kernel that reads `leaf` only once the others have run.

    Attributes
    ----------
    leaf : Value
    others : tuple of Node
    proofs : tuple of Value
        What the others have led to so far, and is needed later: XLA takes out of a barrier what
        nothing reads behind it.
    """

    leaf: Value
    others: tuple[Node, ...]
    proofs: tuple[Value, ...]


class _Keeper:
    """Finds the kernels that have to wait, and writes the graph with their barriers."""

    def __init__(self, live: Liveness) -> None:
        self.live = live
        self.graph = live.graph
        self.readers: dict[Value, list[Node]] = {}
        """The kernels that read each stored value."""
        for node in live.schedule:
            for value in live.buffers_read(node):
                self.readers.setdefault(value, []).append(node)
        self.precedence = Precedence(live)
        self.waits: dict[Node, _Wait] = {}
        self.handed_on: set[Node] = set()
        """Updates whose result is read behind a barrier."""
        for buffer in dict.fromkeys(live.buffers.values()):
            if buffer.nbytes >= current_target().sizes.copy_bytes:
                self._look_at(buffer)

    def _look_at(self, buffer: Buffer) -> None:
        """Find what overwrites each value of a buffer, and who else reads that value."""
        earlier: list[Node] = []
        for before, after in pairwise(buffer.values):
            node = after.node
            earlier += self.readers.get(before, ())
            if before not in self.live.buffers_read(node) or not self._is_kept(buffer, after):
                continue
            now = self.live.position[node]
            others = [
                n
                for n in dict.fromkeys(earlier)
                if self.live.position[n] < now and not self.precedence.comes_first(n, node)
            ]
            if others:
                proofs = dict.fromkeys(self._proof(other, node) for other in others)
                self.waits[node] = _Wait(before, tuple(others), tuple(proofs))
            if _updates_a_part(node) and self._is_read_by_kernels(after):
                self.handed_on.add(node)

    def _proof(self, other: Node, node: Node) -> Value:
        """Return the first value made from `other` that is needed after `node` in the order."""
        now, position = self.live.position[node], self.live.position
        reached = dict.fromkeys(other.results)
        waiting = list(reached)
        for value in waiting:  # It grows: what does not lead to the node leads past it.
            users = self.live.users.get(value, [])
            is_needed = value in self.live.outputs or any(position[u] > now for u in users)
            if is_needed and self.live.is_stored(value):
                return value
            for user in users:
                if position[user] < now:
                    waiting += [result for result in user.results if result not in reached]
                    reached.update(dict.fromkeys(user.results))
        return other.results[0]

    def _is_kept(self, buffer: Buffer, value: Value) -> bool:
        """Tell whether XLA must write the value where the model does."""
        node = value.node
        if node.body_graphs or _updates_a_part(node):
            return True
        is_last = value is buffer.values[-1] and self.live.death(value) == len(self.graph.nodes)
        return buffer.is_argument and is_last

    def _is_read_by_kernels(self, value: Value) -> bool:
        """Tell whether a kernel would recompute a value that others need stored."""
        users = self.live.users.get(value, [])
        others = len(users) + (value in self.live.outputs)
        return others > 1 and any(is_fused(user) for user in users)

    def run(self, log: PassLog) -> Graph:
        for node, wait in self.waits.items():
            names = ", ".join(other.name for other in wait.others)
            size = format_bytes(wait.leaf.type.nbytes)
            log.applied.append(f"{node.name} waits for {names}: it writes over {size}")
        log.applied.extend(f"{node.name} is made once for all readers" for node in self.handed_on)
        return self._rewritten() if self.waits or self.handed_on else self.graph

    def _rewritten(self) -> Graph:
        with Builder() as builder:
            values = {v: builder.input(v.type, v.node.source) for v in self.graph.inputs}
            for node in self.graph.nodes:
                builder.source = node.source
                known = values
                if node in self.waits:
                    known = self._behind(builder, node, values)
                operands = tuple([known[value] for value in node.operands])
                results = builder.copy(node, operands)
                if node in self.handed_on:
                    results = ops.optimization_barrier(*results)
                values.update(zip(node.results, results, strict=True))
            return builder.finish([values[value] for value in self.graph.outputs])

    def _behind(
        self, builder: Builder, node: Node, values: dict[Value, Value]
    ) -> dict[Value, Value]:
        """Emit a barrier, and what the kernel computes itself of the value behind it."""
        wait = self.waits[node]
        held = [values[wait.leaf], *(values[proof] for proof in wait.proofs)]
        leaf, *proofs = ops.optimization_barrier(*held)
        values.update(zip(wait.proofs, proofs, strict=True))
        known = {**values, wait.leaf: leaf}
        changed = {wait.leaf}
        for inner in self._computed_in(node):
            if changed.intersection(inner.operands):
                results = builder.copy(inner, tuple([known[value] for value in inner.operands]))
                known.update(zip(inner.results, results, strict=True))
                changed.update(inner.results)
        return known

    def _computed_in(self, kernel: Node) -> list[Node]:
        """Return the nodes that a kernel computes on the way, in their order."""
        found: set[Node] = set()
        stack = list(kernel.operands)
        while stack:
            value = stack.pop()
            if not self.live.is_stored(value) and value.node not in found:
                found.add(value.node)
                stack.extend(value.node.operands)
        return sorted(found, key=self.live.position.__getitem__)


def _updates_a_part(node: Node) -> bool:
    """Tell whether an op writes only a part of its result: the rest is its operand's memory."""
    assert node.op is not None
    is_opaque = node.op.fusion == "opaque" and bool(node.op.reuses)
    return is_opaque and node.cost.bytes < node.types[0].nbytes


class Precedence:
    """Which kernels run before a node in every order.

    Parameters
    ----------
    live : Liveness
        Kernels are its stored nodes.
    """

    def __init__(self, live: Liveness) -> None:
        self._bit = {node: 1 << i for i, node in enumerate(live.schedule)}
        self._before: dict[Node, int] = {}
        for node in live.graph.nodes:
            found = 0
            for value in node.operands:
                found |= self._before.get(value.node, 0) | self._bit.get(value.node, 0)
            self._before[node] = found

    def comes_first(self, kernel: Node, node: Node) -> bool:
        """Tell whether the node waits for the kernel."""
        return bool(self._before[node] & self._bit[kernel])


__all__ = ["IN_PLACE_NAME", "Precedence", "in_place_pass", "keep_in_place"]
