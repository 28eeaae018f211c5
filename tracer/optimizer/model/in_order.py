"""Whether the elements of a value are read as they lie in memory, and which axes can be merged.

*stage-reductions* reads axes that are reduced together, and are adjacent, as one; how much its
partial results take hangs on that, so the model asks the same.
"""

from __future__ import annotations

import math

from tracer import ops
from tracer.ir import Node, Value
from tracer.ir.op import same_params

Runs = list[list[int]]
"""The axes of an array in order, those that become one together."""
_MOST_NODES = 64


def runs_of(ndim: int, axes: tuple[int, ...]) -> Runs:
    """Return the axes in order, those that are reduced and adjacent together."""
    runs: Runs = []
    for axis in range(ndim):
        if axis in axes and axis - 1 in axes:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    return runs


def merged(
    shape: tuple[int, ...], axes: tuple[int, ...], runs: Runs
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return a shape with runs of axes as one each, and which are reduced then."""
    new = tuple([math.prod(shape[axis] for axis in run) for run in runs])
    return new, tuple([place for place, run in enumerate(runs) if run[0] in axes])


def is_spread_along(value: Value, runs: Runs) -> bool:
    """Tell whether a value is spread along whole runs: the places of its elements stay apart."""
    node = value.node
    if node.op is not ops.broadcast_in_dim:
        return False
    together = {axis for run in runs if len(run) > 1 for axis in run}
    return together.isdisjoint(long_axes(node))


def long_axes(broadcast: Node) -> list[int]:
    """Return the axes along which the elements of what is broadcast differ."""
    sizes = broadcast.operands[0].shape
    dimensions = broadcast.params["dimensions"]
    return [axis for axis, size in zip(dimensions, sizes, strict=True) if size != 1]


def is_elementwise(node: Node) -> bool:
    """Tell whether each element depends only on the elements at the same position."""
    op = node.op
    if op is None or op.fusion not in ("loop", "view") or op.slice is not same_params:
        return False
    if not node.is_pure or len(node.types) != 1 or not node.operands or not node.types[0].ndim:
        return False
    if len(op.reuses) != len(node.operands):
        return False  # moves elements, if only from an axis to the same axis
    rule, shape = node.axes, node.types[0].shape
    labels = rule.results[0]
    return (
        not rule.steps
        and len(set(labels)) == len(labels)
        and all(rule.is_parallel(label) for label in labels)
        and all(operand == labels for operand in rule.operands)
        and all(type.shape == shape for type in node.operand_types)
    )


def is_stored(value: Value) -> bool:
    """Tell whether a value is an array in memory: an input, or the result of no fused kernel."""
    node = value.node
    if node.op is ops.reshape:
        return is_stored(node.operands[0])
    return node.op is None or node.op is ops.optimization_barrier or node.op.fusion == "opaque"


def is_read_in_order(value: Value, runs: Runs) -> bool:
    """Tell whether all that is fused into a value reads stored arrays element by element."""
    seen: set[Value] = set()
    stack = [value]
    while stack:
        value = stack.pop()
        if value in seen or is_stored(value) or is_spread_along(value, runs):
            continue
        seen.add(value)
        if len(seen) > _MOST_NODES or not is_elementwise(value.node):
            return False
        stack.extend(value.node.operands)
    return True


def is_computed_in_place(value: Value) -> bool:
    """Tell whether each element is computed of those at its position, and of what is spread."""
    return is_read_in_order(value, [[axis] for axis in range(value.type.ndim)])


__all__ = [
    "Runs",
    "is_computed_in_place",
    "is_elementwise",
    "is_read_in_order",
    "is_spread_along",
    "is_stored",
    "long_axes",
    "merged",
    "runs_of",
]
