"""Large values that a loop's body generates from small ones, instead of reading them whole.

A causal mask is the same for every head. A loop over heads would store it, and no second loop
inside could compute only its rows. Source: rematerialisation, Briggs, Cooper & Torczon (1992).
Restricted to integers and booleans, which are reproducible, and to what is computed from arrays in
storage: these are read again in each trip, where they are too large to be kept. Floats of theirs
may round differently in their last digit; so not where any are tested for equality.
"""

from __future__ import annotations

from collections.abc import Iterable

from tracer.ir import Node, Value
from tracer.ops import constant
from tracer.ops.rules import is_inexact
from tracer.ops.sink import nodes_again
from tracer.ops.storage import READS
from tracer.optimizer.loops.split.region import Region

_SMALL_BYTES = 1 << 16
"""Up to so many bytes are carried into a body, or this share of what is made of them."""
_SMALL_SHARE = 1024
_MOST_NODES = 32


def generated_nodes(value: Value, region: Region) -> tuple[Node, ...]:
    """Return the nodes that make a large value from small ones, operands first.

    Empty where it is small, is part of the region, or has floats, other large values or a long
    computation behind it. What is part of a region may never be stored for a body to read. What is
    computed from arrays in storage may be of the region, and may have floats.
    """
    if value.type.nbytes <= _SMALL_BYTES:
        return ()
    return nodes_read_again(value, region) or _exact_nodes(value, region)


def nodes_read_again(value: Value, region: Region) -> tuple[Node, ...]:
    """Return the nodes that make a value from arrays in storage, if bodies are to read them again.

    Operands first. Empty for other values, for those that are stored anyway, and for those that
    need what is not stored.
    """
    if not region.reads_again(value.node):
        return ()
    if value not in region.found_again:
        region.found_again[value] = _find_read_again(value, region)
    return region.found_again[value]


def _find_read_again(value: Value, region: Region) -> tuple[Node, ...]:
    most = _most_read(value)
    found, refusal = nodes_again(value, lambda type: type.nbytes > most)
    if refusal is not None or len(found) > _MOST_NODES:
        return ()
    if not region.heads.keys().isdisjoint(found) or not region.taken.isdisjoint(found):
        return ()
    if all(node.op not in READS for node in found):
        return ()
    read = {leaf.node for leaf in leaves(found)}
    if not region.lost.isdisjoint(read) or not read & region.virtual.keys() <= region.heads.keys():
        return ()
    return _in_order(value.node, found)


def leaves(nodes: Iterable[Node]) -> dict[Value, None]:
    """Return what some nodes read that is not of them."""
    made = set(nodes)
    return {value: None for node in made for value in node.operands if value.node not in made}


def _most_read(value: Value) -> int:
    return max(_SMALL_BYTES, value.type.nbytes // _SMALL_SHARE)


def _exact_nodes(value: Value, region: Region) -> tuple[Node, ...]:
    """Return the nodes that make a value of integers and booleans, one by one."""
    found: set[Node] = set()
    most = _most_read(value)
    stack = [value]
    while stack:
        node = stack.pop().node
        if node in region.virtual or node in region.heads or node in region.lost:
            return ()
        if node in found or _is_read(node, most):
            continue
        if node.op is None or len(found) == _MOST_NODES or not _is_element_wise(node):
            return ()
        if node in region.taken:
            return ()
        found.add(node)
        stack.extend(node.operands)
    return _in_order(value.node, found)


def _is_read(node: Node, most: int) -> bool:
    """Tell whether bodies read a node's results: those of few bytes that have operands.

    A small constant is written into a body, a larger one stored once.
    """
    if any(type.nbytes > most for type in node.types):
        return False
    return node.op is None or bool(node.operands) or (node.op is constant and not _is_small(node))


def _is_small(node: Node) -> bool:
    return all(type.nbytes <= _SMALL_BYTES for type in node.types)


def _in_order(root: Node, nodes: set[Node]) -> tuple[Node, ...]:
    """Return the nodes behind one of them, in an order in which they can run."""
    ordered: dict[Node, None] = {}
    stack = [root]
    while stack:
        node = stack[-1]
        waiting = [v.node for v in node.operands if v.node in nodes and v.node not in ordered]
        if waiting:
            stack.extend(waiting)
        else:
            ordered[stack.pop()] = None
    return tuple(ordered)


def _is_element_wise(node: Node) -> bool:
    """Tell whether a node computes exact elements one by one, all of whose axes may be cut."""
    if node.op is constant:
        return _is_small(node)
    assert node.op is not None
    types = (*node.types, *node.operand_types)
    if node.bodies or not node.is_pure or any(is_inexact(type.dtype) for type in types):
        return False
    rule = node.axes
    labels = [label for row in rule.results for label in row]
    return not rule.reduced and all(map(rule.is_parallel, labels))
