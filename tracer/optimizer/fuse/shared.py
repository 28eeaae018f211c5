"""Store what several kernels read, instead of computing it again in each of them.

XLA:CPU fuses an op that costs little into every kernel that reads it. Of a long chain of such ops,
the rounds of a random generator and the polynomial behind it, each kernel gets all. A gradient that
reads the same random numbers in eight kernels computes them eight times, and XLA compiles them
eight times: a step of a small autoencoder took 9.2 s to compile, 3.2 with the numbers behind an
optimization barrier, and two thirds of the time to run (docs/fusion.md).

Where the time model finds it cheaper, this pass puts a barrier behind the last such value. The
opposite is the fusion merger, for values that XLA stores though they cost little.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from tracer.ir import Graph, Node
from tracer.optimizer.barriers import with_stored
from tracer.optimizer.model.lifetimes import Lifetimes
from tracer.optimizer.model.storage import is_fused
from tracer.optimizer.passes import Pass, PassLog
from tracer.target import Target

_WRITTEN_OUT_FLOPS = 30
"""Operations of ops that XLA gets as many, the last of them cheap: `erf_inv`, `lgamma`."""
_MOST_KERNELS = 64
"""That are counted."""
_MOST_ROUNDS = 4


def shared_values_pass(machine: Target, *, most_bytes: int | None = None) -> Pass:
    """Return the pass for a machine.

    Parameters
    ----------
    machine : Target
        What the device can do.
    most_bytes : int, optional
        Larger values are computed again.
    """

    def run(graph: Graph, log: PassLog) -> Graph:
        for _ in range(_MOST_ROUNDS):
            found = [*_worthwhile(graph, machine, most_bytes)]
            if not found:
                break
            log.applied += map(str, found)
            graph = with_stored(graph, {shared.node for shared in found})
        return graph

    return Pass("store shared values", run, exact=False)


def _worthwhile(graph: Graph, machine: Target, most_bytes: int | None) -> Iterator[Shared]:
    """Yield values to store, the most gainful first; none is computed inside of another."""
    found = _Chains(graph, machine).shared(math.inf if most_bytes is None else most_bytes)
    taken: set[Node] = set()
    for shared in sorted(found, key=lambda shared: -shared.gain):
        if shared.is_worthwhile and taken.isdisjoint(shared.inside):
            taken.update(shared.inside)
            yield shared


class _Chains:
    """What kernels compute themselves of the values that they read."""

    def __init__(self, graph: Graph, machine: Target) -> None:
        self.graph = graph
        self.machine = machine
        self.live = Lifetimes(graph)
        self.places = {node: place for place, node in enumerate(graph.nodes)}
        self.repeated = {node for node in graph.nodes if self._is_repeated(node)}
        self.kernels = self._kernels()
        """The kernels that compute each node, by what they write."""

    def _is_repeated(self, node: Node) -> bool:
        """Tell whether each kernel that reads a node's result element by element computes it."""
        live = self.live
        if node not in live.stored or node in live.again:
            return True
        return _is_loop(node) and _operations(node) >= _WRITTEN_OUT_FLOPS

    def _kernels(self) -> dict[Node, frozenset[Node]]:
        found: dict[Node, frozenset[Node]] = {}
        for node in reversed(self.graph.nodes):
            readers = self.live._readers(node)
            kernels: frozenset[Node] = frozenset()
            if node in self.repeated:
                for user in readers:
                    if len(kernels) < _MOST_KERNELS and (is_fused(user) or user in self.repeated):
                        kernels |= found[user]
            is_needed = node in self.live.stored and not all(map(is_fused, readers))
            if not kernels or is_needed or not self.live.outputs.isdisjoint(node.results):
                kernels |= {node}
            found[node] = kernels
        return found

    def _long(self) -> list[Node]:
        # At least as long: where a chain parts and meets again, ops are counted twice.
        lengths: dict[Node, int] = {}
        least = self.machine.sizes.chain_operations
        for node in self.graph.nodes:
            inside = {value.node for value in node.operands} & self.repeated
            length = _operations(node) + sum(lengths[other] for other in inside)
            lengths[node] = min(length, least)
        return [
            node
            for node in self.graph.nodes
            if node in self.repeated and lengths[node] >= least and _is_loop(node)
        ]

    def shared(self, most_bytes: float) -> Sequence[Shared]:
        """Return values at the ends of long chains that several kernels compute."""
        least = self.machine.kernels.least_barrier_bytes
        found: list[Shared] = []
        better: dict[Node, Shared] = {}
        for node in reversed(self._long()):
            kernels, nbytes = self.kernels[node], node.types[0].nbytes
            if len(kernels) < 2 or not least <= nbytes <= most_bytes:
                continue
            # A later value of the same kernels spares all that this one does, and itself.
            later = better.get(node)
            if later is not None and later.nbytes <= nbytes and later.kernels == kernels:
                continue
            inside = self.inside(node)
            found.append(Shared(node, inside, kernels, self._read_bytes(inside), self.machine))
            better.update(dict.fromkeys(found[-1].inside, found[-1]))
        return found

    def inside(self, node: Node) -> list[Node]:
        """Return what kernels compute for a node's result, and for nothing else."""
        found: dict[Node, None] = {}
        # The last first: when it is a node's turn, all that reads it has been looked at.
        turns = [(-self.places[node], node)]
        seen = {node}
        while turns:
            _, current = heapq.heappop(turns)
            if current is not node and not self._is_only_for(current, found):
                continue
            found[current] = None
            for value in current.operands:
                if value.node in self.repeated and value.node not in seen:
                    seen.add(value.node)
                    heapq.heappush(turns, (-self.places[value.node], value.node))
        return [*found]

    def _read_bytes(self, inside: Sequence[Node]) -> int:
        """Return the bytes of what is stored that a kernel reads to compute nodes."""
        read = {value for node in inside for value in node.operands}
        return sum(value.type.nbytes for value in read if value.node not in self.repeated)

    def _is_only_for(self, node: Node, readers: Container[Node]) -> bool:
        is_output = not self.live.outputs.isdisjoint(node.results)
        return not is_output and all(user in readers for user in self.live._readers(node))


def _is_loop(node: Node) -> bool:
    assert node.op is not None
    return node.op.fusion == "loop"


def _operations(node: Node) -> int:
    """Return the operations for each element; at least one, as each is compiled."""
    return max(1, node.cost.flops // max(1, node.types[0].size))


@dataclass(frozen=True, eq=False)
class Shared:
    """A value that several kernels compute, and what it costs to compute it in each.

    Attributes
    ----------
    node : Node
        What computes the value.
    inside : list of Node
        The node and what kernels compute for it only.
    kernels : frozenset of Node
        Those that compute it, by what they write.
    read_bytes : int
        What each kernel reads for it.
    machine : Target
        What the device can do.
    """

    node: Node
    inside: list[Node]
    kernels: frozenset[Node]
    read_bytes: int
    machine: Target

    @property
    def nbytes(self) -> int:
        """The value's bytes."""
        return self.node.types[0].nbytes

    @cached_property
    def again(self) -> float:
        """Seconds that all kernels but one take to compute it, and to read more than itself."""
        flops, prices = sum(node.cost.flops for node in self.inside), self.machine.prices
        more = max(0, self.read_bytes - self.nbytes)
        each = flops / (prices.vector_rate * self.machine.cores) + more / prices.memory_rate
        return (len(self.kernels) - 1) * each

    @cached_property
    def stored(self) -> float:
        """Seconds to write the value and to read it in each kernel."""
        nbytes, prices = self.nbytes, self.machine.prices
        if nbytes < self.machine.sizes.kept_bytes:
            return prices.kernel_seconds + (1 + len(self.kernels)) * nbytes / prices.cache_rate
        traffic = nbytes / prices.fresh_rate + len(self.kernels) * nbytes / prices.memory_rate
        return prices.kernel_seconds + traffic

    @property
    def gain(self) -> float:
        """Seconds that are saved."""
        return self.again - self.stored

    @property
    def is_worthwhile(self) -> bool:
        """Whether storing is cheaper, or hardly dearer and compiled once."""
        if sum(map(_operations, self.inside)) < self.machine.sizes.chain_operations:
            return False
        return self.gain > -self.machine.prices.kernel_seconds

    def __str__(self) -> str:
        return (
            f"{self.node.types[0]} of {self.node.name} for {len(self.kernels)} kernels: "
            f"{1e6 * self.stored:.3g} us for {1e6 * self.again:.3g}"
        )


__all__ = ["shared_values_pass"]
