"""What a graph does to the world outside, and the same graph without that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tracer.ir.graph import Graph, Node, map_bodies, param_key

Call = tuple[Any, ...]
"""An op with an effect: the loops and branches that it is in, and what it is."""


@dataclass(frozen=True)
class Effects:
    """The effects of a graph, written so that graphs that do the same have equal ones.

    Attributes
    ----------
    calls : Counter of tuple
        How often each is written, and in which loops and branches.
    ordered : tuple
        Those that keep their order, in their order; those of a loop or branch are a tuple of their
        own, since two loops do not call in the order in which one with both bodies would.
    """

    calls: Counter[Call]
    ordered: tuple[Any, ...]


def effects_of(graph: Graph) -> Effects:
    """Return the effects of a graph.

    Loops are told by their nesting alone, not by how often they run: a rewrite that changes how
    often an op runs writes it twice, or in other loops.

    Examples
    --------
    >>> from tracer.ir import Builder, effects_of
    >>> with Builder() as builder:
    ...     graph = builder.finish([])
    >>> effects_of(graph).ordered
    ()
    """
    if not graph.has_effect:
        return _NONE
    return Effects(Counter(_calls(graph, ())), tuple(_ordered(graph)))


def _calls(graph: Graph, path: tuple[str, ...]) -> Iterator[Call]:
    for node in graph.nodes:
        if not node.has_effect:
            continue
        if node.op is not None and node.op.effect:
            yield (path, *_call(node))
        for name, body in _named_bodies(node):
            yield from _calls(body, (*path, name) if _is_counted(node) else path)


def _ordered(graph: Graph) -> Iterator[Any]:
    for node in graph.nodes:
        if not keeps_order(node):
            continue
        if node.op is not None and node.op.effect:
            yield _call(node)
        for name, body in _named_bodies(node):
            inside = tuple(_ordered(body))
            if _is_counted(node) and inside:
                yield name, inside
            else:
                yield from inside


def _call(node: Node) -> Call:
    params = tuple((key, param_key(node.params[key])) for key in sorted(node.params))
    return node.name, tuple(map(str, node.operand_types)), params


def keeps_order(node: Node) -> bool:
    """Tell whether a node, or one in its bodies, is a call that keeps its order against others."""
    if not node.has_effect:
        return False
    own = node.op is not None and node.op.effect and bool(node.params.get("ordered"))
    return own or any(keeps_order(inner) for body in node.body_graphs for inner in body.nodes)


def _is_counted(node: Node) -> bool:
    """Tell a loop or branch from a call, which runs its body once."""
    return node.op is not None and node.op.invariants is not None


def _named_bodies(node: Node) -> Iterator[tuple[str, Graph]]:
    for key, bodies in node.bodies.items():
        if isinstance(bodies, Graph):
            yield key, bodies
        else:
            yield from ((f"{key}[{number}]", body) for number, body in enumerate(bodies))


_NONE = Effects(Counter(), ())


def without_effects(graph: Graph) -> Graph:
    """Return the graph that computes the same and does nothing to the world outside."""
    if not graph.has_effect:
        return graph
    inner = map_bodies(graph, without_effects)
    return Graph(inner.inputs, inner.outputs, inner.nodes, with_effects=False)


def bodies_without_effects(node: Node) -> dict[str, Any]:
    """Return the parameters of a node with which its bodies do nothing to the world outside."""
    if not node.has_effect:
        return {}
    return {
        key: without_effects(body)
        if isinstance(body, Graph)
        else tuple(without_effects(one) for one in body)
        for key, body in node.bodies.items()
    }


__all__ = [
    "Effects",
    "bodies_without_effects",
    "effects_of",
    "keeps_order",
    "without_effects",
]
