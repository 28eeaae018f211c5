"""A barrier of arrays of several shapes becomes one for each shape, so that *split* can cut it.

`checkpoint` puts the operands of its second run and the cotangents behind one barrier. A loop over
the rows of a batch has slices of some of them, and of the weights, which have no such axis, all: of
results that lack the axis that is cut *split* would make sums. Behind a barrier for each shape the
second run is still not merged with the first. It no longer waits for the cotangents; where that
costs memory the order of the operations is kept, as ever.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value, rebuild
from tracer.optimizer.loops.split.chunk import SplitSettings
from tracer.optimizer.passes import Pass, PassLog


def separate_barriers_pass(settings: SplitSettings) -> Pass:
    """Return the pass that separates barriers of large arrays by shape."""
    return Pass("separate barriers", lambda graph, log: _separated(graph, settings, log))


def _separated(graph: Graph, settings: SplitSettings, log: PassLog) -> Graph:
    def rewrite(
        builder: Builder, node: Node, operands: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        if node.op is not ops.optimization_barrier or not _is_in_the_way(node, settings):
            return None
        log.applied.append(f"{', '.join(map(str, dict.fromkeys(node.types)))}")
        return _by_shape(operands)

    return rebuild(graph, rewrite)


def _is_in_the_way(node: Node, settings: SplitSettings) -> bool:
    shapes = {type.shape for type in node.types}
    return len(shapes) > 1 and max(type.nbytes for type in node.types) > settings.threshold_bytes


def _by_shape(operands: Sequence[Value]) -> list[Value]:
    results: dict[Value, Value] = {}
    for shape in dict.fromkeys(value.type.shape for value in operands):
        alike = [value for value in operands if value.type.shape == shape]
        results.update(zip(alike, ops.optimization_barrier(*alike), strict=True))
    return [results[value] for value in operands]


__all__ = ["separate_barriers_pass"]
