"""What a compiled program says about results that share arguments' memory, and about copies.

XLA copies an array if two values that live at the same time would share memory: an argument that is
not donated and is written over, or a loop carry that is read after its successor is written
(`CopyInsertion`, xla/service/copy_insertion.cc). In the optimised text a copy is named by what it
reads and where it goes: arguments and results by position, carries by their loop, everything else
by the `op_name` that the lowering gave the op.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tracer.lowering.memory.hlo_text import Computation, Instruction, parse

_ALIASES = re.compile(r"input_output_alias=\{ (.*?) \}(?:,|$)")
_PAIR = re.compile(r"\{(\d*)\}: \((\d+), \{\}")
_ENTRY = re.compile(r"^ENTRY %?([\w.\-]+) ", re.MULTILINE)
_OP_NAME = re.compile(r'op_name="([^"]*)"')
_INDEX = re.compile(r"index=(\d+)")
_CALLED = re.compile(r"(?:body|calls|to_apply)=%?([\w.\-]+)")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_ENTRY_KIND = "entry"
_RUNS = {"while", "call", "conditional"}
_LOOPS = {"while", "call"}
"""A small loop is a call of a computation with the loop in it."""
_SAME_MEMORY = {"bitcast", "copy", "opt-barrier"}


@dataclass(frozen=True)
class Place:
    """What a copy reads, or where it goes.

    Attributes
    ----------
    kind : str
        "argument", "result", "carry" of the loop around it, "loop" for the carry that another loop
        begins with or ends with, "constant", or "value".
    index : int
        Position of the argument, the result or the carry; 0 for a value.
    op_name : str
        Name of the loop, or of the op that makes or reads a value; see `walk.node_path`.
    """

    kind: str
    index: int = 0
    op_name: str = ""


@dataclass(frozen=True)
class ArrayCopy:
    """One array that the program copies.

    Attributes
    ----------
    nbytes : int
        Bytes of one copy.
    times : int
        How often it is made: the trips of the loops around it, as far as they are known.
    source, target : Place
        From where to where.
    is_transposed : bool
        The copy has another layout than the array: it is there to be read in that order.
    """

    nbytes: int
    times: int
    source: Place
    target: Place
    is_transposed: bool = False


def aliases_of(hlo: str) -> dict[int, int]:
    """Return the result in the memory of an argument, for each argument that has one."""
    found = _ALIASES.search(hlo.partition("\n")[0])
    pairs = _PAIR.findall(found[1]) if found else []
    return {int(argument): int(result or 0) for result, argument in pairs}


def copies_of(hlo: str) -> list[ArrayCopy]:
    """Return the arrays that a program copies, in the order of the text."""
    computations = parse(hlo)
    entry = _ENTRY.search(hlo)
    return list(_Reader(computations).copies(entry[1], _ENTRY_KIND, "", 1)) if entry else []


class _Reader:
    def __init__(self, computations: dict[str, Computation]) -> None:
        self.computations = computations

    def copies(
        self, name: str, kind: str, caller: str, times: int, outside: _Caller | None = None
    ) -> Iterator[ArrayCopy]:
        """Yield the copies of a computation and of those that it runs.

        `kind` is the kind of instruction that runs it, `caller` the `op_name` of that, `outside`
        the instruction itself.
        """
        scope = _Scope(self.computations[name], kind, caller, outside)
        for found in scope.by_name.values():
            if found.opcode == "copy" and not scope.is_copied_again(found):
                source, target = scope.source(found), scope.target(found)
                turned = scope.by_name[found.operands[0]].layout != found.layout
                yield ArrayCopy(found.nbytes, times, source, target, turned)
            if found.opcode in _RUNS:
                trips = _TRIPS.search(found.attributes)
                inner = times * int(trips[1] if trips else 1)
                for called in _called(found):
                    by = _Caller(scope, found)
                    yield from self.copies(called, found.opcode, _name(found), inner, by)


@dataclass(frozen=True)
class _Caller:
    """An instruction that runs another computation, and where it is."""

    scope: _Scope
    instruction: Instruction


class _Scope:
    """The instructions of one computation by name, and who reads them."""

    def __init__(
        self, computation: Computation, kind: str, caller: str, outside: _Caller | None
    ) -> None:
        self.kind = kind
        self.caller = caller
        self.outside = outside
        self.by_name = {found.name: found for found in computation.instructions}
        self.users: dict[str, list[Instruction]] = {}
        for found in computation.instructions:
            for operand in found.operands:
                self.users.setdefault(operand, []).append(found)

    def is_copied_again(self, found: Instruction) -> bool:
        """Tell whether the array is only copied on: the other copy is the one to report."""
        users = self.users.get(found.name, [])
        return len(users) == 1 and users[0].opcode == "copy"

    def source(self, copy: Instruction) -> Place:
        return self._made_by(copy.operands[0])

    def _made_by(self, name: str) -> Place:
        found = self.by_name[name]
        while found.opcode in _SAME_MEMORY and found.operands:
            found = self.by_name[found.operands[0]]
        if found.opcode == "parameter":
            if self.kind == "call" and self.outside is not None:
                # What a call is given is what its caller has.
                call = self.outside.instruction
                return self.outside.scope._made_by(call.operands[found.argument or 0])
            return self._outside("argument", found.argument or 0)
        if found.opcode == "constant":
            return Place("constant")
        if found.opcode == "get-tuple-element":
            return self._element(found)
        return Place("value", 0, _name(found))

    def _element(self, found: Instruction) -> Place:
        stated = _INDEX.search(found.attributes)
        index = int(stated[1]) if stated else 0
        whole = self.by_name[found.operands[0]]
        if whole.opcode == "parameter":
            return self._outside("argument", index)
        kind = "loop" if whole.opcode in _LOOPS else "value"
        return Place(kind, index if kind == "loop" else 0, _name(whole))

    def target(self, copy: Instruction) -> Place:
        name = copy.name
        while True:
            users = self.users.get(name, [])
            if not users:
                return self._root(0)
            user = users[0]
            if user.opcode == "tuple":
                return self._tuple(user, user.operands.index(name))
            if user.opcode not in _SAME_MEMORY:
                return Place("value", 0, _name(user))
            name = user.name

    def _root(self, index: int) -> Place:
        return self._outside("result", index)

    def _outside(self, kind: str, index: int) -> Place:
        """Return what a parameter or root of this computation is in the program."""
        if self.kind == _ENTRY_KIND:
            return Place(kind, index)
        is_carry = self.kind == "while"
        return Place("carry", index, self.caller) if is_carry else Place("value", 0, self.caller)

    def _tuple(self, found: Instruction, index: int) -> Place:
        if found.is_root:
            return self._root(index)
        loops = [user for user in self.users.get(found.name, []) if user.opcode in _LOOPS]
        return Place("loop", index, _name(loops[0])) if loops else Place("value", 0, _name(found))


def _name(found: Instruction) -> str:
    stated = _OP_NAME.search(found.attributes)
    return stated[1] if stated else ""


def _called(found: Instruction) -> list[str]:
    branches = _BRANCHES.search(found.attributes)
    if branches:
        return [name.strip().lstrip("%") for name in branches[1].split(",")]
    return _CALLED.findall(found.attributes)


__all__ = ["ArrayCopy", "Place", "aliases_of", "copies_of"]
