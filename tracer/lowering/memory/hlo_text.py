"""Parse optimised HLO text into computations, instructions and arrays."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

_HEADER = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) \(.*\{\s*$")
_INSTRUCTION = re.compile(r"^\s+(ROOT )?%?([\w.\-]+) = (.+?) ([a-z][\w\-]*)\((.*)$")
_ARRAY = re.compile(r"(\w+)\[([\d,]*)\]")
_LAYOUT = re.compile(r"\]\{([\d,]*)")
_NAME = re.compile(r"%([\w.\-]+)")
_LIST = r"=\{([\d,]*)\}"
_STATED_WIDTH = re.compile(r"^[a-z]+(\d+)")


@dataclass(frozen=True)
class Array:
    """Shape and bytes of an element of one array."""

    shape: tuple[int, ...]
    itemsize: int

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return math.prod(self.shape) * self.itemsize


@dataclass(frozen=True)
class Instruction:
    """One line of HLO."""

    name: str
    opcode: str
    is_root: bool
    results: list[Array]
    operands: list[str]
    attributes: str
    argument: int | None = None
    """Number of a parameter."""
    layout: str = ""
    """The axes of the first result in memory order, the fastest first."""
    dtype: str = ""
    """HLO's name of the first result's elements."""

    @property
    def nbytes(self) -> int:
        """Bytes of all results."""
        return sum(result.nbytes for result in self.results)


@dataclass
class Computation:
    """The instructions of one computation, in their order."""

    name: str
    instructions: list[Instruction] = field(default_factory=list)

    @cached_property
    def results(self) -> dict[str, list[Array]]:
        """What each instruction gives; read once the computation is complete."""
        return {found.name: found.results for found in self.instructions}

    def arrays(self, instruction: Instruction) -> list[Array]:
        """Return the operands of an instruction; tuples are left out."""
        found = [self.results[name] for name in instruction.operands]
        return [results[0] for results in found if len(results) == 1]


def parse(hlo: str) -> dict[str, Computation]:
    """Return the computations of a module by their names."""
    computations: dict[str, Computation] = {}
    current = Computation("")
    for line in hlo.splitlines():
        if match := _INSTRUCTION.match(line):
            root, name, result, opcode, rest = match.groups()
            operands, _, attributes = rest.partition(")")
            current.instructions.append(
                Instruction(
                    name,
                    opcode,
                    root is not None,
                    list(_arrays(result)),
                    _NAME.findall(operands),
                    attributes,
                    int(operands) if opcode == "parameter" else None,
                    layout[1] if (layout := _LAYOUT.search(result)) else "",
                    array[1] if (array := _ARRAY.search(result)) else "",
                )
            )
        elif match := _HEADER.match(line):
            current = computations[match[1]] = Computation(match[1])
    return computations


def _arrays(text: str) -> Iterator[Array]:
    for dtype, sizes in _ARRAY.findall(text):
        yield Array(tuple(int(n) for n in sizes.split(",") if n), _itemsize(dtype))


def _itemsize(dtype: str) -> int:
    """Return the bytes of an element: HLO's names state bits ("f32", "bf16", "f8e4m3fn")."""
    width = _STATED_WIDTH.match(dtype)
    return max(1, int(width[1]) // 8) if width else 1


def axes_of(attributes: str, key: str) -> list[int]:
    """Return the list of axes that an instruction states under a key."""
    found = re.search(key + _LIST, attributes)
    return [int(n) for n in found[1].split(",") if n] if found else []
