"""Check a compiled program: no instruction overwrites an operand that it reads by another name.

XLA:CPU writes a result over an operand that is read element for element, and judges one operand at
a time. If the same bytes are read under a second name (behind a barrier, as a transpose that is a
bitcast), they may be read elsewhere after they were overwritten. Such a program computes wrong
values silently. XLA's buffer assignment and HLO say which bytes each instruction reads and writes.
Both are read here from protocol buffers (xla/service/hlo.proto; the numbers below are fields of its
messages).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

_MODULE_COMPUTATIONS = 3
_COMPUTATION_INSTRUCTIONS, _IS_FUSED = 2, 7
_NAME, _OPCODE, _TUPLE_INDEX, _ID, _OPERANDS = 1, 2, 13, 35, 36
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


@dataclass
class _Program:
    """The instructions that are no part of a fusion, and where their results are."""

    instructions: dict[int, _Instruction] = field(default_factory=dict)
    places: dict[int, dict[_Index, _Place]] = field(default_factory=dict)

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
        instruction also reads under another name. Empty for a sound program.
    """
    assignment = stats.serialized_buffer_assignment_proto
    modules = [module.as_serialized_hlo_module_proto() for module in executable.hlo_modules()]
    return tuple(name for module in modules for name in _suspects(_read(module, assignment)))


def _suspects(program: _Program) -> Iterator[str]:
    for number, instruction in program.instructions.items():
        operands = dict.fromkeys(instruction.operands)
        written = program.places.get(number)
        if len(operands) < 2 or not written or instruction.opcode in _RUNS_NO_KERNEL:
            continue
        read = [place for x in operands if (place := program.place(x)) is not None]
        if any(sum(place.overlaps(x) for x in read) > 1 for place in written.values()):
            yield instruction.name


def _read(module: bytes, assignment: bytes) -> _Program:
    program = _Program()
    for kind, computation in _fields(module):
        if kind == _MODULE_COMPUTATIONS:
            found = _fields(computation)
            if (_IS_FUSED, 1) not in found:
                texts = (content for kind, content in found if kind == _COMPUTATION_INSTRUCTIONS)
                program.instructions.update(map(_instruction, texts))
    buffers: dict[int, list[tuple[int, _Index]]] = {}
    for kind, content in _fields(assignment):
        if kind == _BUFFERS:
            values = dict(_fields(content))
            buffers.setdefault(values.get(_BUFFER_ID, 0), []).append(_location(values[_DEFINED_AT]))
        elif kind == _ALIASES:
            values = dict(_fields(content))
            buffers.setdefault(values.get(_ALIAS_OF, 0), []).append(_location(values[_ALIAS_AT]))
        elif kind == _ALLOCATIONS:
            _place_buffers(program, buffers, content)
    return program


def _place_buffers(
    program: _Program, buffers: dict[int, list[tuple[int, _Index]]], allocation: bytes
) -> None:
    """Note where the buffers of one allocation are."""
    number = 0
    for kind, content in _fields(allocation):
        if kind == _ALLOCATION_INDEX:
            number = content
        elif kind == _ASSIGNED:
            values = dict(_fields(content))
            start = values.get(_OFFSET, 0)
            place = _Place(number, start, start + values.get(_SIZE, 0))
            for at, index in buffers.get(values.get(_ASSIGNED_BUFFER, 0), ()):
                program.places.setdefault(at, {})[index] = place


def _instruction(text: bytes) -> tuple[int, _Instruction]:
    name, opcode, tuple_index, number = b"", b"", 0, 0
    operands: tuple[int, ...] = ()
    for kind, content in _fields(text):
        if kind == _ID:
            number = content
        elif kind == _NAME:
            name = content
        elif kind == _OPCODE:
            opcode = content
        elif kind == _OPERANDS:
            operands += _packed(content)
        elif kind == _TUPLE_INDEX:
            tuple_index = content
    return number, _Instruction(name.decode(), opcode, operands, tuple_index)


def _location(text: bytes) -> tuple[int, _Index]:
    """Return the instruction and the element of its result that a buffer belongs to."""
    index: _Index = ()
    number = 0
    for kind, content in _fields(text):
        if kind == _AT_INDEX:
            index += _packed(content)
        elif kind == _AT_INSTRUCTION:
            number = content
    return number, index


def _packed(content: Any) -> tuple[int, ...]:
    """Return the numbers of a repeated field, which come one by one or all in one."""
    if isinstance(content, int):
        return (content,)
    numbers, at = [], 0
    while at < len(content):
        number = content[at]
        at += 1
        if number > 127:
            number, at = _longer(content, at, number)
        numbers.append(number)
    return tuple(numbers)


def _fields(data: bytes) -> list[tuple[int, Any]]:
    """Return the numbers and contents of a message's fields: integers, or bytes.

    Most numbers take one byte or two, and are read here: calls would be half of the time.
    """
    found: list[tuple[int, Any]] = []
    add = found.append
    at, end = 0, len(data)
    while at < end:
        key = data[at]
        at += 1
        if key > 127:
            key, at = _longer(data, at, key)
        wire = key & 7
        if wire == 0 or wire == 2:
            content = data[at]
            at += 1
            if content > 127:
                content, at = _longer(data, at, content)
            if wire == 0:
                add((key >> 3, content))
                continue
            size = content
        else:
            size = 8 if wire == 1 else 4
        add((key >> 3, data[at : at + size]))
        at += size
    return found


def _longer(data: bytes, at: int, first: int) -> tuple[int, int]:
    """Read the rest of a number of several bytes."""
    value, shift = first & 127, 7
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


__all__ = ["overwritten_while_read"]
