"""Copy the nodes outside a region's loops, and correct the sums of loops that streamed."""

from __future__ import annotations

from tracer.ir import Builder, Node, Value
from tracer.ops.helpers import convert
from tracer.optimizer.loops.split.levels import Levels
from tracer.optimizer.loops.split.rescale import settled


class Copying:
    """Copies what stays outside of loops, as soon as its operands exist.

    Attributes
    ----------
    sums : dict of Node to Value
        What loops added for heads whose sums are still to be corrected.
    """

    def __init__(
        self, builder: Builder, nodes: list[Node], mapping: dict[Value, Value], levels: Levels
    ) -> None:
        self.builder, self.mapping, self.levels = builder, mapping, levels
        # A stable sort: within a level the graph's order stays.
        self.waiting = sorted(nodes, key=self._level)
        self.sums: dict[Node, Value] = {}

    def _level(self, node: Node) -> int:
        return self.levels.done.get(node, 0)

    def ready(self, level: int) -> None:
        """Copy the nodes that can run at `level`."""
        count = 0
        for node in self.waiting:
            if self._level(node) > level:
                break
            self.mapping.update(zip(node.results, self._results(node), strict=True))
            count += 1
        self.waiting = self.waiting[count:]

    def _results(self, node: Node) -> tuple[Value, ...]:
        stream = self.levels.streams.get(node)
        if stream is None:
            operands = tuple([self.mapping[value] for value in node.operands])
            return self.builder.copy(node, operands)
        self.builder.source = node.source
        total = settled(self.sums[node], stream.factors, self.mapping.__getitem__)
        return (convert(total, node.types[0].dtype),)
