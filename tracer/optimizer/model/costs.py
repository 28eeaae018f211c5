"""What nodes and graphs cost, with all trips of their loops."""

from __future__ import annotations

from dataclasses import replace

from tracer.ir import Cost, Graph, Node, fused_flops
from tracer.ir.library_calls import LibraryCall, ReductionCall, SelectionCall
from tracer.ops.bodies import calls_of
from tracer.optimizer.model.in_order import is_computed_in_place, is_read_in_order, merged, runs_of
from tracer.optimizer.model.trip_counts import trip_count
from tracer.target import current_target

# What an element takes to compute is counted so far: more is no short loop on any device.
_MANY_FLOPS = 64


def run_cost(node: Node) -> Cost:
    """Return what one run of a node costs on the target."""
    cost = node.cost
    if not cost.calls or node.body_graphs:
        return cost
    if not any(isinstance(call, SelectionCall) for call in cost.calls):
        return cost
    target = current_target()
    works = [target.selection.work(call) for call in cost.calls if isinstance(call, SelectionCall)]
    return replace(
        cost,
        flops=sum(work.flops for work in works),
        bytes=cost.bytes + sum(work.moved_bytes for work in works),
        steps=sum(work.steps for work in works),
    )


def node_cost(node: Node) -> Cost:
    """Return the cost of one node on the target; a loop of known length counts every trip."""
    trips = 1 if _is_call(node) else trip_count(node)
    if trips is None:
        return run_cost(node)
    costs = [node_cost(inner) for inner in node.params["body"].nodes]
    return Cost(
        trips * sum(cost.flops for cost in costs),
        trips * sum(cost.bytes for cost in costs),
        max((cost.scratch for cost in costs), default=0),
        packing=max((cost.packing for cost in costs), default=0),
        calls=calls_of(costs),
    )


def _is_call(node: Node) -> bool:
    """Tell whether a node runs its body once."""
    assert node.op is not None
    return [*node.bodies] == ["body"] and node.op.invariants is None


def counted_scratch(node: Node) -> int:
    """Return the hidden bytes of a node that XLA counts: copies, transposes."""
    cost = node.cost
    if not cost.calls:
        return cost.scratch - cost.packing
    target = current_target()
    calls = (_as_written(call, node) for call in cost.calls)
    transposed = (target.memory_of(call).transposed for call in calls)
    return cost.scratch - cost.packing + max(transposed, default=0)


def _as_written(call: LibraryCall, node: Node) -> LibraryCall:
    """Return a call that says, of a reduction, in what form its operand is read."""
    if not isinstance(call, ReductionCall) or not node.operands:
        return call
    (x, *_), axes = node.operands, call.axes
    call = replace(call, flops=call.flops + fused_flops(x, enough=_MANY_FLOPS))
    runs = runs_of(len(call.shape), axes)
    if call.shape == x.shape and len(runs) < len(call.shape) and is_read_in_order(x, runs):
        shape, axes = merged(call.shape, axes, runs)
        call = replace(call, shape=shape, axes=axes)
    rules = current_target().reductions
    # Asked of short rows only: planners ask for the scratch of every node again and again.
    if rules is None or not rules.lanes.count(call):
        return call
    return replace(call, is_elementwise=is_computed_in_place(x))


def packing_bytes(node: Node) -> int:
    """Return the bytes that a library allocates itself, on the target, while a node runs."""
    cost = node.cost
    if not cost.calls:
        return cost.packing
    target = current_target()
    return max([cost.packing, *(target.memory_of(call).packing for call in cost.calls)])


def packed_bytes(node: Node) -> int:
    """Return the bytes that a library rearranges on the target, in all."""
    target = current_target()
    return sum(target.memory_of(call).packed for call in node.cost.calls)


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
