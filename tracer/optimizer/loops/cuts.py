"""Where a loop's state is taken apart and joined: the cuts along one axis of a carry."""

from __future__ import annotations

from collections.abc import Iterator

from tracer.ir import Graph, Node, Value
from tracer.optimizer.loops.runs import Places, is_aligned, pieces_of, taken_apart


def find_cuts(body: Graph, before: Value, after: Value, axis: int) -> tuple[int, ...]:
    """Return where a carry is cut along an axis, with 0 and its size; empty if it is not.

    Parameters
    ----------
    body : Graph
        The loop's body.
    before, after : Value
        The carry as the body gets it, and as it returns it.
    axis : int
        The axis.

    Returns
    -------
    tuple of int
        The places where the body takes the carry apart and where it puts it together, if it does
        both.
    """
    size = before.shape[axis]
    taken = {cut for cut in taken_apart(body, before, axis)[0] if 0 < cut < size}
    put = {cut for cut in _put_together(body, after, axis) if 0 < cut < size}
    return (0, *sorted(taken | put), size) if taken and put else ()


def _put_together(body: Graph, result: Value, axis: int) -> set[int]:
    places: Places = {result: {(axis, 0)}}
    cuts: set[int] = set()
    for node in reversed(body.nodes):
        if len(node.types) == 1:
            for place in tuple(places.get(node.results[0], ())):
                cuts.update(_backward(node, place, places))
    return cuts


def _backward(node: Node, place: tuple[int, int], places: Places) -> Iterator[int]:
    """Follow a result to its operands; yields the ends of runs that are adjacent in it."""
    axis, offset = place
    pieces = pieces_of(node, axis)
    if pieces is None:
        label = node.axes.results[0][axis]
        for operand, labels in zip(node.operands, node.axes.operands, strict=True):
            if label in labels and is_aligned(node, label):
                places.setdefault(operand, set()).add((labels.index(label), offset))
        return
    start = 0
    for piece in pieces:
        operand = node.operands[piece.operand]
        yield offset + start
        yield offset + start + piece.size
        if operand.shape:
            places.setdefault(operand, set()).add((axis, offset + start - piece.start))
        start += piece.size


__all__ = ["find_cuts"]
