"""Sink loop invariants: a body recomputes a large operand from the small values behind it.

Scans, while loops and branches read their operands whole, so a kernel matrix used in every step is
stored. Computed inside the body from its points, it is an ordinary value of a graph and can be
computed in slices. Each step then computes it again. Sources: rematerialisation, Briggs, Cooper &
Torczon (1992); for the trade-off with arrays, Chen et al., "Training Deep Nets with Sublinear
Memory Cost" (2016).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tracer import ops
from tracer.ir import Builder, Graph, Node, ShapeDtype, Value, map_bodies
from tracer.ops.generator import Generator
from tracer.ops.rules import stops_gradients
from tracer.ops.sink_guard import meets_itself

LargeTest = Callable[[ShapeDtype], bool]
Report = Callable[[Node, Value, str | None], None]
"""Told of every large invariant: the loop, the value, and why it was not sunk (None: it was)."""

_FLOPS_AGAIN = 4096
"""Operations per element that are worth not storing it: distances between 1,000 features.

What memory is worth, whatever the machine: values are sunk where nothing else keeps a limit.
"""


def sink_invariants(
    graph: Graph,
    is_large: LargeTest,
    report: Report = lambda node, value, why: None,
    *,
    differentiated: bool = False,
) -> Graph:
    """Let the bodies of loops and branches compute their large operands, at every depth.

    Parameters
    ----------
    graph : Graph
    is_large : callable
        Tells for a type whether a value of it is too large to be stored.
    report : callable
        See `Report`.
    differentiated : bool
        The graph will be differentiated. So a while loop, which has no gradient, is given what no
        gradient passes: computed in its body it would make the loop a function of what is behind.

    Returns
    -------
    Graph
        It computes the same; a value that is computed again may round differently in its last
        digit. The same object when no large operand can be computed in a body.
    """
    graph = _sink_level(graph, is_large, report, differentiated)
    return map_bodies(
        graph,
        lambda body: sink_invariants(body, is_large, report, differentiated=differentiated),
    )


def _sink_level(graph: Graph, is_large: LargeTest, report: Report, differentiated: bool) -> Graph:
    """Sink into the bodies that the graph itself holds."""
    found = {
        node: _generator(graph, node, is_large, report, differentiated and node.op is ops.while_)
        for node in graph.nodes
    }
    if not any(found.values()):
        return graph
    values: dict[Value, Value] = {}
    with Builder() as builder:
        for value in graph.inputs:
            values[value] = builder.input(value.type, value.node.source)
        for node in graph.nodes:
            operands = [values[value] for value in node.operands]
            generator = found[node]
            if generator is None:
                results: Sequence[Value] = builder.copy(node, tuple(operands))
            else:
                assert node.op is not None
                assert node.op.sink is not None
                builder.source = node.source
                leaves = [values[value] for value in generator.leaves]
                results = node.op.sink(operands, leaves, generator, **node.params)
                builder.source = None
            values.update(zip(node.results, results, strict=True))
    return builder.finish([values[value] for value in graph.outputs])


def _generator(
    graph: Graph, node: Node, is_large: LargeTest, report: Report, keeps_stops: bool
) -> Generator | None:
    """Return how the bodies of a node can compute its large operands, None if there are none."""
    if node.op is None or node.op.invariants is None:
        return None
    positions = node.op.invariants(len(node.operands), **node.params)
    large = [i for i in positions if is_large(node.operands[i].type)]
    sunk: dict[int, Value] = {}
    again: set[Node] = set()
    for position in large:
        value = node.operands[position]
        if value.node.op is not None:
            nodes, why = nodes_again(value, is_large)
            if keeps_stops and why is None and any(map(stops_gradients, nodes)):
                why = "no gradient passes it, and the loop has none"
            report(node, value, why)
            if why is None:
                sunk[position] = value
                again |= nodes
    if not sunk:
        return None
    order = tuple(inner for inner in graph.nodes if inner in again)
    shared = {node.operands[i]: i for i in positions if i not in sunk}
    read = dict.fromkeys(v for inner in order for v in inner.operands if v.node not in again)
    generator = Generator(
        sunk,
        order,
        tuple(value for value in read if value not in shared),
        {value: i for value, i in shared.items() if value in read},
    )
    if meets_itself(graph, node, generator):
        report(node, next(iter(sunk.values())), "the body compares it with what it gave before")
        return None
    return generator


def nodes_again(root: Value, is_large: LargeTest) -> tuple[set[Node], str | None]:
    """Return the nodes that make a value from small ones and inputs, or why they should not run."""
    nodes: set[Node] = set()
    flops, stored = 0, 0
    stack = [root]
    while stack:
        value = stack.pop()
        node = value.node
        if node.op is None or node in nodes:
            continue
        if not _is_trivial(node):
            if not is_large(value.type):
                continue
            refusal = _why_once(node)
            if refusal is not None:
                if value is root:
                    return nodes, refusal
                stored += value.type.nbytes
                continue
            flops += node.cost.flops
        nodes.add(node)
        stack.extend(node.operands)
    if stored >= root.type.nbytes:
        return nodes, "it is computed from values that are as large and must be stored"
    each = flops // max(1, root.type.size)
    if each > _FLOPS_AGAIN:
        return nodes, f"it takes {each:,} operations per element to compute again"
    return nodes, None


def _is_trivial(node: Node) -> bool:
    """Tell whether a node is a scalar constant: written again sooner than handed in."""
    return not node.operands and node.types[0].size == 1


def _why_once(node: Node) -> str | None:
    assert node.op is not None
    if not node.is_pure:
        return f"{node.op.name} must not run again"
    if node.op.invariants is not None or (node.bodies and node.op.expand is None):
        return f"it is the result of a {node.op.name}"
    if node.op is ops.constant:
        return "it is a constant array"
    rule = node.axes
    if not node.bodies and not any(rule.is_parallel(label) for label in rule.results[0]):
        return f"{node.op.name} computes it as a whole"
    return None


__all__ = ["LargeTest", "Report", "nodes_again", "sink_invariants"]
