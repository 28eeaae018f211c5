"""Find kernels that write a part of an array in place and read another part of it.

XLA:CPU fuses a `dynamic-update-slice` with what is written, and lets the kernel write over the
array. The kernel goes through the update element by element. If an element is computed from a place
of the array that an earlier one was written to, it is wrong. Sound are two kinds of reads, and what
is computed from them element for element: the window that is replaced itself, and a window which is
either the same or has no element in common with it.

A kernel that reads in another way counts as unsound, also where its elements happen to be right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tracer.lowering.memory.hlo_proto import fields, packed

HOLDS_UPDATE = b"dynamic-update-slice"

_INSTRUCTIONS, _COMPUTATION_ID, _ROOT = 2, 5, 6
_OPCODE, _SHAPE, _LITERAL, _PARAMETER, _SLICE, _ID, _OPERANDS = 2, 3, 8, 9, 17, 35, 36
_DIMENSIONS, _LAYOUT, _MINOR_TO_MAJOR = 3, 5, 1
_START, _STRIDE = 1, 3
_WHOLE_NUMBERS = (4, 5, 6, 7)
"""Fields of a literal: int32, int64, and the same without sign."""

_ELEMENTWISE = frozenset(
    b"""
    abs add and atan2 bitcast-convert cbrt ceil clamp compare complex convert copy cosine
    count-leading-zeros divide erf exponential exponential-minus-one floor imag is-finite log
    log-plus-one logistic maximum minimum multiply negate not or popcnt power real reduce-precision
    remainder round-nearest-afz round-nearest-even rsqrt select shift-left
    shift-right-arithmetic shift-right-logical sign sine sqrt subtract tan tanh xor
    """.split()
)
_RENAMES = frozenset((b"bitcast", b"reshape"))

_Index = tuple[int, ...]


@dataclass(frozen=True)
class _Fused:
    """An instruction of a fusion.

    Attributes
    ----------
    opcode : bytes
        HLO's name of the operation.
    operands : tuple of int
        Numbers of instructions.
    sizes : tuple of int
        Axes of the result.
    order : tuple of int
        Axes of more than one element from the innermost in memory to the outermost, counted among
        themselves.
    parameter : int
        Which operand of the fusion it is, where it is one.
    numbers : tuple of int
        Where a window that does not move begins, or the value of a constant.
    is_dense : bool
        Whether a window that does not move leaves out nothing between its ends.
    """

    opcode: bytes
    operands: tuple[int, ...]
    sizes: tuple[int, ...]
    order: tuple[int, ...]
    parameter: int
    numbers: tuple[int, ...]
    is_dense: bool

    @property
    def full_sizes(self) -> tuple[int, ...]:
        """The sizes without axes of one element."""
        return tuple(size for size in self.sizes if size != 1)


@dataclass(frozen=True)
class FusedComputation:
    """The instructions of a fusion, and which one is its result."""

    instructions: dict[int, _Fused]
    root: int

    def renamed(self, number: int) -> int:
        """Return the instruction whose memory an instruction is under another name."""
        while (made := self.instructions[number]).opcode in _RENAMES:
            number = made.operands[0]
        return number


def fused_computation(found: list[tuple[int, Any]]) -> tuple[int, FusedComputation]:
    """Read a computation from its fields; return its number too."""
    values = dict(found)
    texts = (content for kind, content in found if kind == _INSTRUCTIONS)
    number, root = values.get(_COMPUTATION_ID, 0), values.get(_ROOT, 0)
    return number, FusedComputation(dict(map(_fused, texts)), root)


def reads_what_it_replaces(computation: FusedComputation, index: _Index, parameter: int) -> bool:
    """Tell whether an update in place reads the array at other places than it writes.

    Parameters
    ----------
    computation : FusedComputation
        What a kernel computes.
    index : tuple of int
        Which of its results lies in the array; empty where there is one.
    parameter : int
        Which operand the array is.
    """
    made = computation.instructions
    root = computation.root
    for place in index:
        root = made[computation.renamed(root)].operands[place]
    root = computation.renamed(root)
    if made[root].opcode != HOLDS_UPDATE:
        return False
    array = computation.renamed(made[root].operands[0])
    if made[array].opcode != b"parameter" or made[array].parameter != parameter:
        return False
    written = _written(computation, made[root])
    return any(
        window is None
        or not (window.is_apart(written) or (in_order and window.is_same_or_apart(written)))
        for one, in_order in _reads(computation, made[root].operands[1], array)
        for window in [_read(computation, one)]
    )


def _reads(computation: FusedComputation, update: int, array: int) -> Iterator[tuple[_Fused, bool]]:
    """Yield each instruction that reads the array for the update, and whether in its order.

    An instruction of which nothing is known reads its operands in any order.
    """
    made = computation.instructions
    stack = [(update, True)]
    seen = set(stack)
    while stack:
        number, in_order = stack.pop()
        one = made[number]
        keeps = in_order and _keeps_order(computation, one)
        for operand in one.operands:
            if computation.renamed(operand) == array:
                yield one, in_order
            elif (operand, keeps) not in seen:
                seen.add((operand, keeps))
                stack.append((operand, keeps))


def _keeps_order(computation: FusedComputation, one: _Fused) -> bool:
    """Whether each element is computed from the operands' elements at the same place."""
    if one.opcode in _ELEMENTWISE:
        return True
    if one.opcode in _RENAMES:
        operand = computation.instructions[one.operands[0]]
        return (one.full_sizes, one.order) == (operand.full_sizes, operand.order)
    return False


@dataclass(frozen=True)
class _Window:
    """Which elements of an array are read or written; axes of one element are left out.

    Attributes
    ----------
    whole : tuple of int
        Sizes of the array.
    order : tuple of int
        How its axes lie in memory.
    sizes : tuple of int
        Sizes of the window.
    starts : tuple of int or bytes
        Where it begins: a number, or the name of what is computed.
    """

    whole: _Index
    order: _Index
    sizes: _Index
    starts: tuple[int | bytes, ...]

    def is_apart(self, other: _Window) -> bool:
        """Whether two windows are known to have no element in common."""
        if (self.whole, self.order) != (other.whole, other.order):
            return False
        return any(
            isinstance(one, int)
            and isinstance(two, int)
            and (one + size <= two or two + more <= one)
            for one, size, two, more in zip(
                self.starts, self.sizes, other.starts, other.sizes, strict=True
            )
        )

    def is_same_or_apart(self, other: _Window) -> bool:
        """Whether two windows are the same, or have no element in common.

        Two windows of one element along some axes and of all elements along the others are one or
        the other, wherever they begin.
        """
        places = (self.whole, self.order, self.sizes)
        if places != (other.whole, other.order, other.sizes):
            return False
        is_thin = all(
            size in (1, whole) for size, whole in zip(self.sizes, self.whole, strict=True)
        )
        return is_thin or self.starts == other.starts


def _written(computation: FusedComputation, update: _Fused) -> _Window:
    made = computation.instructions
    array, sizes = made[update.operands[0]], made[update.operands[1]].sizes
    return _window(array, sizes, [_start(computation, x) for x in update.operands[2:]])


def _read(computation: FusedComputation, one: _Fused) -> _Window | None:
    """Return the window that an instruction reads, if it reads one."""
    array = computation.instructions[one.operands[0]]
    if one.opcode == b"dynamic-slice":
        return _window(array, one.sizes, [_start(computation, x) for x in one.operands[1:]])
    if one.opcode == b"slice" and one.is_dense:
        return _window(array, one.sizes, one.numbers)
    return None


def _start(computation: FusedComputation, number: int) -> int | bytes:
    made = computation.instructions[number]
    if made.opcode == b"constant" and len(made.numbers) == 1:
        return made.numbers[0]
    return b"%d" % number


def _window(array: _Fused, sizes: _Index, starts: Sequence[int | bytes]) -> _Window:
    kept = [axis for axis, size in enumerate(array.sizes) if size != 1]
    return _Window(
        array.full_sizes,
        array.order,
        tuple(sizes[axis] for axis in kept),
        tuple(starts[axis] for axis in kept),
    )


def _fused(text: bytes) -> tuple[int, _Fused]:
    values: dict[int, Any] = {}
    operands: tuple[int, ...] = ()
    numbers: tuple[int, ...] = ()
    is_dense = True
    for kind, content in fields(text):
        if kind == _OPERANDS:
            operands += packed(content)
        elif kind == _SLICE:
            axis = dict(fields(content))
            numbers += (axis.get(_START, 0),)
            is_dense &= axis.get(_STRIDE, 1) == 1
        elif kind == _LITERAL:
            found = fields(content)
            numbers = sum((packed(x) for at, x in found if at in _WHOLE_NUMBERS), numbers)
        else:
            values[kind] = content
    sizes, order = _shape(values.get(_SHAPE, b""))
    parameter = values.get(_PARAMETER, 0)
    one = _Fused(values[_OPCODE], operands, sizes, order, parameter, numbers, is_dense)
    return values.get(_ID, 0), one


def _shape(text: bytes) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return an array's sizes, and the order of its axes of more than one element in memory."""
    sizes: tuple[int, ...] = ()
    order: tuple[int, ...] = ()
    for kind, content in fields(text):
        if kind == _DIMENSIONS:
            sizes += packed(content)
        elif kind == _LAYOUT:
            order = sum((packed(x) for at, x in fields(content) if at == _MINOR_TO_MAJOR), ())
    kept = [axis for axis, size in enumerate(sizes) if size != 1]
    return sizes, tuple(kept.index(axis) for axis in order if axis in kept)


__all__ = ["HOLDS_UPDATE", "FusedComputation", "fused_computation", "reads_what_it_replaces"]
