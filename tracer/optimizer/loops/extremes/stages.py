"""Extremes in two stages: of parts first, so that there is an axis along which parts can be cut.

    largest = max(x, (0, 1))  becomes  rows = max(x, 1); largest = max(rows, 0)

The gradient goes to the rows that reach the largest, to each by its share of the places, and within
a row to the places that reach the row's largest. A row's places are counted twice: for its share,
and where the row is computed again. The two counts may differ where the row rounds differently the
second time; the parts of the gradient add up to the whole all the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value
from tracer.ops.helpers import convert, where, zeros_like
from tracer.ops.reduce import kept_axes, spread_back
from tracer.optimizer.loops.extremes.pattern import ExtremeGradient

MUCH_LONGER = 16
"""An axis that is so many times as long as all that could be cut is worth a copy of the matrix."""


def in_stages(graph: Graph, gradients: Sequence[ExtremeGradient]) -> Graph:
    """Return the graph with extremes in two stages, where no other axis is left to cut.

    Parameters
    ----------
    graph : Graph
    gradients : sequence of ExtremeGradient
        Those in question.
    """
    staged = [_Staged(g, axis) for g in gradients if (axis := axis_between(g)) >= 0]
    if not staged:
        return graph
    of_extreme = {item.gradient.extreme: item for item in staged}
    of_selected = {node: item for item in staged for node in item.gradient.weights}
    mapping: dict[Value, Value] = {}
    parts: dict[Node, Value] = {}
    with Builder() as builder:
        for value in graph.inputs:
            mapping[value] = builder.input(value.type, value.node.source)
        for node in graph.nodes:
            operands = tuple([mapping[value] for value in node.operands])
            builder.source = node.source
            if node in of_extreme:
                parts[node] = of_extreme[node].part(operands[0])
                results: Sequence[Value] = (of_extreme[node].whole(parts[node]),)
            elif node in of_selected:
                gradient = of_selected[node].gradient
                read = (gradient.operand, gradient.extreme.results[0], gradient.weights[node])
                x, whole, weight = [mapping[value] for value in read]
                part = parts[gradient.extreme]
                results = (of_selected[node].selected(x, part, whole, weight),)
            else:
                results = builder.copy(node, operands)
            mapping.update(zip(node.results, results, strict=True))
    return builder.finish([mapping[value] for value in graph.outputs])


def axis_between(gradient: ExtremeGradient) -> int:
    """Return the axis that the first stage keeps, or -1 where there is no need or no other axis."""
    type, axes = gradient.operand.type, gradient.axes
    kept = [type.shape[axis] for axis in kept_axes(type.ndim, axes)]
    axis = max(axes, key=lambda axis: type.shape[axis], default=-1)
    is_longer = axis >= 0 and type.shape[axis] > MUCH_LONGER * max(kept, default=1)
    return axis if is_longer and math.prod(kept) * type.shape[axis] < type.size else -1


class _Staged:
    """The two stages of one extreme, the first of which keeps an axis."""

    def __init__(self, gradient: ExtremeGradient, axis: int) -> None:
        self.gradient = gradient
        self.axes = tuple(other for other in gradient.axes if other != axis)
        self.place = (axis - sum(other < axis for other in self.axes),)
        """The kept axis in the first stage's result."""
        self._known: tuple[Value, Value, Value] | None = None

    def part(self, x: Value) -> Value:
        op = self.gradient.extreme.op
        assert op is not None
        return op(x, axes=self.axes)  # type: ignore[no-any-return]

    def whole(self, part: Value) -> Value:
        op = self.gradient.extreme.op
        assert op is not None
        return op(part, axes=self.place)  # type: ignore[no-any-return]

    def _test(self, x: Value, part: Value) -> tuple[Value, Value]:
        """Return where a part's extreme is reached, and how often."""
        test = ops.compare(x, spread_back(part, x.shape, self.axes), direction="EQ")
        return test, ops.reduce_add(convert(test, x.dtype), axes=self.axes)

    def selected(self, x: Value, part: Value, whole: Value, weight: Value) -> Value:
        """Emit a gradient of the extreme, given its cotangent; the test is the same for all."""
        if self._known is None:
            self._known = (self._share(x, part, whole), *self._test(x, part))
        share, test, count = self._known
        weight = ops.multiply(spread_back(weight, part.shape, self.place), share)
        quotient = spread_back(ops.divide(weight, count), x.shape, self.axes)
        return ops.select(test, quotient, zeros_like(x))  # type: ignore[no-any-return]

    def _share(self, x: Value, part: Value, whole: Value) -> Value:
        """Emit which share of the places that reach the extreme is in each part."""
        _, count = self._test(x, part)
        reached = ops.compare(part, spread_back(whole, part.shape, self.place), direction="EQ")
        places = where(reached, count)
        total = ops.reduce_add(places, axes=self.place)
        return where(reached, ops.divide(places, spread_back(total, part.shape, self.place)))


__all__ = ["MUCH_LONGER", "axis_between", "in_stages"]
