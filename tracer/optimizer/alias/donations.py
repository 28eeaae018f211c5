"""Donated inputs and the results that take over their memory.

XLA pairs donors with results by memory space and size, largest first, in order
(`OptimizeInputOutputBufferAlias`, xla/hlo/transforms/simplifiers, seed 003), and then copies
whatever overlaps in that order: two results written over each other's operands are four copies.
Here the program decides among results of one size. First comes a result that the peak model already
puts in the donated memory, then one of the same type that depends on everything that reads the
memory, then other results of the same type. A result of another type and equal size is taken only
if it is the argument itself in another shape, or depends on everything that reads the memory. XLA
has no kernel that writes over an operand of another shape, and it looks at dependencies, not at the
order, so any other pair is two copies that save nothing. All memory of a program is in one space,
that of its device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from tracer.ir import Graph, Node, ShapeDtype, Value
from tracer.optimizer.alias.in_place import Precedence
from tracer.optimizer.model.liveness import Liveness

_RENAMED, _IN_PLACE, _AFTERWARDS, _OVERLAPPING = range(4)
"""How a result uses donated memory: it is the argument itself, perhaps in another shape; it is
written over the argument; it is written once the memory is free; it is written before that."""


@dataclass(frozen=True)
class Alias:
    """A donated input and the result that takes over its memory.

    Attributes
    ----------
    argument, result : int
        Positions among the inputs and the outputs of the graph.
    argument_type, result_type : ShapeDtype
        They have as many bytes.
    """

    argument: int
    result: int
    argument_type: ShapeDtype
    result_type: ShapeDtype

    @property
    def nbytes(self) -> int:
        """Bytes that are not needed twice."""
        return self.argument_type.nbytes


@dataclass(frozen=True)
class Unmatched:
    """A donated input that no result takes over, and why."""

    argument: int
    type: ShapeDtype
    reason: str


@dataclass(frozen=True)
class Donations:
    """What happens to each donated input."""

    aliases: tuple[Alias, ...] = ()
    unmatched: tuple[Unmatched, ...] = ()

    @property
    def pairs(self) -> Mapping[int, int]:
        """Position of the result for each input that has one."""
        return {alias.argument: alias.result for alias in self.aliases}


def match_donations(graph: Graph, donated: Iterable[int]) -> Donations:
    """Pair donated inputs with the results that take over their memory.

    Parameters
    ----------
    graph : Graph
        The program as it will be compiled.
    donated : iterable of int
        Positions of inputs.

    Returns
    -------
    Donations
        Every donated input is in one of its two parts; no result is in two pairs.
    """
    positions = tuple(sorted(set(donated)))
    if not positions:
        return Donations()
    return _Matching(graph, positions).run()


class _Matching:
    """One run of the matching: rounds of decreasing preference, each the largest inputs first."""

    def __init__(self, graph: Graph, donated: tuple[int, ...]) -> None:
        self.graph = graph
        self.live = Liveness(graph, frozenset(donated))
        self.waiting = sorted(donated, key=lambda i: -graph.inputs[i].type.nbytes)
        self.roots = [self.live.root(output) for output in graph.outputs]
        self.readers: dict[Value, list[Node]] = {graph.inputs[i]: [] for i in donated}
        """The kernels that read each donated input."""
        for node in self.live.schedule:
            for value in self.live.buffers_read(node).keys() & self.readers.keys():
                self.readers[value].append(node)
        self.precedence = Precedence(self.live)
        self.free: dict[int, list[int]] = {}
        """Results that no input has, by their bytes."""
        for index, type in enumerate(graph.output_types):
            self.free.setdefault(type.nbytes, []).append(index)
        self.pairs: dict[int, int] = {}

    def run(self) -> Donations:
        self._round(lambda same, relation: relation == _RENAMED or (same and relation == _IN_PLACE))
        self._round(lambda same, relation: same and relation == _AFTERWARDS)
        self._round(lambda same, _: same)
        self._round(lambda _, relation: relation == _AFTERWARDS)
        inputs, outputs = self.graph.input_types, self.graph.output_types
        return Donations(
            tuple(Alias(i, j, inputs[i], outputs[j]) for i, j in sorted(self.pairs.items())),
            tuple(Unmatched(i, inputs[i], self._reason(i)) for i in sorted(self.waiting)),
        )

    def _round(self, is_match: Callable[[bool, int], bool]) -> None:
        """Pair the remaining ones for which `is_match(same type, relation)` holds."""
        for position in tuple(self.waiting):
            donated = self.graph.inputs[position]
            free = self.free.get(donated.type.nbytes, []) if donated.type.nbytes else []
            for index in free:
                same = donated.type is self.graph.outputs[index].type
                if is_match(same, self._relation(donated, self.roots[index])):
                    self.pairs[position] = index
                    self.waiting.remove(position)
                    free.remove(index)
                    break

    def _relation(self, donated: Value, root: Value) -> int:
        """Tell how the memory of a result is related to that of a donated input."""
        live = self.live
        if root is donated:
            return _RENAMED
        if root in live.inputs:
            return _OVERLAPPING
        if live.buffers[root] is live.buffers[donated]:
            return _IN_PLACE
        first = self.precedence.comes_first
        is_free = all(first(reader, root.node) for reader in self.readers[donated])
        return _AFTERWARDS if is_free else _OVERLAPPING

    def _reason(self, position: int) -> str:
        type = self.graph.inputs[position].type
        outputs = self.graph.output_types
        if type.nbytes == 0:
            return "it has no elements"
        alike = [i for i, output in enumerate(outputs) if output.nbytes == type.nbytes]
        if not alike:
            return f"no result has {type.nbytes:,} bytes"
        free = self.free[type.nbytes]
        if not free:
            return f"every result of {type.nbytes:,} bytes has taken over another argument"
        return (
            f"result {free[0]}, {outputs[free[0]]}, has as many bytes in another type, and does "
            "not wait for all that reads the argument"
        )


__all__ = ["Alias", "Donations", "Unmatched", "match_donations"]
