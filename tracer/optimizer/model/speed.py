"""The time model: roughly how long a graph runs, to choose between equivalent programs.

A program is a sequence of kernels, one per stored value, including the producers that XLA fuses
into it (`liveness`). A kernel costs its arithmetic, its memory traffic (the terms of the roofline
model: Williams, Waterman, Patterson, *Roofline*, CACM 2009) and a fixed price for its start. The
terms are added, because clearing new pages does not overlap with arithmetic. Slices are faster than
whole values because of traffic. Buffers that stay in the cache are read and written there, and a
loop reuses its buffers in every trip, while the large temporaries of a program are fresh memory
whose pages the operating system has to clear: once for each page, so only as many bytes as are
alive at a time. What is written over dead values costs the traffic alone.

Only ratios of these seconds are meaningful; `python -m benchmarks.speed_model` compares them with
measurements.
"""

from __future__ import annotations

from tracer.ir import Cost, Graph, Node
from tracer.ir.library_calls import ProductCall
from tracer.optimizer.model.costs import counted_scratch, packed_bytes, run_cost
from tracer.optimizer.model.liveness import Liveness, peak_bytes
from tracer.optimizer.model.numbers import Numbers
from tracer.optimizer.model.product_library import cores_of_product
from tracer.optimizer.model.trip_counts import run_count
from tracer.target import Target


class _Kernels:
    """The kernels of one graph; `in_loop`: its buffers are used again in every trip."""

    def __init__(self, graph: Graph, machine: Target, in_loop: bool) -> None:
        self.graph = graph
        self.machine = machine
        self.in_loop = in_loop
        self.live = Liveness(graph)
        self._computes: dict[Node, float] = {}
        """Producers are part of several kernels; each is priced once."""
        self._fresh_bytes = 0
        """What the kernels that were priced so far write as new pages."""

    def seconds(self) -> float:
        kernels = [node for node in self.graph.nodes if node in self.live.stored]
        return sum(map(self._kernel, kernels)) - self._written_again()

    def _written_again(self) -> float:
        """Return the seconds saved where kernels write to pages that dead values had."""
        if not self._fresh_bytes:
            return 0.0
        arguments = sum(type.nbytes for type in self.graph.input_types)
        again = self._fresh_bytes - (peak_bytes(self.graph) - arguments)
        prices = self.machine.prices
        return max(0, again) * (1 / prices.fresh_rate - 1 / prices.memory_rate)

    def _kernel(self, node: Node) -> float:
        if node.body_graphs:
            # One branch of a conditional runs; a loop's condition costs nothing beside its body.
            longest = max(trip_seconds(body, self.machine) for body in node.body_graphs)
            return run_count(node) * longest
        nodes = self.live.kernels(node)
        compute = sum(map(self._compute, nodes))
        traffic = sum(self._traffic(item, item is node) for item in nodes)
        return self.machine.prices.kernel_seconds + compute + traffic

    def _compute(self, node: Node) -> float:
        if node not in self._computes:
            self._computes[node] = self._priced(node)
        return self._computes[node]

    def _priced(self, node: Node) -> float:
        prices, cost = self.machine.prices, run_cost(node)
        cores = self.machine.cores if cost.flops > prices.parallel_flops else 1
        itemsize = node.types[0].dtype.itemsize
        width = max(1.0, itemsize / 4)
        seconds = (cost.flops - cost.product_flops) / prices.vector_rate * width / cores
        if cost.product_flops:
            elements = sum(type.size for type in node.types)
            product = prices.product_seconds(cost.product_flops, elements, itemsize)
            seconds += product / min(cores, self._cores_of_product(cost))
        return seconds + cost.steps * prices.step_seconds

    def _cores_of_product(self, cost: Cost) -> int:
        """Return among how many cores a library spreads each matrix product of a batch."""
        products = [call for call in cost.calls if isinstance(call, ProductCall)]
        cores = (cores_of_product(call, self.machine) for call in products)
        return min(cores, default=self.machine.cores)

    def _traffic(self, node: Node, is_stored: bool) -> float:
        """Return the seconds to move what a node reads from buffers, writes, and packs."""
        prices, cost = self.machine.prices, run_cost(node)
        total = 0.0
        moved = cost.bytes
        for type in node.types:
            if is_stored:
                total += self._write(min(cost.bytes, type.nbytes), type.nbytes)
            moved -= type.nbytes
        for value in node.operands:
            if not self.live.is_stored(value):
                moved -= value.type.nbytes
        largest = max((v.type.nbytes for v in node.operands if self.live.is_stored(v)), default=0)
        total += max(0, moved) / self._read_rate(largest)
        scratch = counted_scratch(node)
        total += self._write(scratch, scratch) + scratch / self._read_rate(scratch)
        return total + packed_bytes(node) / prices.packing_rate

    def _read_rate(self, nbytes: int) -> float:
        prices = self.machine.prices
        return prices.cache_rate if self._stays(nbytes) else prices.memory_rate

    def _write(self, nbytes: int, buffer_bytes: int) -> float:
        """Return the seconds to write so many bytes of a buffer."""
        prices = self.machine.prices
        if self._stays(buffer_bytes):
            return nbytes / prices.cache_rate
        if self.in_loop:
            return nbytes / prices.memory_rate
        self._fresh_bytes += nbytes
        return nbytes / prices.fresh_rate

    def _stays(self, nbytes: int) -> bool:
        """Tell whether a buffer is still in the cache when it is used next."""
        return nbytes <= self.machine.cache_bytes // 4


def estimate_seconds(graph: Graph, machine: Target) -> float:
    """Return about how long a graph runs, in seconds; only ratios of them are meaningful."""
    return _Kernels(graph, machine, in_loop=False).seconds()


def trip_seconds(body: Graph, machine: Target) -> float:
    """Return about how long one trip of a loop takes, in seconds."""
    return _TRIPS(body, machine)


_TRIPS = Numbers(lambda body, machine: _Kernels(body, machine, in_loop=True).seconds())


def kernel_seconds(graph: Graph, machine: Target) -> dict[Node, float]:
    """Return about how long each kernel of a graph takes, by the stored node that it writes."""
    kernels = _Kernels(graph, machine, in_loop=False)
    return {node: kernels._kernel(node) for node in graph.nodes if node in kernels.live.stored}
