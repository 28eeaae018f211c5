"""Compute windows of a graph's values: what is asked for, from the outputs back to the inputs.

A *window* is a run of elements along one axis of a value, all other axes whole; None is the whole
value. Where an op puts arrays together (`Op.pieces`), a window of its result is made of windows of
its operands and the rest is never computed; where the axis rule says that the axis is parallel, the
op runs on windows of its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracer import ops
from tracer.ir import Builder, Chunk, Graph, Label, Node, Piece, Value
from tracer.ops.helpers import scalar, slice_axis, spread
from tracer.optimizer.loop_fusion.runs import pieces_of, taken_apart

Window = tuple[int, int, int] | None
"""(axis, start, size), or None for the whole value."""
Request = tuple[Value, Window]
Emit = Callable[[Sequence[Value]], Value]


@dataclass(frozen=True)
class _Recipe:
    """How a window is made: of these windows of other values, by this function."""

    needs: tuple[Request, ...]
    emit: Emit


@dataclass(frozen=True)
class SplitInput:
    """An input that is given as its parts along an axis; `cuts` begin with 0 and end with n."""

    axis: int
    cuts: tuple[int, ...]

    @property
    def runs(self) -> tuple[tuple[int, int], ...]:
        """(start, stop) of each part."""
        return tuple(zip(self.cuts, self.cuts[1:], strict=False))


class WindowEmitter:
    """Copies a graph into a builder, computing only the windows that outputs need.

    Parameters
    ----------
    graph : Graph
        What is copied.
    split : mapping of Value to SplitInput
        Inputs that come as parts.

    Attributes
    ----------
    joined : dict of Value to str
        Split inputs that something needs in one piece, with the name of the op that does: they are
        put together again.
    """

    def __init__(self, graph: Graph, split: Mapping[Value, SplitInput]) -> None:
        self.graph = graph
        self.split = split
        self.joined: dict[Value, str] = {}
        self._places = {
            value: {axis for axis, _ in places}
            for carry, given in split.items()
            for value, places in taken_apart(graph, carry, given.axis)[1].items()
        }
        """Axes of values along which they belong to the parts of a split input."""
        self._recipes: dict[Request, _Recipe] = {}
        self._order: dict[Node, list[tuple[int, Window]]] = {}

    def request(self, outputs: Iterable[Request]) -> None:
        """Work out what the requests need, down to the inputs."""
        asked: dict[Value, dict[Window, None]] = {}
        for value, window in outputs:
            asked.setdefault(value, {})[_normal(value, window)] = None
        for node in reversed(self.graph.nodes):
            for value in node.results:
                for window, recipe in self._recipes_of(value, list(asked.get(value, ()))):
                    self._recipes[value, window] = recipe
                    self._order.setdefault(node, []).append((value.index, window))
                    for needed, part in recipe.needs:
                        if needed is not value:
                            asked.setdefault(needed, {})[_normal(needed, part)] = None
                        self._note_join(needed, part, node.name)

    def _recipes_of(self, value: Value, windows: list[Window]) -> list[tuple[Window, _Recipe]]:
        """Return how the windows of a value are made, in an order in which they can be."""
        parts = [window for window in windows if window is not None]
        made = [(window, _recipe(value.node, window)) for window in parts]
        if all(recipe is not None for _, recipe in made):
            found = [(window, recipe) for window, recipe in made if recipe is not None]
            whole = [(None, self._whole(value, parts))] if None in windows else []
            return [*found, *whole]
        cut = [(window, recipe or _cut_recipe(value, window)) for window, recipe in made]
        return [(None, self._whole(value, ())), *cut]

    def _note_join(self, value: Value, window: Window, name: str) -> None:
        given = self.split.get(value)
        if given is not None:
            window = _normal(value, window)
            if window is None or window[0] != given.axis:
                self.joined.setdefault(value, name)

    def emit(self, builder: Builder, given: Mapping[Value, Sequence[Value]]) -> None:
        """Write the nodes; `given` has each input: its parts if it is split, else itself."""
        self._builder = builder
        self._given = given
        self._made: dict[Request, Value] = {}
        self._copies: dict[Node, Sequence[Value]] = {}
        for node in self.graph.nodes:
            builder.source = node.source
            for index, window in self._order.get(node, ()):
                value = node.results[index]
                recipe = self._recipes[value, window]
                operands = [self.value(needed, part) for needed, part in recipe.needs]
                self._made[value, window] = recipe.emit(operands)
        builder.source = None

    def value(self, value: Value, window: Window = None) -> Value:
        """Return a window that was requested, in the new graph."""
        window = _normal(value, window)
        if value.node.op is not None:
            return self._made[value, window]
        if (value, window) not in self._made:
            self._made[value, window] = self._input(value, window)
        return self._made[value, window]

    def _input(self, value: Value, window: Window) -> Value:
        given = self._given[value]
        if value not in self.split:
            return given[0] if window is None else _cut(given[0], window)
        split = self.split[value]
        if window is None or window[0] != split.axis:
            whole = ops.concatenate(*given, dimension=split.axis)
            return whole if window is None else _cut(whole, window)
        axis, start, size = window
        found = []
        for part, (first, last) in zip(given, split.runs, strict=True):
            low, high = max(start, first), min(start + size, last)
            if low < high:
                found.append(slice_axis(part, axis, low - first, high - first))
        return joined(found, axis)

    def _whole(self, value: Value, windows: Sequence[Window]) -> _Recipe:
        """Return how a whole value is made: of windows that are made anyway, if they cover it."""
        node = value.node
        parts = _cover(value, windows)
        if parts:
            axis = parts[0][0]
            needs: list[Request] = [(value, part) for part in parts]
            return _Recipe(tuple(needs), lambda operands: joined(operands, axis))
        if len(node.types) == 1:
            parted = {axis for operand in node.operands for axis in self._places.get(operand, ())}
            for axis in sorted(range(node.types[0].ndim), key=lambda axis: axis not in parted):
                pieces = pieces_of(node, axis)
                if pieces is not None and _takes_apart(node, pieces, axis):
                    recipe = _by_pieces(node, (axis, 0, node.types[0].shape[axis]))
                    if recipe is not None:
                        return recipe
        whole: list[Request] = [(operand, None) for operand in node.operands]
        return _Recipe(tuple(whole), lambda operands: self._copy(node, operands)[value.index])

    def _copy(self, node: Node, operands: Sequence[Value]) -> Sequence[Value]:
        if node not in self._copies:
            self._copies[node] = self._builder.copy(node, tuple(operands))
        return self._copies[node]


def _recipe(node: Node, window: tuple[int, int, int]) -> _Recipe | None:
    """Return how a window is made of windows of the operands, None if it is cut from the whole."""
    if len(node.types) > 1 or node.bodies:
        return None
    return _by_pieces(node, window) or _by_axis_rule(node, window)


def _cut_recipe(value: Value, window: Window) -> _Recipe:
    return _Recipe(((value, None),), lambda operands: _cut(operands[0], window))


def joined(parts: Sequence[Value], axis: int) -> Value:
    """Put values side by side along an axis."""
    if len(parts) == 1:
        return parts[0]
    return ops.concatenate(*parts, dimension=axis)  # type: ignore[no-any-return]


def _normal(value: Value, window: Window) -> Window:
    if window is None or window[2] == value.shape[window[0]]:
        return None
    return window


def _cut(value: Value, window: Window) -> Value:
    assert window is not None
    axis, start, size = window
    return slice_axis(value, axis, start, start + size)


def _cover(value: Value, windows: Sequence[Window]) -> list[tuple[int, int, int]]:
    """Return the windows that lie side by side and are the whole value together, if there are."""
    parts = sorted(window for window in windows if window is not None)
    if not parts or {part[0] for part in parts} != {parts[0][0]}:
        return []
    place = 0
    for _, start, size in parts:
        if start != place:
            return []
        place += size
    return parts if place == value.shape[parts[0][0]] else []


def _takes_apart(node: Node, pieces: Sequence[Piece], axis: int) -> bool:
    """Tell whether the op leaves out some of an operand that it reads, as a slice does."""
    whole = (node.operands[piece.operand].shape for piece in pieces)
    return any(
        shape and piece.size < shape[axis] for piece, shape in zip(pieces, whole, strict=True)
    )


def _by_pieces(node: Node, window: tuple[int, int, int]) -> _Recipe | None:
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

    return _Recipe(tuple(needs), emit) if needs else None


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


def _by_axis_rule(node: Node, window: tuple[int, int, int]) -> _Recipe | None:
    """Run the op on windows of its operands, where that gives the same bits: element by element."""
    assert node.op is not None
    if node.op.fusion not in ("loop", "view") or not node.op.pure:
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

    return _Recipe(tuple(needs), emit)


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


__all__ = ["SplitInput", "Window", "WindowEmitter", "joined"]
