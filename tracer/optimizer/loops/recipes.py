"""How a window of an op's result is computed from windows of its operands, from its record.

A *window* is a run of elements along one axis of a value, with all other axes whole; None is the
whole value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracer import ops
from tracer.ir import Chunk, Label, Node, Piece, Value
from tracer.ops.helpers import scalar, spread
from tracer.optimizer.loops.runs import pieces_of

Window = tuple[int, int, int] | None
"""(axis, start, size), or None for the whole value."""
Request = tuple[Value, Window]
Emit = Callable[[Sequence[Value]], Value]


@dataclass(frozen=True)
class Recipe:
    """How a window is made: of these windows of other values, by this function."""

    needs: tuple[Request, ...]
    emit: Emit


ELEMENT_WISE = ("loop", "view")
"""Kinds of ops that compute the same bits for an element in a window as in the whole."""


def window_recipe(
    node: Node, window: tuple[int, int, int], kinds: Collection[str] = ELEMENT_WISE
) -> Recipe | None:
    """Return how a window is made of windows of the operands, None if it is cut from the whole."""
    if len(node.types) > 1 or node.bodies:
        return None
    return by_pieces(node, window) or _by_axis_rule(node, window, kinds)


def joined(parts: Sequence[Value], axis: int) -> Value:
    """Put values side by side along an axis."""
    if len(parts) == 1:
        return parts[0]
    return ops.concatenate(*parts, dimension=axis)  # type: ignore[no-any-return]


def takes_apart(node: Node, pieces: Sequence[Piece], axis: int) -> bool:
    """Tell whether the op leaves out part of an operand, as a slice does."""
    whole = (node.operands[piece.operand].shape for piece in pieces)
    return any(
        shape and piece.size < shape[axis] for piece, shape in zip(pieces, whole, strict=True)
    )


def by_pieces(node: Node, window: tuple[int, int, int]) -> Recipe | None:
    """Return the runs of operands that a window consists of, if the op joins arrays."""
    axis, start, size = window
    pieces = pieces_of(node, axis)
    if pieces is None:
        return None
    needs: list[Request] = []
    runs: list[tuple[Piece, int]] = []
    place = 0
    for piece in pieces:
        low, high = max(start, place), min(start + size, place + piece.size)
        operand = node.operands[piece.operand]
        if low < high:
            run = (axis, piece.start + low - place, high - low)
            needs.append((operand, run if operand.shape else None))
            runs.append((piece, high - low))
        place += piece.size

    def emit(operands: Sequence[Value]) -> Value:
        filled = [
            _filled(value, piece, axis, node.types[0].resized(axis, length).shape)
            for value, (piece, length) in zip(operands, runs, strict=True)
        ]
        return joined(filled, axis)

    return Recipe(tuple(needs), emit) if needs else None


def _filled(run: Value, piece: Piece, axis: int, shape: tuple[int, ...]) -> Value:
    """Return a run of a result: cut along its other axes, or filled with a scalar."""
    if not run.shape:
        return spread(run, shape)
    if not piece.cut:
        return run
    own = (0, run.shape[axis], 1)
    cut = [own if i == axis else item for i, item in enumerate(piece.cut)]
    start, limit, strides = zip(*cut, strict=True)
    return ops.slice(run, start=start, limit=limit, strides=strides)  # type: ignore[no-any-return]


def _by_axis_rule(
    node: Node, window: tuple[int, int, int], kinds: Collection[str]
) -> Recipe | None:
    """Run the op on windows of its operands, where it is of these kinds or only moves elements."""
    assert node.op is not None
    if node.op.fusion not in kinds and node.op.pieces is None:
        return None
    axis, start, size = window
    rule = node.axes
    label = rule.results[0][axis]
    block = node.types[0].shape[axis] // rule.steps.get(label, node.types[0].shape[axis])
    if not rule.is_parallel(label) or start % block or size % block:
        return None
    needs = []
    for operand, labels in zip(node.operands, rule.operands, strict=True):
        part = _operand_window(operand, labels, label, (start // block, size // block), rule.steps)
        if part is not None and part[0] < 0:
            return None
        needs.append((operand, part))
    op, types = node.op, (node.operand_types, node.types)

    def emit(operands: Sequence[Value]) -> Value:
        first = scalar(start // block, _INDEX)
        chunk = Chunk(op, label, first, size // block, *types, rule)
        result: Value = op.slice(tuple(operands), chunk, **node.params)
        return result

    return Recipe(tuple(needs), emit)


_INDEX: Any = "int32"


def _operand_window(
    operand: Value,
    labels: Sequence[Label],
    label: Label,
    run: tuple[int, int],
    steps: Mapping[Label, int],
) -> Window:
    """Return the window of an operand for a run of steps; a negative axis: there is none."""
    places = [i for i, name in enumerate(labels) if name == label]
    if not places:
        return None
    if len(places) > 1:
        return (-1, 0, 0)
    axis = places[0]
    block = operand.shape[axis] // steps.get(label, operand.shape[axis])
    return (axis, run[0] * block, run[1] * block)


__all__ = [
    "ELEMENT_WISE",
    "Recipe",
    "Request",
    "Window",
    "by_pieces",
    "joined",
    "takes_apart",
    "window_recipe",
]
