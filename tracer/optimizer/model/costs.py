"""What nodes and graphs cost, with all trips of their loops."""

from __future__ import annotations

from tracer.ir import Cost, Graph, Node
from tracer.optimizer.model.trip_counts import trip_count


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
