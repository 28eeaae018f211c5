"""Adjacent axes that are reduced together become one, where elements are read as they lie.

The largest of 2,000,000 x 10 float32 took 25 ms as extremes of rows of ten, and takes 2.5 as blocks
of one long row. What computes the elements is written again in the new shape, on stored arrays that
are reshaped: a reshape between it and the reduction would be fused, and XLA divides each place by
the old shape then (100 x 100 x 630: seven times as long). So would anything that asks for the place
in a row, such as a column's mean that is taken off: that stays as it is.
"""

from __future__ import annotations

from tracer import ops
from tracer.ir import Graph, Node, Value
from tracer.ops import helpers
from tracer.optimizer.legalize.writer import stored
from tracer.optimizer.model.in_order import (
    Runs,
    is_elementwise,
    is_spread_along,
    is_stored,
    long_axes,
    merged,
    runs_of,
)


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
        runs = runs_of(len(x.shape), axes)
        found = None if len(runs) == len(x.shape) else self._read_in_order(reduction, x, runs)
        if found is None:
            return x, axes
        shape, reduced = merged(x.shape, axes, runs)
        for value in sorted(found, key=lambda value: self._position.get(value.node, -1)):
            if (value, shape) not in self._written:
                self._written[value, shape] = self._write(value, found[value], shape, runs)
        return self._written[reduction.operands[0], shape], reduced

    def _read_in_order(self, reduction: Node, x: Value, runs: Runs) -> dict[Value, Value] | None:
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
            if self._is_stored(value) or is_spread_along(value, runs):
                continue
            if not (is_elementwise(value.node) and self._is_only_reduced(value.node, reduction)):
                return None
            stack.extend(zip(value.node.operands, new.node.operands, strict=True))
        return found

    def _is_stored(self, value: Value) -> bool:
        return is_stored(value) or value.node in self._outputs

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
                elif user in self._outputs or not is_elementwise(user):
                    return False
                else:
                    stack.append(user)
        return True

    def _write(self, value: Value, new: Value, shape: tuple[int, ...], runs: Runs) -> Value:
        node = value.node
        if is_spread_along(value, runs):
            axes = {axis: place for place, run in enumerate(runs) for axis in run}
            (few,) = new.node.operands
            dimensions = tuple([axes[axis] for axis in long_axes(node)])
            sizes = tuple([size for size in few.shape if size != 1])
            few = helpers.reshape(few, sizes)
            return ops.broadcast_in_dim(few, shape=shape, dimensions=dimensions)  # type: ignore[no-any-return]
        if self._is_stored(value):
            return stored(helpers.reshape(new, shape))
        assert node.op is not None
        operands = (self._written[operand, shape] for operand in node.operands)
        return node.op(*operands, **node.params)  # type: ignore[no-any-return]


__all__ = ["FlatForms"]
