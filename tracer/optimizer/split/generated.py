"""Large values that a loop's body makes itself, from small ones, instead of reading them whole.

A causal mask is the same for every head: a loop over heads would have it stored, and no second loop
within could compute its rows when they are wanted. Source: rematerialisation, Briggs, Cooper &
Torczon (1992). Only integers and booleans, which come out the same however often they are computed.
"""

from __future__ import annotations

from tracer.ir import Node, Value
from tracer.ops import constant
from tracer.ops.rules import is_inexact

_SMALL_BYTES = 1 << 16
"""Up to so many bytes are carried into a body."""
_MOST_NODES = 32


def generated_nodes(value: Value) -> tuple[Node, ...]:
    """Return the nodes that make a large value from small ones, operands first.

    Empty where it is small, has floats or other large values behind it, or a long computation.
    """
    found: dict[Node, None] = {}

    def visit(value: Value) -> bool:
        node = value.node
        if node in found or (value.type.nbytes <= _SMALL_BYTES and node.operands):
            return True
        if node.op is None or len(found) == _MOST_NODES:
            return value.type.nbytes <= _SMALL_BYTES
        if not _is_element_wise(node) or not all(map(visit, node.operands)):
            return False
        found[node] = None
        return True

    return tuple(found) if value.type.nbytes > _SMALL_BYTES and visit(value) else ()


def _is_element_wise(node: Node) -> bool:
    """Tell whether a node computes exact elements one by one, all of whose axes may be cut."""
    assert node.op is not None
    types = (*node.types, *node.operand_types)
    if node.op is constant:
        return node.types[0].nbytes <= _SMALL_BYTES  # Large arrays are stored once.
    if node.bodies or not node.op.pure or any(is_inexact(type.dtype) for type in types):
        return False
    rule = node.axes
    return not rule.reduced and all(rule.is_parallel(label) for label in rule.results[0])
