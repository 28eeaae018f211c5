"""Numbers in a pattern that are read off the program: axes and counts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from tracer import ops
from tracer.ir import Node, Value
from tracer.optimizer.rewrite.match.rule import Numbers

_DEPTH = 6


def producers(value: Value, depth: int = _DEPTH) -> Iterator[Node]:
    """Yield the nodes that a value is made of, the nearest first."""
    queue = deque([(value.node, 0)])
    seen = set()
    while queue:
        node, distance = queue.popleft()
        if node in seen or node.op is None:
            continue
        seen.add(node)
        yield node
        if distance < depth:
            queue.extend((operand.node, distance + 1) for operand in node.operands)


def reduced_axes(root: Value) -> Numbers:
    """Return the axes of the nearest reduction as the number `axis`."""
    for node in producers(root):
        if "axes" in node.params:
            return {"axis": node.params["axes"]}
    return {"axis": ()}


def reduced_axes_kept(root: Value) -> Numbers:
    """Return `axis` as `reduced_axes`, and as `keepdims` whether the result still has them."""
    numbers = reduced_axes(root)
    inner = next((n for n in producers(root) if "axes" in n.params), root.node)
    return {**numbers, "keepdims": root.type.ndim > inner.types[0].ndim}


def gradient_axes_kept(root: Value) -> Numbers:
    """Return the same of the reduction in whose gradient `root` is: kept axes are reshaped."""
    is_kept = any(node.op is ops.reshape for node in producers(root, 3))
    return {**reduced_axes(root), "keepdims": is_kept}


def size_of_result(axis: int) -> Callable[[Value], Numbers]:
    """Return a reader of the result's size along an axis as the number `n`."""

    def read(root: Value) -> dict[str, Any]:
        return {"n": root.shape[axis] if -root.type.ndim <= axis < root.type.ndim else 0}

    return read
