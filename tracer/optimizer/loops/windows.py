"""Compute windows of a graph's values: which are needed, from the outputs back to the inputs.

A *window* is a run of elements along one axis of a value, with all other axes whole; None is the
whole value. If an op joins arrays (`Op.pieces`), a window of its result consists of windows of its
operands, and the rest is never computed. If the axis rule says that the axis is parallel, the op
runs on windows of its operands.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value
from tracer.ops.helpers import slice_axis
from tracer.optimizer.loops.recipes import (
    ELEMENT_WISE,
    Recipe,
    Request,
    Window,
    by_pieces,
    joined,
    takes_apart,
    window_recipe,
)
from tracer.optimizer.loops.runs import pieces_of, taken_apart


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
    held : mapping of Value to Window, optional
        Inputs of which only a window is given, and none but windows in it are read.
    kinds : collection of str, optional
        Kinds of ops (`Op.fusion`) that may run on windows; others run on whole operands.

    Attributes
    ----------
    asked : dict
        The windows that are needed of each value.
    joined : dict of Value to str
        Split inputs that something needs in one piece, with the name of the op that does: they are
        put together again.
    """

    def __init__(
        self,
        graph: Graph,
        split: Mapping[Value, SplitInput],
        held: Mapping[Value, Window] | None = None,
        kinds: Collection[str] = ELEMENT_WISE,
    ) -> None:
        self.graph = graph
        self.split = split
        self.held = held or {}
        self.kinds = kinds
        self.asked: dict[Value, dict[Window, None]] = {}
        self.joined: dict[Value, str] = {}
        self._places = {
            value: {axis for axis, _ in places}
            for carry, given in split.items()
            for value, places in taken_apart(graph, carry, given.axis)[1].items()
        }
        """Axes of values along which they belong to the parts of a split input."""
        self._recipes: dict[Request, Recipe] = {}
        self._order: dict[Node, list[tuple[int, Window]]] = {}

    def request(self, outputs: Iterable[Request]) -> None:
        """Work out what the requests need, down to the inputs."""
        for value, window in outputs:
            self._ask(value, window)
        for node in reversed(self.graph.nodes):
            loop = self._loop_recipes(node)
            for value in node.results:
                windows = list(self.asked.get(value, ()))
                for window, recipe in loop.get(value) or self._recipes_of(value, windows):
                    self._recipes[value, window] = recipe
                    self._order.setdefault(node, []).append((value.index, window))
                    for needed, part in recipe.needs:
                        if needed is not value:
                            self._ask(needed, part)
                        self._note_join(needed, part, node.name)

    def _ask(self, value: Value, window: Window) -> None:
        self.asked.setdefault(value, {})[_normal(value, window)] = None

    def _loop_recipes(self, node: Node) -> dict[Value, list[tuple[Window, Recipe]]]:
        """Return how windows of a loop's carries are made: by a loop over windows, if possible."""
        if node.op is not ops.while_:
            return {}
        asked = {value.index: list(self.asked.get(value, ())) for value in node.results}
        wanted = {index: found[0] for index, found in asked.items() if len(found) == 1}
        several = any(len(found) > 1 for found in asked.values())
        if several or all(window is None for window in wanted.values()):
            return {}
        windows = loop_windows(node, wanted, self.kinds)
        if windows is None:
            return {}
        needs = tuple([(node.operands[index], window) for index, window in windows.items()])
        places = {index: place for place, index in enumerate(windows)}

        def made(operands: Sequence[Value], index: int) -> Value:
            if node not in self._copies:
                self._copies[node] = emit_loop(node, windows, operands, self.kinds)
            return self._copies[node][places[index]]

        return {
            node.results[index]: [(window, Recipe(needs, partial(made, index=index)))]
            for index, window in wanted.items()
        }

    def _recipes_of(self, value: Value, windows: list[Window]) -> list[tuple[Window, Recipe]]:
        """Return how the windows of a value are made, in an order in which they can be."""
        parts = [window for window in windows if window is not None]
        made = [(window, window_recipe(value.node, window, self.kinds)) for window in parts]
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
        held = self.held.get(value)
        if held is not None:
            assert window is not None
            return _cut(given[0], (window[0], window[1] - held[1], window[2]))
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

    def _whole(self, value: Value, windows: Sequence[Window]) -> Recipe:
        """Return how a whole value is made: of windows that are made anyway, if they cover it."""
        node = value.node
        parts = _cover(value, windows)
        if parts:
            axis = parts[0][0]
            needs: list[Request] = [(value, part) for part in parts]
            return Recipe(tuple(needs), lambda operands: joined(operands, axis))
        if len(node.types) == 1:
            parted = {axis for operand in node.operands for axis in self._places.get(operand, ())}
            for axis in sorted(range(node.types[0].ndim), key=lambda axis: axis not in parted):
                pieces = pieces_of(node, axis)
                if pieces is not None and takes_apart(node, pieces, axis):
                    recipe = by_pieces(node, (axis, 0, node.types[0].shape[axis]))
                    if recipe is not None:
                        return recipe
        whole: list[Request] = [(operand, None) for operand in node.operands]
        return Recipe(tuple(whole), lambda operands: self._copy(node, operands)[value.index])

    def _copy(self, node: Node, operands: Sequence[Value]) -> Sequence[Value]:
        if node not in self._copies:
            self._copies[node] = self._builder.copy(node, tuple(operands))
        return self._copies[node]


def _cut_recipe(value: Value, window: Window) -> Recipe:
    return Recipe(((value, None),), lambda operands: _cut(operands[0], window))


def loop_windows(
    node: Node, wanted: Mapping[int, Window], kinds: Collection[str]
) -> dict[int, Window] | None:
    """Return the windows of its carries that a loop over windows has, None if there is none.

    A carry that the wanted ones do not depend on is left out. One that has to be whole makes those
    whole that it is computed from.
    """
    body, condition = node.params["body"], node.params["condition"]
    windows = dict(wanted)
    test = WindowEmitter(condition, {}, kinds=kinds)
    test.request([(condition.outputs[0], None)])
    windows.update((i, None) for i, value in enumerate(condition.inputs) if value in test.asked)
    is_settled = False
    while not is_settled:
        inner = WindowEmitter(body, {}, kinds=kinds)
        inner.request([(body.outputs[i], window) for i, window in windows.items()])
        before = dict(windows)
        for i, value in enumerate(body.inputs):
            found = set(inner.asked.get(value, ()))
            if found:
                (window,) = found if len(found) == 1 else (None,)
                windows[i] = window if windows.get(i, window) == window else None
        is_settled = windows == before
    return windows if all(windows[i] == window for i, window in wanted.items()) else None


def emit_loop(
    node: Node, windows: Mapping[int, Window], operands: Sequence[Value], kinds: Collection[str]
) -> Sequence[Value]:
    """Write a loop over windows of its carries; returns the carries that are kept."""
    types = [value.type for value in operands]
    graphs = {}
    for name in ("condition", "body"):
        graph: Graph = node.params[name]
        held = {graph.inputs[i]: window for i, window in windows.items() if window is not None}
        asked = windows if name == "body" else {0: None}
        wanted = [(graph.outputs[i], window) for i, window in asked.items()]
        emitter = WindowEmitter(graph, {}, held, kinds)
        emitter.request(wanted)
        with Builder() as builder:
            inputs = [builder.input(type) for type in types]
            given = {graph.inputs[i]: [x] for i, x in zip(windows, inputs, strict=True)}
            emitter.emit(builder, given)
            graphs[name] = builder.finish([emitter.value(*request) for request in wanted])
    results: Sequence[Value] = ops.while_(*operands, **graphs)
    return results


def _normal(value: Value, window: Window) -> Window:
    if window is None or window[2] == value.shape[window[0]]:
        return None
    return window


def _cut(value: Value, window: Window) -> Value:
    assert window is not None
    axis, start, size = window
    return slice_axis(value, axis, start, start + size)


def _cover(value: Value, windows: Sequence[Window]) -> list[tuple[int, int, int]]:
    """Return windows that are adjacent and together the whole value, if there are any."""
    parts = sorted(window for window in windows if window is not None)
    if not parts or {part[0] for part in parts} != {parts[0][0]}:
        return []
    place = 0
    for _, start, size in parts:
        if start != place:
            return []
        place += size
    return parts if place == value.shape[parts[0][0]] else []


__all__ = ["SplitInput", "WindowEmitter"]
