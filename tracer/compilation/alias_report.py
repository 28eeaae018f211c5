"""The plan's report on shared memory, from a compiled program, in the user's own names."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tracer import lowering
from tracer.errors import DonationWarning, user_source
from tracer.ir import Graph, Node
from tracer.lowering import ArrayCopy, Place
from tracer.optimizer.alias.donations import Alias
from tracer.optimizer.alias.report import AliasReport, AliasRow, CopyRow, UnusedRow
from tracer.optimizer.alias.sharing import Sharing
from tracer.target import current_target


@dataclass(frozen=True, eq=False)
class Compiled:
    """A compiled program, and what its inputs and results are called.

    Attributes
    ----------
    sharing : Sharing
        What the compiler was asked to do, and what our model says.
    execute : Executable
    arguments, results : tuple of str
        Names of the inputs and of the outputs; captured arrays come after the arguments.
    """

    sharing: Sharing
    execute: lowering.Executable
    arguments: tuple[str, ...]
    results: tuple[str, ...]

    @property
    def graph(self) -> Graph:
        """The program as it was compiled."""
        return self.sharing.graph


def unused_rows(program: Compiled) -> tuple[UnusedRow, ...]:
    """Return the donated inputs that no result takes over, by XLA's own configuration."""
    names, types = program.arguments, program.graph.input_types
    rows = [
        UnusedRow(names[item.argument], str(item.type), item.type.nbytes, item.reason)
        for item in program.sharing.donations.unmatched
    ]
    kept = program.execute.aliases
    for argument, result in program.sharing.donations.pairs.items():
        if kept.get(argument) != result:
            reason = f"XLA did not keep it for {program.results[result]}"
            type = types[argument]
            rows.append(UnusedRow(names[argument], str(type), type.nbytes, reason))
    return tuple(rows)


def warn_unused(name: str, unused: Iterable[UnusedRow]) -> None:
    """Warn, at the user's line, that donated memory is not used."""
    rows = [row for row in unused if row.nbytes]
    if not rows:
        return
    where = user_source()
    lines = "".join(f"\n  {row}" for row in rows)
    text = f"{name}: donated memory that no result takes over, freed after the call:{lines}"
    file, line = ("<unknown>", 1) if where is None else (where.file, where.line)
    warnings.warn_explicit(text, DonationWarning, file, line)


def alias_report(program: Compiled) -> AliasReport:
    """Return which values share memory and which are copied."""
    kept = program.execute.aliases.items()
    aliases = tuple(
        _alias_row(program, item)
        for item in program.sharing.donations.aliases
        if (item.argument, item.result) in kept
    )
    could = tuple(
        _alias_row(program, item)
        for item in program.sharing.possible
        if item.nbytes >= current_target().sizes.copy_bytes
    )
    copies = [_Explained(program, copy).row() for copy in program.execute.copies if _is_large(copy)]
    copies.sort(key=lambda row: -row.nbytes * row.times)
    updates = program.sharing.updates
    return AliasReport(aliases, unused_rows(program), could, updates, tuple(copies))


def _alias_row(program: Compiled, item: Alias) -> AliasRow:
    names = program.arguments[item.argument], program.results[item.result]
    return AliasRow(*names, str(item.argument_type), item.nbytes)


def _is_large(copy: ArrayCopy) -> bool:
    return copy.nbytes >= current_target().sizes.copy_bytes


class _Explained:
    """One copy, described in words."""

    def __init__(self, program: Compiled, copy: ArrayCopy) -> None:
        self.program = program
        self.copy = copy

    def row(self) -> CopyRow:
        node = self._node(self.copy.target) or self._node(self.copy.source)
        what, advice = self._words()
        source = None if node is None else node.source
        return CopyRow(what, advice, self.copy.nbytes, self.copy.times, source)

    def _words(self) -> tuple[str, str]:
        source, target = self.copy.source, self.copy.target
        if self.copy.is_transposed:
            return f"{self._named(source)} is written out in another order of its axes", ""
        if source.kind == "argument":
            return self._of_argument(source.index, target)
        if "carry" in (source.kind, target.kind):
            carry = source if source.kind == "carry" else target
            return (
                f"{self._named(carry)} is copied in each trip",
                "it is read after its next value is written: read it before, or read the new value",
            )
        if target.kind == "result":
            return self._of_result(target.index, source)
        return (
            f"{self._named(source)} is copied for {self._named(target)}",
            "it is read after it is written over: read it before",
        )

    def _of_argument(self, index: int, target: Place) -> tuple[str, str]:
        what = f"{self.program.arguments[index]} is copied"
        if index in self.program.execute.donate:
            return what, "it is donated, but still read after it is written over: read it before"
        if target.kind == "result":
            result = self.program.results[target.index]
            what = f"{what}: {result} is the same"
        elif target.kind == "loop":
            what = f"{what}: a loop begins with it"
        if index >= self.program.sharing.argument_count:
            return what, "pass it as an argument and donate it"
        return what, "donate it"

    def _of_result(self, index: int, source: Place) -> tuple[str, str]:
        what = f"{self.program.results[index]} is copied"
        outputs = self.program.graph.outputs
        same = [j for j, value in enumerate(outputs) if value is outputs[index] and j != index]
        if same:
            names = self.program.results[same[0]]
            return f"{what}: it is {names} too", "return it once"
        if index in self.program.execute.aliases.values():
            return (
                f"{what}: the donated memory it takes over is still read when it is made",
                "an operation that reads it element by element, in order, writes over it",
            )
        return f"{what} from {self._named(source)}", ""

    def _named(self, place: Place) -> str:
        node = self._node(place)
        if place.kind == "argument":
            return self.program.arguments[place.index]
        if place.kind == "result":
            return self.program.results[place.index]
        if node is not None and place.kind in ("carry", "loop"):
            # XLA leaves out carries that nothing reads, so that positions do not tell which it is.
            types = {str(type) for type in node.types if type.nbytes == self.copy.nbytes}
            return f"a carry of a loop, {' or '.join(sorted(types))}" if types else "a carry"
        return f"a value of {node.name}" if node is not None else "a constant"

    def _node(self, place: Place) -> Node | None:
        """Return the node of an op that XLA names."""
        graph: Graph | None = self.program.graph
        node: Node | None = None
        for part in lowering.node_path(place.op_name):
            if isinstance(part, int):
                assert graph is not None
                node = graph.nodes[part]
            else:
                assert node is not None
                graph = _body(node.bodies, part)
        return node


def _body(bodies: Mapping[str, Graph | tuple[Graph, ...]], name: str) -> Graph:
    """Return the body that a step of a path names: "body", "branches[1]"."""
    key, _, number = name.partition("[")
    found = bodies[key]
    return found[int(number.rstrip("]"))] if isinstance(found, tuple) else found


__all__ = ["Compiled", "alias_report", "unused_rows", "warn_unused"]
