"""What nodes and graphs cost, with all trips of their loops."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tracer.ir import Cost, Graph, Node
from tracer.optimizer.loops import trip_count

_PACKED: ContextVar[bool] = ContextVar("_PACKED", default=True)


@contextmanager
def libraries_pack(is_so: bool) -> Iterator[None]:
    """Say whether libraries copy operands into memory of their own, which the CPU's do.

    Products of GPUs and TPUs read them where they are, and what their kernels need besides is in
    XLA's count.
    """
    token = _PACKED.set(is_so)
    try:
        yield
    finally:
        _PACKED.reset(token)


def do_libraries_pack() -> bool:
    """Tell whether libraries copy operands into memory of their own; see `libraries_pack`."""
    return _PACKED.get()


def node_cost(node: Node) -> Cost:
    """Return the cost of one node; a loop of known length counts every trip."""
    assert node.op is not None
    trips = trip_count(node)
    if trips is None:
        return node.cost
    costs = [node_cost(inner) for inner in node.params["body"].nodes]
    return Cost(
        trips * sum(cost.flops for cost in costs),
        trips * sum(cost.bytes for cost in costs),
        max((cost.scratch for cost in costs), default=0),
        packing=max((cost.packing for cost in costs), default=0),
    )


def graph_flops(graph: Graph) -> int:
    """Return the floating-point operations of a graph, in all trips of its loops."""
    return sum(node_cost(node).flops for node in graph.nodes)


def node_count(graph: Graph) -> int:
    """Return the number of nodes, bodies included."""
    count = 0
    for node in graph.nodes:
        count += 1
        count += sum(map(node_count, node.body_graphs))
    return count
