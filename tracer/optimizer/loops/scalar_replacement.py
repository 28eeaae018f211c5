"""Scalar replacement: a loop over a stacked state becomes a loop over the state's parts.

The body of such a loop takes the state apart (`x[:, 0]`, unstacking), computes each part by its own
formula and joins them again. XLA does not fuse the concatenation with its several readers, so every
trip stores it. In *Operator Fusion in XLA* (Snider & Liang) it is one of two kernels of the
Cartpole simulator, and writing the parts by hand made it 3.4 times faster on a GPU. Here the parts
are carried, and the whole is joined once, after the loop.

This is scalar replacement of aggregates (Muchnick, *Advanced Compiler Design and Implementation*,
1997, section 12.2) for arrays carried by a loop. Which elements belong to which part follows from
the op records (`AxisRule`, `Op.pieces`). Only element-wise ops are computed in parts, so the bits
are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tracer import ops
from tracer.ir import Builder, Graph, Node, ShapeDtype, Value, rebuild
from tracer.ops.helpers import reshape, slice_axis
from tracer.optimizer.loops.cuts import find_cuts
from tracer.optimizer.loops.recipes import joined
from tracer.optimizer.loops.runs import is_assembled, pieces_of
from tracer.optimizer.loops.windows import SplitInput, WindowEmitter
from tracer.optimizer.model.trip_counts import trip_count
from tracer.optimizer.passes import Pass, PassLog

_MAXIMUM_PARTS = 32
"""The code of the body grows with the parts."""
_SHARE_OF_LIMIT = 8
"""Under a byte limit a state that takes more than this share of it stays whole: putting it together
after the loop takes its bytes once more."""


@dataclass(frozen=True)
class _Loop:
    """A loop with the carries that are split, by position."""

    node: Node
    split: dict[int, SplitInput]

    @property
    def body(self) -> Graph:
        found: Graph = self.node.params["body"]
        return found

    @property
    def condition(self) -> Graph:
        found: Graph = self.node.params["condition"]
        return found

    def parted(self, values: Sequence[Value]) -> list[list[Value]]:
        """Group the new loop's values by the carries of the old one."""
        left = iter(values)
        counts = [len(self.split[i].runs) if i in self.split else 1 for i in range(len(self.types))]
        return [[next(left) for _ in range(count)] for count in counts]

    @property
    def types(self) -> tuple[ShapeDtype, ...]:
        return self.node.types

    def window_types(self, i: int) -> list[ShapeDtype]:
        """Types of the parts of a carry, as slices of it."""
        split = self.split[i]
        return [self.types[i].resized(split.axis, stop - start) for start, stop in split.runs]

    def opened(self, i: int, parts: Sequence[Value]) -> list[Value]:
        """Return the slices that the carried values of the new loop replace."""
        if i not in self.split:
            return list(parts)
        types = self.window_types(i)
        return [reshape(part, type.shape) for part, type in zip(parts, types, strict=True)]

    @property
    def part_types(self) -> list[ShapeDtype]:
        """Types of the new loop's carries."""
        found: list[ShapeDtype] = []
        for i, type in enumerate(self.types):
            if i in self.split:
                found += map(_carried_type, self.window_types(i))
            else:
                found.append(type)
        return found


def _carried_type(type: ShapeDtype) -> ShapeDtype:
    """Return the type in which a part is carried: without axes of one element.

    XLA:CPU does not use vectors for a loop whose innermost axis has one element: measured 3 times
    slower for Cartpole.
    """
    return type.with_shape(n for n in type.shape if n != 1)


def scalar_replacement_pass(limit_bytes: int | None = None) -> Pass:
    """Return the pass, for a limit."""

    def run(graph: Graph, log: PassLog) -> Graph:
        found = {
            node: split
            for node in graph.nodes
            if node.op is ops.while_
            and not node.has_effect  # it would be left out: only what results need is written
            and (split := _choose(node, limit_bytes, log))
        }
        return _rewritten(graph, found) if found else graph

    return Pass("scalar replacement", run)


def _choose(node: Node, limit_bytes: int | None, log: PassLog) -> _Loop | None:
    """Return the loop with the carries that pay, or None."""
    loop = _Loop(node, _candidates(node, limit_bytes, log))
    while loop.split:
        body, joins = _new_graph(loop, loop.body, is_body=True)
        more = _new_graph(loop, loop.condition, is_body=False)[1]
        bad = {**more, **joins}
        if not bad:
            return _if_cheaper(loop, body, log)
        for i, name in bad.items():
            log.refuse(f"carry {i}, {loop.types[i]}", f"{name} needs it whole", node.source)
        loop = _Loop(node, {i: split for i, split in loop.split.items() if i not in bad})
    return None


def _candidates(node: Node, limit_bytes: int | None, log: PassLog) -> dict[int, SplitInput]:
    body: Graph = node.params["body"]
    found: dict[int, SplitInput] = {}
    for i, (before, after) in enumerate(zip(body.inputs, body.outputs, strict=True)):
        for axis in range(len(before.shape)):
            cuts = find_cuts(body, before, after, axis)
            why = _why_not(node, before.type, cuts, limit_bytes)
            if why is not None:
                log.refuse(f"carry {i}, {before.type}, axis {axis}", why, node.source)
            elif cuts and i not in found:
                found[i] = SplitInput(axis, cuts)
    return found


def _why_not(
    node: Node, type: ShapeDtype, cuts: tuple[int, ...], limit_bytes: int | None
) -> str | None:
    if not cuts:
        return None
    if len(cuts) - 1 > _MAXIMUM_PARTS:
        return f"{len(cuts) - 1} parts, more than {_MAXIMUM_PARTS}, make the body too long"
    trips = trip_count(node)
    if trips is not None and trips <= 1:
        return f"the loop runs {trips} times: to put it together after it costs as much"
    if limit_bytes is not None and type.nbytes * _SHARE_OF_LIMIT > limit_bytes:
        return "it takes much of the limit, and would exist twice while it is joined"
    return None


def _if_cheaper(loop: _Loop, body: Graph, log: PassLog) -> _Loop | None:
    """Keep the rewrite if a trip joins fewer bytes than before."""
    before, after = _assembled_bytes(loop.body), _assembled_bytes(body)
    for i, split in loop.split.items():
        shown = f"carry {i}, {loop.types[i]}"
        cost = f"{before:,} bytes put together in a trip, {after:,} in parts"
        if after < before:
            count = len(split.runs)
            log.applied.append(f"{shown}: {count} parts along axis {split.axis}; {cost}")
        else:
            log.refuse(shown, cost, loop.node.source)
    return loop if after < before else None


def _assembled_bytes(graph: Graph) -> int:
    """Return the bytes of the values that are joined from several."""
    nodes = [node for node in graph.nodes if is_assembled(node)]
    return sum(type.nbytes for node in nodes for type in node.types)


def _new_graph(loop: _Loop, graph: Graph, *, is_body: bool) -> tuple[Graph, dict[int, str]]:
    """Return the body or condition over parts, and the carries that it needs whole."""
    split = {graph.inputs[i]: parts for i, parts in loop.split.items()}
    emitter = WindowEmitter(graph, split)
    wanted = [
        (value, (loop.split[i].axis, start, stop - start))
        if is_body and i in loop.split
        else (value, None)
        for i, value in enumerate(graph.outputs)
        for start, stop in (loop.split[i].runs if is_body and i in loop.split else ((0, 0),))
    ]
    emitter.request(wanted)
    with Builder() as builder:
        inputs = loop.parted([builder.input(type) for type in loop.part_types])
        given = [loop.opened(i, parts) for i, parts in enumerate(inputs)]
        emitter.emit(builder, dict(zip(graph.inputs, given, strict=True)))
        outputs = [emitter.value(value, window) for value, window in wanted]
        if is_body:
            types = loop.part_types
            outputs = [reshape(v, type.shape) for v, type in zip(outputs, types, strict=True)]
        result = builder.finish(outputs)
    direct = {value: "the result" for value, window in wanted if window is None}
    joins = {**{v: n for v, n in direct.items() if v in split}, **emitter.joined}
    return result, {graph.inputs.index(value): name for value, name in joins.items()}


def _rewritten(graph: Graph, found: dict[Node, _Loop]) -> Graph:
    def rewrite(_: Builder, node: Node, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        return _emit(found[node], operands) if node in found else None

    return rebuild(graph, rewrite)


def _emit(loop: _Loop, operands: Sequence[Value]) -> list[Value]:
    """Write the loop over parts, what cuts them out before it and joins them after it."""
    parts: list[Value] = []
    for i, value in enumerate(operands):
        if i in loop.split:
            axis = loop.split[i].axis
            cut = [_part(value, axis, start, stop) for start, stop in loop.split[i].runs]
            parts += [reshape(part, _carried_type(part.type).shape) for part in cut]
        else:
            parts.append(value)
    body = _new_graph(loop, loop.body, is_body=True)[0]
    condition = _new_graph(loop, loop.condition, is_body=False)[0]
    found = loop.parted(ops.while_(*parts, condition=condition, body=body))
    return [
        joined(loop.opened(i, group), loop.split[i].axis) if i in loop.split else group[0]
        for i, group in enumerate(found)
    ]


def _part(value: Value, axis: int, start: int, stop: int) -> Value:
    """Cut a part out, or return what it was joined from."""
    place = 0
    for piece in (pieces_of(value.node, axis) if value.node.op is not None else None) or ():
        operand = value.node.operands[piece.operand]
        is_all = operand.shape and (piece.start, piece.size) == (0, operand.shape[axis])
        if (place, place + piece.size) == (start, stop) and is_all:
            return operand
        place += piece.size
    return slice_axis(value, axis, start, stop)


__all__ = ["scalar_replacement_pass"]
