"""Runs of elements that ops join or extract, from the op records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tracer.ir import Graph, Label, Node, Piece, Value
from tracer.optimizer.rewrite.simplify import constant_value

Places = dict[Value, set[tuple[int, int]]]
"""For a value the (axis, offset) pairs: its element j along the axis is the carry's j + offset."""


def pieces_of(node: Node, axis: int) -> Sequence[Piece] | None:
    """Return the runs of operands that a result consists of along an axis, by the op's record."""
    assert node.op is not None
    if node.op.pieces is None or axis >= node.types[0].ndim:
        return None
    constants = tuple(map(constant_value, node.operands))
    found = node.op.pieces(node.operand_types, node.types, axis, constants, **node.params)
    return None if found is None else [piece for piece in found if piece.size]


def is_assembled(node: Node) -> bool:
    """Tell whether the op joins several arrays, and computes nothing."""
    axes = range(node.types[0].ndim) if len(node.types) == 1 else ()
    return any(len(pieces_of(node, axis) or ()) > 1 for axis in axes)


def taken_apart(body: Graph, carry: Value, axis: int) -> tuple[set[int], Places]:
    """Return where an input is cut along an axis, and the values that belong to its elements."""
    places: Places = {carry: {(axis, 0)}}
    cuts: set[int] = set()
    for node in body.nodes:
        for position, operand in enumerate(node.operands):
            for place in tuple(places.get(operand, ())):
                cuts.update(_forward(node, position, place, places))
    return cuts, places


def _forward(node: Node, position: int, place: tuple[int, int], places: Places) -> Iterator[int]:
    """Follow an operand to the result; yields the ends of runs that are taken out of it."""
    axis, offset = place
    pieces = None if len(node.types) > 1 else pieces_of(node, axis)
    if pieces is None:
        for labels in node.axes.operands[position : position + 1]:
            for row, value in zip(node.axes.results, node.results, strict=True):
                if labels[axis] in row and is_aligned(node, labels[axis]):
                    places.setdefault(value, set()).add((row.index(labels[axis]), offset))
        return
    start = 0
    for piece in pieces:
        if piece.operand == position and node.operands[position].shape:
            yield offset + piece.start
            yield offset + piece.start + piece.size
            places.setdefault(node.results[0], set()).add((axis, offset + piece.start - start))
        start += piece.size


def is_aligned(node: Node, label: Label) -> bool:
    """Tell whether element j of operand and result belong together along a label."""
    return node.axes.is_parallel(label) and label not in node.axes.steps


__all__ = ["Places", "is_aligned", "is_assembled", "pieces_of", "taken_apart"]
