"""The time model: roughly how long a graph runs, to choose between equivalent programs.

A program is a sequence of kernels, one per stored value, including the producers that XLA fuses
into it (`liveness`). A kernel costs its arithmetic, its memory traffic (the terms of the roofline
model: Williams, Waterman, Patterson, *Roofline*, CACM 2009) and a fixed price for its start. The
terms are added, because clearing new pages does not overlap with arithmetic. Slices are faster than
whole values because of traffic. Buffers that stay in the cache are read and written there, and a
loop reuses its buffers in every trip, while each large temporary of a program is fresh memory whose
pages the operating system has to clear.

Only ratios of these seconds are meaningful; `python -m benchmarks.speed_model` compares them with
measurements.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tracer.ir import Graph, Node
from tracer.optimizer.model.liveness import Liveness
from tracer.optimizer.model.trip_counts import trip_count


@dataclass(frozen=True)
class Machine:
    """What a device can do, in bytes, seconds, and per second.

    The defaults are measured with jaxlib 0.10.2 on 2 cores of an AMD EPYC of family 26
    (docs/memory-model.md has the rows); `cache_bytes` and `cores` are read from the machine.

    Attributes
    ----------
    cores : int
        Cores that a kernel may use.
    cache_bytes : int
        The last-level cache.
    memory_bytes : float
        All of its memory.
    product_rate, vector_rate : float
        Operations a second of one core, single precision: in large matrix products, and in
        element-wise arithmetic.
    product_element_seconds : float
        What each element of a product's result costs one core besides: thin products are slow.
    step_seconds : float
        What each of the steps takes that one core takes one after the other.
    packing_rate : float
        Bytes a second of all cores that a library packs before it multiplies.
    cache_rate, memory_rate, fresh_rate : float
        Bytes a second of all cores: within the cache, to memory, and to memory that is written
        for the first time.
    kernel_seconds : float
        To start one kernel.
    """

    cores: int = 2
    cache_bytes: int = 32 << 20
    memory_bytes: float = math.inf
    product_rate: float = 2.2e11
    vector_rate: float = 2.5e10
    product_element_seconds: float = 1.5e-9
    step_seconds: float = 4.3e-10
    packing_rate: float = 1e10
    cache_rate: float = 1.5e11
    memory_rate: float = 4.5e10
    fresh_rate: float = 5e9
    kernel_seconds: float = 2e-6


DEFAULT_MACHINE = Machine()


# Work below this runs on one core: to wake the others takes as long.
PARALLEL_FLOPS = 1 << 16


class _Kernels:
    """The kernels of one graph; `in_loop`: its buffers are used again in every trip."""

    def __init__(self, graph: Graph, machine: Machine, in_loop: bool) -> None:
        self.graph = graph
        self.machine = machine
        self.in_loop = in_loop
        self.live = Liveness(graph)
        self._computes: dict[Node, float] = {}
        """Producers are part of several kernels; each is priced once."""

    def seconds(self) -> float:
        return sum(self._kernel(node) for node in self.graph.nodes if node in self.live.stored)

    def _kernel(self, node: Node) -> float:
        trips = trip_count(node)
        if node.body_graphs:
            # Of a conditional one branch runs; a loop's condition costs nothing beside its body.
            longest = max(trip_seconds(body, self.machine) for body in node.body_graphs)
            return (trips or 1) * longest
        nodes = self.live.kernels(node)
        compute = sum(map(self._compute, nodes))
        traffic = sum(self._traffic(item, item is node) for item in nodes)
        return self.machine.kernel_seconds + compute + traffic

    def _compute(self, node: Node) -> float:
        if node not in self._computes:
            self._computes[node] = self._priced(node)
        return self._computes[node]

    def _priced(self, node: Node) -> float:
        machine, cost = self.machine, node.cost
        cores = machine.cores if cost.flops > PARALLEL_FLOPS else 1
        width = max(1.0, node.types[0].dtype.itemsize / 4)
        seconds = (cost.flops - cost.product_flops) / machine.vector_rate * width
        if cost.product_flops:
            elements = sum(type.size for type in node.types)
            seconds += cost.product_flops / machine.product_rate * width
            seconds += elements * machine.product_element_seconds
        return seconds / cores + cost.steps * machine.step_seconds

    def _traffic(self, node: Node, is_stored: bool) -> float:
        """Return the seconds to move what a node reads from buffers, writes, and packs."""
        machine, cost = self.machine, node.cost
        total = 0.0
        moved = cost.bytes
        for type in node.types:
            if is_stored:
                total += min(cost.bytes, type.nbytes) / self._write_rate(type.nbytes)
            moved -= type.nbytes
        for value in node.operands:
            if not self.live.is_stored(value):
                moved -= value.type.nbytes
        largest = max((v.type.nbytes for v in node.operands if self.live.is_stored(v)), default=0)
        total += max(0, moved) / self._read_rate(min(largest, max(0, moved)))
        total += 2 * (cost.scratch - cost.packing) / machine.cache_rate
        return total + cost.packed / machine.packing_rate

    def _read_rate(self, nbytes: int) -> float:
        return self.machine.cache_rate if self._stays(nbytes) else self.machine.memory_rate

    def _write_rate(self, nbytes: int) -> float:
        if self._stays(nbytes):
            return self.machine.cache_rate
        return self.machine.memory_rate if self.in_loop else self.machine.fresh_rate

    def _stays(self, nbytes: int) -> bool:
        """Tell whether a buffer is still in the cache when it is used next."""
        return nbytes <= self.machine.cache_bytes // 4


def estimate_seconds(graph: Graph, machine: Machine) -> float:
    """Return about how long a graph runs, in seconds; ratios of them are what it is for."""
    return _Kernels(graph, machine, in_loop=False).seconds()


def trip_seconds(body: Graph, machine: Machine) -> float:
    """Return about how long one trip of a loop takes, in seconds."""
    return _Kernels(body, machine, in_loop=True).seconds()


def kernel_seconds(graph: Graph, machine: Machine) -> dict[Node, float]:
    """Return about how long each kernel of a graph takes, by the stored node that it writes."""
    kernels = _Kernels(graph, machine, in_loop=False)
    return {node: kernels._kernel(node) for node in graph.nodes if node in kernels.live.stored}
