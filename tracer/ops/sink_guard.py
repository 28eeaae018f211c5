"""Whether a body compares a recomputed value with what came from its first computation.

A recomputed value may differ in its last digit, and then `x == max(x)` holds nowhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tracer.ir import Graph, Node, Value
from tracer.ops.generator import Generator
from tracer.ops.rules import is_inexact


def meets_itself(graph: Graph, node: Node, generator: Generator) -> bool:
    """Tell whether a body of `node` tests a sunk operand against what was computed from it outside.

    Within one run of a body both sides of a test see the same value, however it was computed.
    """
    before = dependent(graph.nodes, {v for inner in generator.nodes for v in inner.results})
    given = {i for i, v in enumerate(node.operands) if v in before and i not in generator.sunk}
    if not given and not any(leaf in before for leaf in generator.leaves):
        return False
    return any(tests_equality(body) for body in node.body_graphs)


def tests_floats(node: Node) -> bool:
    """Tell whether a node depends on two floats being equal to the last digit."""
    assert node.op is not None
    exact = node.op.tests_equality(**node.params)
    return exact and is_inexact(node.operand_types[0].dtype)


def tests_equality(body: Graph) -> bool:
    """Tell whether a graph, or a body in it, depends on two floats being equal."""
    return any(
        tests_floats(node) or any(tests_equality(inner) for inner in node.body_graphs)
        for node in body.nodes
    )


def dependent(nodes: Iterable[Node], roots: Collection[Value]) -> set[Value]:
    """Return some values and those computed from them, of nodes in their order."""
    reached = set(roots)
    for node in nodes:
        if any(value in reached for value in node.operands):
            reached.update(node.results)
    return reached


__all__ = ["dependent", "meets_itself", "tests_equality", "tests_floats"]
