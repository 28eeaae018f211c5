"""Adjacent axes that are reduced together become one, where elements are read as they lie.

The largest of 2,000,000 x 10 float32 took 25 ms as extremes of rows of ten, and takes 2.5 as blocks
of one long row. What computes the elements is written again in the new shape, on stored arrays that
are reshaped: a reshape between it and the reduction would be fused, and XLA divides each place by
the old shape then (100 x 100 x 630: seven times as long). So would anything that asks for the place
in a row, such as a column's mean that is taken off: that stays as it is.
"""

from __future__ import annotations

import math

from tracer import ops
from tracer.ir import Graph, Node, Value
from tracer.ir.op import same_params
from tracer.ops import helpers
from tracer.optimizer.legalize.writer import stored

_Runs = list[list[int]]


class FlatForms:
    """Writes operands of a graph's reductions with the axes merged that are reduced together.

    Parameters
    ----------
    graph : Graph
        The graph that is rewritten, node by node.
    """

    def __init__(self, graph: Graph) -> None:
        self._position = {node: place for place, node in enumerate(graph.nodes)}
        self._outputs = {value.node for value in graph.outputs}
        self._users: dict[Node, list[Node]] = {}
        for node in graph.nodes:
            for operand in node.operands:
                self._users.setdefault(operand.node, []).append(node)
        self._written: dict[tuple[Value, tuple[int, ...]], Value] = {}

    def merged(self, reduction: Node, x: Value) -> tuple[Value, tuple[int, ...]]:
        """Return the operand `x` of a reduction with fewer axes, and which are reduced now.

        As they were where no axes are adjacent, or something is not read in order.
        """
        axes = reduction.params["axes"]
        runs = _runs(len(x.shape), axes)
        found = None if len(runs) == len(x.shape) else self._read_in_order(reduction, x, runs)
        if found is None:
            return x, axes
        shape = tuple([math.prod(x.shape[axis] for axis in run) for run in runs])
        reduced = tuple([place for place, run in enumerate(runs) if run[0] in axes])
        for value in sorted(found, key=lambda value: self._position.get(value.node, -1)):
            if (value, shape) not in self._written:
                self._written[value, shape] = self._write(value, found[value], shape, runs)
        return self._written[reduction.operands[0], shape], reduced

    def _read_in_order(self, reduction: Node, x: Value, runs: _Runs) -> dict[Value, Value] | None:
        """Return what is fused into an operand, and the stored arrays that it reads.

        Each with what was made of it in the new graph. None where something is not read in order,
        or may be stored because others read it too.
        """
        found: dict[Value, Value] = {}
        stack = [(reduction.operands[0], x)]
        while stack:
            value, new = stack.pop()
            if value in found:
                continue
            found[value] = new
            if self._is_stored(value) or _is_spread_along(value, runs):
                continue
            if not (_is_elementwise(value.node) and self._is_only_reduced(value.node, reduction)):
                return None
            stack.extend(zip(value.node.operands, new.node.operands, strict=True))
        return found

    def _is_stored(self, value: Value) -> bool:
        node = value.node
        if node.op is ops.reshape:
            return self._is_stored(node.operands[0])
        if node.op is None or node in self._outputs:
            return True
        return node.op is ops.optimization_barrier or node.op.fusion == "opaque"

    def _is_only_reduced(self, node: Node, reduction: Node) -> bool:
        """Tell whether all that is computed of a value ends in reductions of the same axes."""
        seen = {node}
        stack = [node]
        while stack:
            for user in self._users[stack.pop()]:
                if user in seen:
                    continue
                seen.add(user)
                if user.op is not None and user.op.fusion == "reduce":
                    if user.params != reduction.params:
                        return False
                elif user in self._outputs or not _is_elementwise(user):
                    return False
                else:
                    stack.append(user)
        return True

    def _write(self, value: Value, new: Value, shape: tuple[int, ...], runs: _Runs) -> Value:
        node = value.node
        if _is_spread_along(value, runs):
            axes = {axis: place for place, run in enumerate(runs) for axis in run}
            (few,) = new.node.operands
            dimensions = tuple([axes[axis] for axis in _long_axes(node)])
            sizes = tuple([size for size in few.shape if size != 1])
            few = helpers.reshape(few, sizes)
            return ops.broadcast_in_dim(few, shape=shape, dimensions=dimensions)  # type: ignore[no-any-return]
        if self._is_stored(value):
            return stored(helpers.reshape(new, shape))
        assert node.op is not None
        operands = (self._written[operand, shape] for operand in node.operands)
        return node.op(*operands, **node.params)  # type: ignore[no-any-return]


def _runs(ndim: int, axes: tuple[int, ...]) -> _Runs:
    """Return the axes in order, those that are reduced and adjacent together."""
    runs: _Runs = []
    for axis in range(ndim):
        if axis in axes and axis - 1 in axes:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    return runs


def _is_spread_along(value: Value, runs: _Runs) -> bool:
    """Tell whether a value is spread along whole runs: the places of its elements stay apart."""
    node = value.node
    if node.op is not ops.broadcast_in_dim:
        return False
    merged = {axis for run in runs if len(run) > 1 for axis in run}
    return merged.isdisjoint(_long_axes(node))


def _long_axes(broadcast: Node) -> list[int]:
    """Return the axes along which the elements of what is broadcast differ."""
    sizes = broadcast.operands[0].shape
    dimensions = broadcast.params["dimensions"]
    return [axis for axis, size in zip(dimensions, sizes, strict=True) if size != 1]


def _is_elementwise(node: Node) -> bool:
    """Tell whether each element is computed of those at its place, whatever the shape."""
    if node.op is None or node.op.fusion != "loop" or not node.operands:
        return False
    if node.op.slice is not same_params:  # Its parameters name places.
        return False
    rule, shape = node.axes, node.types[0].shape
    in_place = all(labels == rule.results[0] for labels in rule.operands)
    return in_place and all(value.shape == shape for value in node.operands)


__all__ = ["FlatForms"]
