"""Cut a gradient's graph in two: what the forward half keeps for the backward half.

The backward half starts as the nodes that depend on a cotangent. To keep less, it also recomputes
forward nodes whose result is larger than their operands, and nodes that a few element-wise
operations derive from kept values. Sources: Chen et al. (2016), section 4, on what fusion
recomputes for free; the min-cut partitioner of functorch (He & Yu, 2022), of which this is the
greedy form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set

from tracer.ir import Graph, Node, Value
from tracer.ops.sink_guard import tests_floats

_FLOPS_AGAIN = 32
"""Operations per element that may be spent on not keeping a value, as two sines cost.

The same on every machine: a graph that is differentiated is not yet meant for a device.
"""

_NODES_AGAIN = 6
"""Nodes that compute which may be run again for one value.

Without this bound long chains of additions and products are run again, as the whole step of an
integrator: 1.36 times the operations of JAX, which keeps all, for the gradient of `springs` in
`benchmarks.gradient_programs`; with it 1.02 times, and half of the stacked bytes.
"""


def cut(
    whole: Graph,
    primals: Sequence[Value],
    seeds: Sequence[Value],
    free: Sequence[Value],
    saves: Callable[[Node], bool] | None = None,
    drops: Callable[[Node], bool] | None = None,
    acting: Set[Node] = frozenset(),
) -> tuple[list[Node], list[Value]]:
    """Cut a graph whose outputs are cotangents.

    Parameters
    ----------
    whole : Graph
        Its inputs are `primals` and `seeds`.
    primals, seeds : sequence of Value
        The inputs of the forward half, and the cotangents.
    free : sequence of Value
        Those of `primals` that cost nothing to keep.
    saves : callable, optional
        Tells for a forward node whether its results may be kept, in place of the choice that is
        made here; the results of all others are computed again.
    drops : callable, optional
        Tells for a forward node that its results must not be kept, whatever is chosen for others.
    acting : set of Node
        Nodes with an effect that belong to the backward half, whatever they read.

    Returns
    -------
    list of Node
        The nodes of the backward half, in order.
    list of Value
        What it takes from the forward half, inputs included, in order.
    """
    forced: set[Node] = set()

    def again(node: Node) -> bool:
        by_default = _grows(node) if saves is None else not saves(node)
        return by_default or node in forced or (drops is not None and drops(node))

    while True:
        later, crossing = _frontier(whole, seeds, again, acting)
        if saves is None:
            _compute_again(whole, later, crossing, free)
        compared = _compared_with_again(whole, seeds, later)
        if compared <= later | forced:
            break
        forced |= compared
    order = {node: i for i, node in enumerate(whole.nodes)}
    used = [value for value in primals if value in crossing]
    kept = sorted(_results(crossing), key=lambda v: (order[v.node], v.index))
    return [node for node in whole.nodes if node in later], [*used, *kept]


def _compute_again(
    whole: Graph, later: set[Node], crossing: set[Value], free: Sequence[Value]
) -> None:
    """Take from `crossing` what follows cheaply from the rest of it, in order."""
    order = {node: i for i, node in enumerate(whole.nodes)}
    at_hand = crossing.union(free)
    for value in sorted(_results(crossing), key=lambda v: (order[v.node], v.index)):
        nodes = _nodes_again(value, at_hand)
        if nodes is None:
            continue
        crossing.remove(value)
        at_hand.remove(value)
        later |= nodes
        read = {operand for node in nodes for operand in node.operands}
        crossing |= read.intersection(free)


def _compared_with_again(whole: Graph, seeds: Sequence[Value], later: set[Node]) -> set[Node]:
    """Return nodes that a test for equality asks to run again, because it compares anew.

    A value that is computed again may differ in its last digit. Where it is compared with what was
    computed from it, as the gradient of a maximum does, that has to be computed again too; and so
    has what follows from a test that runs again, such as the number of ties.
    """
    behind: set[Value] = set()
    for node in reversed(whole.nodes):
        if (node in later and tests_floats(node)) or any(v in behind for v in node.results):
            behind.update(node.operands)
    if not behind:
        return set()
    dependent, changed, tested = set(seeds), set[Value](), set[Value]()
    found: set[Node] = set()
    for node in whole.nodes:
        if any(value in dependent for value in node.operands):
            dependent.update(node.results)
            continue
        follows = any(value in tested for value in node.operands)
        if follows or (node in later and tests_floats(node)):
            tested.update(node.results)
        if node in later or any(value in changed for value in node.operands):
            changed.update(node.results)
            if follows or any(value in behind for value in node.results):
                found.add(node)
    return found


def _results(values: Iterable[Value]) -> list[Value]:
    return [value for value in values if value.node.op is not None]


def _frontier(
    whole: Graph, seeds: Sequence[Value], again: Callable[[Node], bool], acting: Set[Node]
) -> tuple[set[Node], set[Value]]:
    """Return the nodes that depend on a cotangent or are to run again, and what they read."""
    dependent: set[Value] = set(seeds)
    later: set[Node] = set()
    for node in whole.nodes:
        if node in acting or any(value in dependent for value in node.operands):
            later.add(node)
            dependent.update(node.results)
    demanded = [value for value in whole.outputs if value not in dependent]
    demanded += [v for node in later for v in node.operands if v not in dependent]
    crossing: set[Value] = set()
    while demanded:
        value = demanded.pop()
        if value in crossing or value.node in later:
            continue
        if value.node.op is not None and again(value.node):
            later.add(value.node)
            demanded.extend(value.node.operands)
        else:
            crossing.add(value)
    return later, crossing


def _grows(node: Node) -> bool:
    """Tell whether keeping the result would take more memory than keeping the operands."""
    if not node.operands:
        return True
    given = sum(type.nbytes for type in node.operand_types)
    return _is_fused(node) and given < sum(type.nbytes for type in node.types)


def _is_fused(node: Node) -> bool:
    return node.op is not None and node.op.fusion in ("loop", "view")


def _nodes_again(value: Value, available: set[Value]) -> set[Node] | None:
    """Return the nodes that make `value` from others of `available`, None if none are cheap."""
    nodes: set[Node] = set()
    flops, budget = 0, _FLOPS_AGAIN * max(1, value.type.size)
    computing = 0
    stack = [value]
    while stack:
        node = stack.pop().node
        if node in nodes:
            continue
        if node.op is None or not _is_fused(node):
            return None
        nodes.add(node)
        cost = node.cost
        flops += max(cost.flops, node.types[0].size)
        computing += cost.flops > 0
        if flops > budget or computing > _NODES_AGAIN:
            return None
        stack.extend(operand for operand in node.operands if operand not in available)
    return nodes


__all__ = ["cut"]
