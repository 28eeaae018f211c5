"""Check a compiled program: no instruction overwrites an operand that it reads by another name.

XLA:CPU writes a result over an operand that is read element for element, and judges one operand at
a time. If the same bytes are read under a second name (behind a barrier, as a transpose that is a
bitcast), they may be read elsewhere after they were overwritten. Such a program computes wrong
values silently. XLA's buffer assignment and HLO say which bytes each instruction reads and writes.
Both are read here from protocol buffers (xla/service/hlo.proto; the numbers below are fields of its
messages). `fused_updates` looks into kernels that write a part of an array in place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tracer.lowering.memory.fused_updates import (
    HOLDS_UPDATE,
    FusedComputation,
    fused_computation,
    reads_what_it_replaces,
)
from tracer.lowering.memory.hlo_proto import fields, packed

_MODULE_COMPUTATIONS = 3
_COMPUTATION_INSTRUCTIONS, _IS_FUSED = 2, 7
_NAME, _OPCODE, _TUPLE_INDEX, _ID, _OPERANDS, _CALLED = 1, 2, 13, 35, 36, 38
_BUFFERS, _ALIASES, _ALLOCATIONS = 1, 2, 3
_BUFFER_ID, _DEFINED_AT = 1, 3
_ALIAS_OF, _ALIAS_AT = 1, 2
_AT_INDEX, _AT_INSTRUCTION = 3, 4
_ALLOCATION_INDEX, _ASSIGNED = 1, 9
_ASSIGNED_BUFFER, _OFFSET, _SIZE = 1, 2, 3

_HANDS_ON = frozenset(
    (b"opt-barrier", b"bitcast", b"reshape", b"copy-done", b"domain", b"add-dependency")
)
"""Opcodes whose result is their operand's memory, where the assignment has no place for it."""
_RUNS_NO_KERNEL = _HANDS_ON | frozenset(
    (
        *(b"parameter", b"constant", b"tuple", b"get-tuple-element"),
        *(b"while", b"conditional", b"call"),
    )
)
"""Opcodes that read nothing themselves; those that run computations read in there."""

_Index = tuple[int, ...]


@dataclass(frozen=True)
class _Place:
    """Bytes of one allocation."""

    allocation: int
    start: int
    stop: int

    def overlaps(self, other: _Place) -> bool:
        """Whether two places share a byte."""
        same = self.allocation == other.allocation
        return same and self.start < other.stop and other.start < self.stop


@dataclass(frozen=True)
class _Instruction:
    name: str
    opcode: bytes
    operands: tuple[int, ...]
    tuple_index: int
    called: tuple[int, ...]


@dataclass
class _Program:
    """The instructions that are no part of a fusion, and where their results are."""

    instructions: dict[int, _Instruction] = field(default_factory=dict)
    places: dict[int, dict[_Index, _Place]] = field(default_factory=dict)
    fused: dict[int, FusedComputation] = field(default_factory=dict)
    """Of the fusions' computations, those that hold an update of a part of an array."""

    def place(self, number: int, index: _Index = ()) -> _Place | None:
        """Return where an element of an instruction's result is, if anywhere."""
        while True:
            found = self.places.get(number, {}).get(index)
            made = self.instructions.get(number)
            if found is not None or made is None or not made.operands:
                return found
            if made.opcode == b"get-tuple-element":
                index = (made.tuple_index, *index)
            elif made.opcode not in _HANDS_ON:
                return None
            number = made.operands[0]


def overwritten_while_read(executable: Any, stats: Any) -> tuple[str, ...]:
    """Return the instructions of a compiled CPU program that may read what they wrote over.

    Parameters
    ----------
    executable : jaxlib.xla_client.LoadedExecutable
        A program that was compiled for a CPU.
    stats : jaxlib.xla_client.CompiledMemoryStats
        Its memory statistics, which include the buffer assignment.

    Returns
    -------
    tuple of str
        The names of instructions, one of whose results is in bytes of an operand that the same
        instruction also reads under another name, or elsewhere. Empty for a sound program.
    """
    assignment = stats.serialized_buffer_assignment_proto
    modules = [module.as_serialized_hlo_module_proto() for module in executable.hlo_modules()]
    return tuple(name for module in modules for name in _suspects(_read(module, assignment)))


def _suspects(program: _Program) -> Iterator[str]:
    for number, instruction in program.instructions.items():
        written = program.places.get(number)
        if not written or instruction.opcode in _RUNS_NO_KERNEL:
            continue
        if _has_two_names(program, instruction, written) or any(
            _updates_what_it_reads(program, instruction, written, program.fused[called])
            for called in instruction.called
            if called in program.fused
        ):
            yield instruction.name


def _has_two_names(
    program: _Program, instruction: _Instruction, written: dict[_Index, _Place]
) -> bool:
    """Whether a result is in bytes that two operands have in common."""
    operands = dict.fromkeys(instruction.operands)
    if len(operands) < 2:
        return False
    read = [place for x in operands if (place := program.place(x)) is not None]
    return any(sum(place.overlaps(x) for x in read) > 1 for place in written.values())


def _updates_what_it_reads(
    program: _Program,
    instruction: _Instruction,
    written: dict[_Index, _Place],
    computation: FusedComputation,
) -> bool:
    """Whether a fusion writes a part of an operand in place and reads another part of it."""
    read = [program.place(x) for x in instruction.operands]
    return any(
        at is not None
        and at.overlaps(place)
        and reads_what_it_replaces(computation, index, parameter)
        for index, place in written.items()
        for parameter, at in enumerate(read)
    )


def _read(module: bytes, assignment: bytes) -> _Program:
    program = _Program()
    for kind, computation in fields(module):
        if kind == _MODULE_COMPUTATIONS:
            found = fields(computation)
            if (_IS_FUSED, 1) not in found:
                texts = (content for kind, content in found if kind == _COMPUTATION_INSTRUCTIONS)
                program.instructions.update(map(_instruction, texts))
            elif HOLDS_UPDATE in computation:
                number, fused = fused_computation(found)
                program.fused[number] = fused
    buffers: dict[int, list[tuple[int, _Index]]] = {}
    for kind, content in fields(assignment):
        if kind == _BUFFERS:
            values = dict(fields(content))
            buffers.setdefault(values.get(_BUFFER_ID, 0), []).append(_location(values[_DEFINED_AT]))
        elif kind == _ALIASES:
            values = dict(fields(content))
            buffers.setdefault(values.get(_ALIAS_OF, 0), []).append(_location(values[_ALIAS_AT]))
        elif kind == _ALLOCATIONS:
            _place_buffers(program, buffers, content)
    return program


def _place_buffers(
    program: _Program, buffers: dict[int, list[tuple[int, _Index]]], allocation: bytes
) -> None:
    """Note where the buffers of one allocation are."""
    number = 0
    for kind, content in fields(allocation):
        if kind == _ALLOCATION_INDEX:
            number = content
        elif kind == _ASSIGNED:
            values = dict(fields(content))
            start = values.get(_OFFSET, 0)
            place = _Place(number, start, start + values.get(_SIZE, 0))
            for at, index in buffers.get(values.get(_ASSIGNED_BUFFER, 0), ()):
                program.places.setdefault(at, {})[index] = place


def _instruction(text: bytes) -> tuple[int, _Instruction]:
    name, opcode, tuple_index, number = b"", b"", 0, 0
    operands: tuple[int, ...] = ()
    called: tuple[int, ...] = ()
    for kind, content in fields(text):
        if kind == _ID:
            number = content
        elif kind == _NAME:
            name = content
        elif kind == _OPCODE:
            opcode = content
        elif kind == _OPERANDS:
            operands += packed(content)
        elif kind == _CALLED:
            called += packed(content)
        elif kind == _TUPLE_INDEX:
            tuple_index = content
    return number, _Instruction(name.decode(), opcode, operands, tuple_index, called)


def _location(text: bytes) -> tuple[int, _Index]:
    """Return the instruction and the element of its result that a buffer belongs to."""
    index: _Index = ()
    number = 0
    for kind, content in fields(text):
        if kind == _AT_INDEX:
            index += packed(content)
        elif kind == _AT_INSTRUCTION:
            number = content
    return number, index


__all__ = ["overwritten_while_read"]
