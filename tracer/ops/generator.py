"""The nodes that recompute an operand of a loop or branch inside its bodies. See `sink`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tracer.ir import Builder, Graph, Node, Value, copy_nodes


@dataclass(frozen=True)
class Generator:
    """How a body computes some of its operands.

    Attributes
    ----------
    sunk : dict of int to Value
        The operands, by position, that the body will compute.
    nodes : tuple of Node
        What computes them, in order.
    leaves : tuple of Value
        What these nodes read that the body is not given yet.
    shared : dict of Value to int
        What they read that the body is given already, and at which position.
    """

    sunk: Mapping[int, Value]
    nodes: tuple[Node, ...]
    leaves: tuple[Value, ...]
    shared: Mapping[Value, int]

    def remaining(self, operands: Sequence[Value]) -> list[Value]:
        """Return the operands that are not sunk."""
        return [value for i, value in enumerate(operands) if i not in self.sunk]

    def behind(self, count: int) -> Generator:
        """Return the same for bodies that are not given the first `count` operands."""
        return Generator(
            {i - count: value for i, value in self.sunk.items()},
            self.nodes,
            self.leaves,
            {value: i - count for value, i in self.shared.items()},
        )

    def body(self, body: Graph, *, place: int, carried: bool = False) -> Graph:
        """Return a body that computes the sunk operands.

        Parameters
        ----------
        body : Graph
        place : int
            Position of the old inputs before which the leaves come.
        carried : bool
            The results are the next inputs: leaves are handed on, sunk operands are no results.
        """
        with Builder() as builder:
            old = [None if i in self.sunk else value.type for i, value in enumerate(body.inputs)]
            types = [*old[:place], *(leaf.type for leaf in self.leaves), *old[place:]]
            inputs = [None if type is None else builder.input(type) for type in types]
            last = place + len(self.leaves)
            leaves = [value for value in inputs[place:last] if value is not None]
            given = [*inputs[:place], *inputs[last:]]
            known = dict(zip(self.leaves, leaves, strict=True))
            known |= {leaf: v for leaf, i in self.shared.items() if (v := given[i]) is not None}
            copy_nodes(builder, self.nodes, known)
            computed = [
                known[self.sunk[i]] if value is None else value for i, value in enumerate(given)
            ]
            results = builder.inline(body, computed)
            if carried:
                results = [*self.remaining(results), *leaves]
            return builder.finish(results)


__all__ = ["Generator"]
