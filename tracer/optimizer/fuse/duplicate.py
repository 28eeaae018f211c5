"""Fusion merger: recompute a producer in each kernel that reads it, instead of storing it.

XLA never computes an *expensive* value (a quotient, an exponential) twice. If two kernels read it,
it is written to memory and read back, however cheap the arithmetic is compared with the traffic. On
a CPU a program's memory is new pages in every call, which the system clears first: storing a
quotient of 4 MB takes up to nine times as long as computing it twice (docs/fusion.md).

This pass gives each reading kernel but the first a copy of the producer, computed from stored
values behind an optimization barrier, without which XLA would merge the copies. Each further copy
has one more barrier, so that copies do not merge with each other. The number of copies is bounded,
and each is priced. A value that is compared for equality with something computed from it is never
computed twice: the copies may differ in the last digit.

Source: Snider & Liang, "Operator Fusion in XLA" (2023), III-B and V-B, fusion merger. XLA's
`CodeDuplicationTooHigh` allows one consumer; here a cost is the bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value
from tracer.ir.graph import copy_nodes
from tracer.ops.rules import as_tuple
from tracer.optimizer.model.in_order import long_axes
from tracer.optimizer.model.liveness import Liveness
from tracer.optimizer.model.storage import is_fused
from tracer.optimizer.passes import Pass, PassLog
from tracer.target import Target

MOST_KERNELS = 4
"""That may compute one value."""
_SMALL_LEAF_BYTES = 1024
_WORTHWHILE = 1.5
"""Saved seconds for each second of computing again, by the model, whose error is about that."""
_MOST_VALUES = 16


def duplicate_pass(machine: Target) -> Pass:
    """Return the pass for a machine. Bodies of loops use the same memory in each trip: left out."""

    def run(graph: Graph, log: PassLog) -> Graph:
        refused: dict[str, str] = {}
        for _ in range(_MOST_VALUES):
            if not any(_may_gain(node, machine) for node in graph.nodes):
                break
            found = _best(graph, machine, refused)
            if found is None:
                break
            log.applied.append(str(found))
            graph = _Writer(found).run()
        for subject, reason in refused.items():
            log.refuse(subject, reason)
        return graph

    return Pass("fusion merger", run, exact=False, bodies=False)


def _may_gain(node: Node, machine: Target) -> bool:
    assert node.op is not None
    return node.op.fusion == "loop" and node.types[0].nbytes >= machine.sizes.kept_bytes


def _best(graph: Graph, machine: Target, refused: dict[str, str]) -> Merger | None:
    live = Liveness(graph)
    found = []
    for node in live.schedule:
        if not _may_gain(node, machine) or node.results[0] in live.outputs or not node.operands:
            continue
        roots = _kernels(live, node)
        if roots is None or not 2 <= len(roots) <= MOST_KERNELS:
            continue
        merger = Merger(live, node, roots, machine)
        reason = merger.refusal()
        if reason is None:
            found.append(merger)
        else:
            refused[merger.subject] = reason
    return max(found, key=lambda merger: merger.gain, default=None)


def _kernels(live: Liveness, node: Node) -> list[Node] | None:
    """Return the kernels that read a value element by element; None when others read it too.

    A kernel that broadcasts it would compute each element many times.
    """
    roots: dict[Node, None] = {}
    stack, seen = [node], {node}
    while stack:
        for user in live._readers(stack.pop()):
            if user.types[0].size > node.types[0].size or user in live.again:
                return None
            if user in live.stored:
                if not is_fused(user):
                    return None
                roots[user] = None
            elif any(value in live.outputs for value in user.results):
                return None
            elif user not in seen:
                seen.add(user)
                stack.append(user)
    return sorted(roots, key=live.position.__getitem__)


@dataclass(frozen=True, eq=False)
class Merger:
    """A stored value, the kernels that read it, and the cost of computing it in each.

    Attributes
    ----------
    live : Liveness
        Of the graph.
    node : Node
        The producer.
    roots : list of Node
        The kernels, by what they write; the first keeps the producer itself.
    machine : Target
        What the device can do.
    """

    live: Liveness
    node: Node
    roots: Sequence[Node]
    machine: Target

    @property
    def subject(self) -> str:
        """The producer, for the plan."""
        return f"{self.node.types[0]} of {self.node.name}"

    @cached_property
    def inside(self) -> list[Node]:
        """The producer and what is computed inside of it, in the order of the graph."""
        return self.live.kernels(self.node)

    @cached_property
    def leaves(self) -> list[Value]:
        """The stored values that it is computed from, without small ones."""
        read = dict.fromkeys(value for node in self.inside for value in node.operands)
        return [v for v in read if self.live.is_stored(v) and v.type.nbytes > _SMALL_LEAF_BYTES]

    @cached_property
    def again(self) -> float:
        """Seconds to compute the copies, and to read their operands."""
        copies = len(self.roots) - 1
        flops = sum(node.cost.flops for node in self.inside)
        read = sum(value.type.nbytes for value in self.leaves)
        prices, cores = self.machine.prices, self.machine.cores
        return copies * (flops / prices.vector_rate / cores + read / prices.memory_rate)

    @cached_property
    def stored(self) -> float:
        """Seconds to write the value, in new pages unless a result is there later, and read."""
        nbytes, prices = self.node.types[0].nbytes, self.machine.prices
        is_shared = len(self.live.buffers[self.node.results[0]].values) > 1
        write = prices.memory_rate if is_shared else prices.fresh_rate
        moved = nbytes / write + len(self.roots) * nbytes / prices.memory_rate
        return moved + self._written_out

    @property
    def _written_out(self) -> float:
        """Seconds that the kernel takes longer if it writes short rows with a value for each."""
        prices, type = self.machine.prices, self.node.types[0]
        is_short = (
            type.dtype.itemsize == 4 and type.shape[-1:] and type.shape[-1] in prices.short_rows
        )
        spread = (node for node in self.inside if node.op is ops.broadcast_in_dim)
        is_for_rows = any(long_axes(node) == [*range(type.ndim - 1)] for node in spread)
        return prices.short_row_seconds * type.size if is_short and is_for_rows else 0.0

    @property
    def gain(self) -> float:
        """Seconds that are saved."""
        return self.stored - self.again

    def refusal(self) -> str | None:
        """Return why the value stays stored, or None."""
        if not self.leaves:
            return "it is made of nothing that is stored"
        if self.stored < _WORTHWHILE * self.again:
            times = f"{1e6 * self.again:.3g} us for {1e6 * self.stored:.3g}"
            return f"to compute it again takes as long as to store it ({times})"
        if _is_compared(self.live.graph, self.node):
            return "a value made from it is compared for equality, and copies may round differently"
        return None

    def __str__(self) -> str:
        return (
            f"{self.subject} computed in {len(self.roots)} kernels: "
            f"{1e6 * self.again:.3g} us for {1e6 * self.stored:.3g}"
        )


def _is_compared(graph: Graph, node: Node) -> bool:
    reached = {node}
    for user in graph.nodes:
        if any(value.node in reached for value in user.operands):
            reached.add(user)
            assert user.op is not None
            if user.op.tests_equality(**user.params):
                return True
    return False


class _Writer:
    """Copies the graph, with the producer again in each kernel but the first."""

    def __init__(self, merger: Merger) -> None:
        self.merger = merger
        self.graph = merger.live.graph
        self.values: dict[Value, Value] = {}

    def run(self) -> Graph:
        rounds = {root: index for index, root in enumerate(self.merger.roots)}
        with Builder() as builder:
            for value in self.graph.inputs:
                self.values[value] = builder.input(value.type, value.node.source)
            for node in self.graph.nodes:
                if rounds.get(node):
                    self._copy_kernel(builder, node, rounds[node])
                else:
                    copy_nodes(builder, [node], self.values)
            return builder.finish([self.values[value] for value in self.graph.outputs])

    def _copy_kernel(self, builder: Builder, root: Node, barriers: int) -> None:
        """Write a kernel, with everything computed inside it from the producer."""
        merger, values = self.merger, dict(self.values)
        builder.source = merger.node.source
        fresh = [values[value] for value in merger.leaves]
        for _ in range(barriers):
            fresh = list(as_tuple(ops.optimization_barrier(*fresh)))
        builder.source = None
        inner = dict(values)
        inner.update(zip(merger.leaves, fresh, strict=True))
        copy_nodes(builder, merger.inside, inner)
        values[merger.node.results[0]] = inner[merger.node.results[0]]
        copy_nodes(builder, self._between(root), values)
        copy_nodes(builder, [root], values)
        self.values.update((value, values[value]) for value in root.results)

    def _between(self, root: Node) -> Iterator[Node]:
        """Yield what a kernel computes from the producer before its result, in order."""
        live, wanted = self.merger.live, {root}
        stack = [root]
        while stack:
            for value in stack.pop().operands:
                if not live.is_stored(value) and value.node not in wanted:
                    wanted.add(value.node)
                    stack.append(value.node)
        reached = {self.merger.node}
        for node in self.graph.nodes:
            if node in wanted and any(value.node in reached for value in node.operands):
                reached.add(node)
                if node is not root:
                    yield node


__all__ = ["duplicate_pass"]
